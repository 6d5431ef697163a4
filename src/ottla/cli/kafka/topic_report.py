"""The output of kafka-topics --describe."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.admin import Admin
from ottla.client.configs import ConfigEntry, ConfigSource
from ottla.client.reassignments import Reassignment
from ottla.client.record import TopicPartition
from ottla.client.topics import PARTITIONS_PER_RESPONSE, PartitionDescription, TopicDescription
from ottla.errors import ErrorCode, KafkaError

# A topic's Configs line has configs set for the topic, for its brokers or in a file.
_SAID = frozenset(
    {
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.STATIC_BROKER_CONFIG,
    }
)


ReassignmentsByPartition = dict[TopicPartition, Reassignment]


@dataclass(slots=True, frozen=True)
class ReportFilter:
    """Selects topics and partitions: all, those with overrides, or those of one report."""

    overrides_only: bool = False
    report: str | None = None


def print_topics(
    admin: Admin, names: Iterable[str], shown: ReportFilter, partitions_per_response: int | None
) -> None:
    limit = partitions_per_response or PARTITIONS_PER_RESPONSE
    described = admin.topics.describe(*names, partitions_per_response=limit)
    for error in described.values():
        if isinstance(error, KafkaError):
            raise error
    topics = [topic for topic in described.values() if isinstance(topic, TopicDescription)]
    configs = admin.configs.describe_topics([described_topic.name for described_topic in topics])
    live = {node.id for node in admin.cluster().nodes}
    moving = _reassignments(admin, topics)
    for topic in topics:
        own = configs[topic.name]
        if isinstance(own, KafkaError):
            if own.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue  # deleted meanwhile
            raise own
        shown_configs = [config for config in own if config.source in _SAID]
        if shown.report is None and (shown_configs or not shown.overrides_only):
            print(topic_line(topic, shown_configs, moving))
        if not shown.overrides_only:
            needed = min_insync_replicas(own)
            for part in topic.partitions:
                reassignment = moving.get(TopicPartition(topic.name, part.partition))
                if shown.report is None or is_in(part, shown.report, needed, live, reassignment):
                    print(partition_line(topic.name, part, reassignment))


def topic_line(
    topic: TopicDescription, configs: Iterable[ConfigEntry], moving: ReassignmentsByPartition
) -> str:
    topic_id = base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
    factor = 0
    if topic.partitions:
        first = topic.partitions[0]
        factor = _factor(first, moving.get(TopicPartition(topic.name, first.partition)))
    config_text = ",".join(f"{config.name}={config.value}" for config in configs)
    return (
        f"Topic: {topic.name}\tTopicId: {topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {config_text}"
    )


def partition_line(
    topic: str, part: PartitionDescription, reassignment: Reassignment | None
) -> str:
    leader = str(part.leader) if part.leader >= 0 else "none"
    elr = "N/A" if part.elr is None else _ids(part.elr)
    last = "N/A" if part.last_known_elr is None else _ids(part.last_known_elr)
    moves = ""
    if reassignment is not None:
        moves = (
            f"\tAdding Replicas: {_ids(reassignment.adding)}"
            f"\tRemoving Replicas: {_ids(reassignment.removing)}"
        )
    return (
        f"\tTopic: {topic}\tPartition: {part.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(part.replicas)}\tIsr: {_ids(part.isr)}{moves}\tElr: {elr}"
        f"\tLastKnownElr: {last}"
    )


def is_in(
    part: PartitionDescription,
    report: str,
    needed: int,
    live: set[int],
    reassignment: Reassignment | None,
) -> bool:
    if report == "under-replicated-partitions":
        return len(part.isr) < _factor(part, reassignment)
    if report == "unavailable-partitions":
        return part.leader not in live
    if report == "under-min-isr-partitions":
        return len(part.isr) < needed
    assert report == "at-min-isr-partitions"
    return len(part.isr) == needed


def min_insync_replicas(configs: Iterable[ConfigEntry]) -> int:
    for config in configs:
        if config.name == "min.insync.replicas":
            return int(config.value or 1)
    return 1


def _factor(part: PartitionDescription, reassignment: Reassignment | None) -> int:
    """Replicas that are still being added do not count."""
    return len(part.replicas) - (len(reassignment.adding) if reassignment is not None else 0)


def _reassignments(admin: Admin, topics: Iterable[TopicDescription]) -> ReassignmentsByPartition:
    """Ongoing reassignments; empty if the cluster does not support the request."""
    partitions = [
        TopicPartition(topic.name, part.partition) for topic in topics for part in topic.partitions
    ]
    try:
        return admin.reassignments.list(partitions)
    except KafkaError:
        return {}


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
