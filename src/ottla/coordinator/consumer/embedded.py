"""What classic consumers say to each other through JoinGroup and SyncGroup, which the coordinator
reads and writes for those that are in a consumer group: the embedded consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from ottla.coordinator.consumer.member import NOTHING, Target, TopicPartition
from ottla.coordinator.kinds import Topics
from ottla.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.primitives import MalformedError, Writer

_INT16: Final = Struct(">h")
_VERSION_MAX: Final = 3  # a later one begins as this one does


def version_of(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise MalformedError("no version")
    version: int = _INT16.unpack_from(data, 0)[0]
    if version < 0:
        raise MalformedError(f"version {version}")
    return min(version, _VERSION_MAX)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    version = version_of(data)
    return ConsumerProtocolSubscription.read(data, _INT16.size, version)[0]


def owned_partitions(
    subscription: ConsumerProtocolSubscription, topics: Topics
) -> frozenset[TopicPartition]:
    known = topics.by_name
    return frozenset(
        (known[each.topic].id, index)
        for each in subscription.owned_partitions
        if each.topic in known
        for index in each.partitions
    )


def read_assignment(data: bytes, topics: Topics) -> Target:
    """The partitions of an assignment; a leader may also assign nothing at all."""
    if not data:
        return NOTHING
    assignment, _ = ConsumerProtocolAssignment.read(data, _INT16.size, version_of(data))
    known = topics.by_name
    return frozenset(
        (known[each.topic].id, index)
        for each in assignment.assigned_partitions
        if each.topic in known
        for index in each.partitions
    )


def write_assignment(partitions: Iterable[TopicPartition], topics: Topics, version: int) -> bytes:
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
