"""Consumer groups: who is in them, and how far they have read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType

from ottla.client.failures import failure_of
from ottla.client.lines import Node, check
from ottla.client.record import TopicPartition
from ottla.client.session import Session
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

_STATES: Final = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.UNKNOWN: "Unknown",
}

_TYPES: Final = {
    ConsumerGroupType.CLASSIC: "Classic",
    ConsumerGroupType.CONSUMER: "Consumer",
    ConsumerGroupType.UNKNOWN: "Unknown",
}

_GROUP_KEY: Final = 0


@dataclass(slots=True, frozen=True)
class GroupListing:
    name: str
    state: str
    type: str


@dataclass(slots=True, frozen=True)
class Member:
    id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: tuple[TopicPartition, ...]


@dataclass(slots=True, frozen=True)
class GroupDescription:
    name: str
    state: str
    type: str
    assignor: str
    coordinator: Node
    members: tuple[Member, ...]


@dataclass(slots=True, frozen=True)
class Committed:
    """How far a group has read a partition."""

    offset: int
    leader_epoch: int | None = None
    metadata: str | None = None


class Groups:
    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[GroupListing]:
        session = self._session
        future = session.call(
            session.librdkafka.list_consumer_groups, request_timeout=session.timeout_s
        )
        found = session.wait(future)
        for error in found.errors or ():
            raise failure_of(error)
        return [_listing(each) for each in found.valid]

    def describe(self, *names: str) -> dict[str, GroupDescription | KafkaError]:
        """For each group its description, or why there is none. A group nobody knows is dead."""
        session = self._session
        futures = session.call(
            session.librdkafka.describe_consumer_groups,
            list(names),
            request_timeout=session.timeout_s,
        )
        return session.wait_each(futures, _description)

    def delete(self, *names: str) -> dict[str, KafkaError | None]:
        session = self._session
        futures = session.call(
            session.librdkafka.delete_consumer_groups,
            list(names),
            request_timeout=session.timeout_s,
        )
        return session.wait_each(futures)

    def offsets(self, name: str) -> dict[TopicPartition, Committed]:
        """What the group has committed, of all partitions."""
        session = self._session
        futures = session.call(
            session.librdkafka.list_consumer_group_offsets,
            [ConsumerGroupTopicPartitions(name)],
            request_timeout=session.timeout_s,
        )
        found = session.wait(futures[name])
        committed = {}
        for each in found.topic_partitions:
            if each.error is not None:
                raise failure_of(each.error)
            if each.offset >= 0:
                committed[TopicPartition(each.topic, each.partition)] = Committed(
                    each.offset, each.leader_epoch, each.metadata
                )
        return committed

    def alter_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Make these the group's offsets. It must have no members that read these topics."""
        if not offsets:
            return
        session = self._session
        wish = ConsumerGroupTopicPartitions(
            name,
            [confluent_kafka.TopicPartition(*each, offset) for each, offset in offsets.items()],
        )
        futures = session.call(
            session.librdkafka.alter_consumer_group_offsets,
            [wish],
            request_timeout=session.timeout_s,
        )
        for each in session.wait(futures[name]).topic_partitions:
            if each.error is not None:
                raise failure_of(each.error)

    def delete_offsets(
        self, name: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forget how far the group has read these (KIP-496); librdkafka's client can't."""
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for each in partitions:
            topics.setdefault(each.topic, []).append(OffsetDeleteRequestPartition(each.partition))
        request = OffsetDeleteRequest(
            group_id=name,
            topics=[OffsetDeleteRequestTopic(topic, found) for topic, found in topics.items()],
        )
        answer = self._session.lines.call(
            request,
            ApiKey.OFFSET_DELETE,
            OffsetDeleteResponse,
            node_id=self.coordinator(name),
        )
        check(answer.error_code, "")
        return {
            TopicPartition(topic.name, part.partition_index): (
                KafkaError(ErrorCode(part.error_code)) if part.error_code else None
            )
            for topic in answer.topics
            for part in topic.partitions
        }

    def coordinator(self, name: str) -> int:
        """The id of the broker that coordinates the group."""
        request = FindCoordinatorRequest(key=name, key_type=_GROUP_KEY, coordinator_keys=[name])
        answer: Any = self._session.lines.call(
            request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse
        )
        found = answer.coordinators[0] if answer.coordinators else answer
        check(found.error_code, found.error_message)
        return int(found.node_id)


def _listing(found: Any) -> GroupListing:
    state = getattr(found, "state", ConsumerGroupState.UNKNOWN)
    kind = getattr(found, "type", ConsumerGroupType.UNKNOWN)
    return GroupListing(found.group_id, _state(state), _TYPES.get(kind, "Unknown"))


def _description(found: Any) -> GroupDescription:
    node = found.coordinator
    return GroupDescription(
        found.group_id,
        _state(found.state),
        _TYPES.get(found.type, "Unknown"),
        found.partition_assignor or "",
        Node(node.id, node.host, node.port, getattr(node, "rack", None)),
        tuple(_member(each) for each in found.members),
    )


def _member(found: Any) -> Member:
    assigned = found.assignment.topic_partitions if found.assignment else ()
    return Member(
        found.member_id,
        found.client_id,
        found.host,
        found.group_instance_id,
        tuple(sorted(TopicPartition(each.topic, each.partition) for each in assigned)),
    )


def _state(state: Any) -> str:
    """Kafka's spelling; a state of KIP-848 that librdkafka learns later keeps its own."""
    known = _STATES.get(state)
    return known if known is not None else str(state.name).title().replace("_", "")
