"""The embedded consumer protocol: subscriptions and assignments in JoinGroup and SyncGroup.

Classic consumers exchange them through the coordinator, which reads and writes them for the classic
members of consumer groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from ottla.coordinator.consumer.member import NO_PARTITIONS, PartitionSet, TopicIdPartition
from ottla.coordinator.group_type import TopicsImage
from ottla.wire.fields import MalformedError, Writer
from ottla.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_INT16: Final = Struct(">h")
_VERSION_MAX: Final = 3  # a later version starts with the same fields


def consumer_protocol_version(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise MalformedError("no version")
    version: int = _INT16.unpack_from(data, 0)[0]
    if version < 0:
        raise MalformedError(f"version {version}")
    return min(version, _VERSION_MAX)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    version = consumer_protocol_version(data)
    return ConsumerProtocolSubscription.read(data, _INT16.size, version)[0]


def owned_partitions(
    subscription: ConsumerProtocolSubscription, topics: TopicsImage
) -> frozenset[TopicIdPartition]:
    known = topics.by_name
    return frozenset(
        (known[topic.topic].id, index)
        for topic in subscription.owned_partitions
        if topic.topic in known
        for index in topic.partitions
    )


def read_assignment(data: bytes, topics: TopicsImage) -> PartitionSet:
    """The partitions of an assignment, which may be empty bytes."""
    if not data:
        return NO_PARTITIONS
    assignment, _ = ConsumerProtocolAssignment.read(
        data, _INT16.size, consumer_protocol_version(data)
    )
    known = topics.by_name
    return frozenset(
        (known[topic.topic].id, index)
        for topic in assignment.assigned_partitions
        if topic.topic in known
        for index in topic.partitions
    )


def write_assignment(
    partitions: Iterable[TopicIdPartition], topics: TopicsImage, version: int
) -> bytes:
    by_name: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions):
        name = topics.names.get(topic_id)
        if name is not None:
            by_name.setdefault(name, []).append(index)
    writer = Writer()
    writer.buffer += _INT16.pack(version)
    assigned = [AssignedTopic(name, indexes) for name, indexes in by_name.items()]
    ConsumerProtocolAssignment(assigned).write(writer, version)
    return bytes(writer.buffer)
