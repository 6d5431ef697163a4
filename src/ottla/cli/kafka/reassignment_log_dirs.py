"""Log directories in the plans of kafka-reassign-partitions.

A replica gets its directory from its broker, and stays in it. So a plan may name a directory where
there is no choice, as the plan for a rollback does; that is all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.cli.kafka.tool import ToolError
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.errors import KafkaError

Replica = tuple[TopicPartition, int]
"""A partition on a broker."""


def directories_of(admin: Admin, brokers: Iterable[int]) -> dict[Replica, str]:
    """Where replicas lie; brokers that can't be asked are left out."""
    found: dict[Replica, str] = {}
    for broker in sorted(set(brokers)):
        try:
            for directory in admin.log_dirs(broker):
                found |= {(place, broker): directory.path for place in directory.replicas}
        except KafkaError:
            continue
    return found


def check_directories(admin: Admin, wanted: Mapping[Replica, str]) -> None:
    """ToolError where a broker has a choice, and so might put a replica elsewhere."""
    known = {
        broker: {each.path for each in admin.log_dirs(broker)}
        for broker in sorted({broker for _, broker in wanted})
    }
    for (place, broker), path in wanted.items():
        if known[broker] != {path}:
            raise ToolError(
                f"{place}: broker {broker} chooses a log directory by itself, and can't be told to"
                f' use {path}: log_dirs must be "any"'
            )


def report(wanted: Mapping[Replica, str], present: Mapping[Replica, str]) -> str:
    """What --verify says of them; an empty line where there are none, as Kafka prints it."""
    lines = []
    for (place, broker), path in sorted(wanted.items(), key=lambda each: (each[0][1], each[0][0])):
        now = present.get((place, broker))
        if now is None:
            lines.append(
                f"Partition {place} cannot be found in any live log directory on broker {broker}."
            )
        elif now == path:
            lines.append(f"Reassignment of replica {place}-{broker} completed successfully.")
        else:
            lines.append(
                f"Partition {place} on broker {broker} is not being moved from log dir {now} to"
                f" {path}."
            )
    return "\n".join(lines)
