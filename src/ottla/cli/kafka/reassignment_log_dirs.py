"""Log directories in the reassignments of kafka-reassign-partitions.

A broker chooses a replica's directory when it creates the replica. So a reassignment may name a
directory only if the broker has no choice, as in the reassignment for a rollback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.cli.kafka.tool import ToolError
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.errors import KafkaError

Replica = tuple[TopicPartition, int]
"""A partition on a broker."""


def log_dirs_of(admin: Admin, brokers: Iterable[int]) -> dict[Replica, str]:
    """The directories of replicas, without those of unreachable brokers."""
    found: dict[Replica, str] = {}
    for broker in sorted(set(brokers)):
        try:
            for directory in admin.log_dirs(broker):
                found |= {(partition, broker): directory.path for partition in directory.replicas}
        except KafkaError:
            continue
    return found


def check_directories(admin: Admin, wanted: Mapping[Replica, str]) -> None:
    """ToolError for a broker that has a choice, and so might put the replica elsewhere."""
    known = {
        broker: {log_dir.path for log_dir in admin.log_dirs(broker)}
        for broker in sorted({broker for _, broker in wanted})
    }
    for (partition, broker), path in wanted.items():
        if known[broker] != {path}:
            raise ToolError(
                f"{partition}: broker {broker} chooses the log directory itself:"
                f' log_dirs must be "any", not {path}'
            )


def report(wanted: Mapping[Replica, str], present: Mapping[Replica, str]) -> str:
    """The part of --verify about log directories; as in Kafka an empty line if there are none."""
    lines = []
    for (partition, broker), path in sorted(
        wanted.items(), key=lambda item: (item[0][1], item[0][0])
    ):
        now = present.get((partition, broker))
        if now is None:
            lines.append(
                f"Partition {partition} cannot be found in any live log directory on broker"
                f" {broker}."
            )
        elif now == path:
            lines.append(f"Reassignment of replica {partition}-{broker} completed successfully.")
        else:
            lines.append(
                f"Partition {partition} on broker {broker} is not being moved from log dir {now} to"
                f" {path}."
            )
    return "\n".join(lines)
