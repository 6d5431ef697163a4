"""Groups: which there are, who is in them, and how far they have read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions

from ottla.client.committed import Committed, committed_offsets
from ottla.client.describing import GroupDescription, describe_consumer_groups
from ottla.client.failures import failure_of
from ottla.client.protocol.connection import check
from ottla.client.protocol.coordinators import KeyType, by_coordinator, coordinators_of
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, patiently
from ottla.client.record import TopicPartition
from ottla.client.session import Session
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


@dataclass(slots=True, frozen=True)
class GroupListing:
    """`protocol` is "consumer", "connect", "share", ...; "" for a group of offsets alone."""

    name: str
    state: str
    type: str
    protocol: str = ""

    @property
    def of_consumers(self) -> bool:
        """Kafka's consumer groups: those of KIP-848, and classic ones that consumers are in."""
        if self.type == "Classic":
            return self.protocol in ("consumer", "")
        return self.type == "Consumer"


Listings = list[GroupListing]
Names = list[str]


class Groups:
    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> Listings:
        """The groups of consumers that all brokers know."""
        return [each for each in self.list_all(states=states, types=types) if each.of_consumers]

    def list_all(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> Listings:
        """The groups of every type that all brokers know."""
        request = ListGroupsRequest([*states], [*types])
        found: dict[str, GroupListing] = {}
        for node_id in self._session.lines.nodes():
            ask = partial(self._list_on, node_id, request)
            for each in patiently(self._session.timeout_s, ask):
                found[each.name] = each
        return [*found.values()]

    def describe(self, *names: str) -> dict[str, GroupDescription | KafkaError]:
        """For each group its description, or why there is none. A group nobody knows is dead."""
        return describe_consumer_groups(self._session, names)

    def delete(self, *names: str) -> dict[str, KafkaError | None]:
        """Delete groups of any type; for each None, or why it is still there."""
        session = self._session
        results: dict[str, KafkaError | None] = {}
        for node_id, group in by_coordinator(session, KeyType.GROUP, names).items():
            results |= patiently(session.timeout_s, partial(self._delete_on, node_id, group))
        return {name: results[name] for name in names}

    def offsets(self, name: str) -> dict[TopicPartition, Committed]:
        """What the group has committed, of all partitions."""
        return committed_offsets(self._session, name)

    def alter_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int], *, metadata: str | None = None
    ) -> None:
        """Make these the group's offsets. It must have no members that read these topics."""
        if not offsets:
            return
        session = self._session
        said = () if metadata is None else (metadata,)  # librdkafka takes no None
        wish = ConsumerGroupTopicPartitions(
            name,
            [
                confluent_kafka.TopicPartition(*each, offset, *said)
                for each, offset in offsets.items()
            ],
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

        def ask() -> OffsetDeleteResponse:
            node_id = self.coordinator(name)
            answer = self._session.lines.call(
                request, ApiKey.OFFSET_DELETE, OffsetDeleteResponse, node_id=node_id
            )
            check(answer.error_code, "", ApiKey.OFFSET_DELETE, name)
            return answer

        answer = patiently(self._session.timeout_s, ask)
        return {
            TopicPartition(topic.name, part.partition_index): (
                KafkaError(ErrorCode(part.error_code)) if part.error_code else None
            )
            for topic in answer.topics
            for part in topic.partitions
        }

    def coordinator(self, name: str) -> int:
        """The id of the broker that coordinates the group."""
        return coordinators_of(self._session, KeyType.GROUP, [name])[name]

    def _list_on(self, node_id: int, request: ListGroupsRequest) -> Listings:
        answer = self._session.lines.call(
            request, ApiKey.LIST_GROUPS, ListGroupsResponse, node_id=node_id
        )
        check(answer.error_code, "", ApiKey.LIST_GROUPS)
        return [
            GroupListing(
                each.group_id,
                each.group_state or "Unknown",
                each.group_type.title() or "Classic",
                each.protocol_type,
            )
            for each in answer.groups
        ]

    def _delete_on(self, node_id: int, names: Names) -> dict[str, KafkaError | None]:
        answer = self._session.lines.call(
            DeleteGroupsRequest(names), ApiKey.DELETE_GROUPS, DeleteGroupsResponse, node_id=node_id
        )
        for each in answer.results:
            if each.error_code in COORDINATOR_RETRIABLE:
                raise KafkaError(ErrorCode(each.error_code))
        return {
            each.group_id: KafkaError(ErrorCode(each.error_code)) if each.error_code else None
            for each in answer.results
        }
