"""Groups: list, describe and delete them, and change their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions

from ottla.client.admin_session import AdminSession
from ottla.client.committed_offsets import OffsetAndMetadata, committed_offsets
from ottla.client.group_descriptions import GroupDescription, describe_consumer_groups
from ottla.client.kafka_errors import kafka_error_of
from ottla.client.protocol.connection import check
from ottla.client.protocol.coordinators import KeyType, by_coordinator, coordinators_of
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, with_retries
from ottla.client.record import TopicPartition
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
    """`protocol` is "consumer", "connect", "share", ...; "" for a group with offsets only."""

    name: str
    state: str
    type: str
    protocol: str = ""

    @property
    def of_consumers(self) -> bool:
        """Kafka's consumer groups: those of KIP-848, and classic groups of consumers."""
        if self.type == "Classic":
            return self.protocol in ("consumer", "")
        return self.type == "Consumer"


Listings = list[GroupListing]
Names = list[str]


class GroupAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> Listings:
        """The consumer groups of all brokers."""
        return [
            listing for listing in self.list_all(states=states, types=types) if listing.of_consumers
        ]

    def list_all(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> Listings:
        """The groups of every type, of all brokers."""
        request = ListGroupsRequest([*states], [*types])
        found: dict[str, GroupListing] = {}
        for node_id in self._session.connections.nodes():
            ask = partial(self._list_on, node_id, request)
            for listing in with_retries(self._session.timeout_s, ask):
                found[listing.name] = listing
        return [*found.values()]

    def describe(self, *names: str) -> dict[str, GroupDescription | KafkaError]:
        """For each group its description, or the error. Unknown groups are described as dead."""
        return describe_consumer_groups(self._session, names)

    def delete(self, *names: str) -> dict[str, KafkaError | None]:
        """Delete groups of any type; for each None, or why it still exists."""
        session = self._session
        results: dict[str, KafkaError | None] = {}
        for node_id, group in by_coordinator(session, KeyType.GROUP, names).items():
            results |= with_retries(session.timeout_s, partial(self._delete_on, node_id, group))
        return {name: results[name] for name in names}

    def offsets(self, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of all partitions."""
        return committed_offsets(self._session, name)

    def alter_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int], *, metadata: str | None = None
    ) -> None:
        """Set the group's offsets. It must have no members that read these topics."""
        if not offsets:
            return
        session = self._session
        metadata_field = () if metadata is None else (metadata,)  # librdkafka refuses None
        part = ConsumerGroupTopicPartitions(
            name,
            [
                confluent_kafka.TopicPartition(*partition, offset, *metadata_field)
                for partition, offset in offsets.items()
            ],
        )
        futures = session.call(
            session.librdkafka.alter_consumer_group_offsets,
            [part],
            request_timeout=session.timeout_s,
        )
        for result in session.wait(futures[name]).topic_partitions:
            if result.error is not None:
                raise kafka_error_of(result.error)

    def delete_offsets(
        self, name: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete the group's offsets (KIP-496), which librdkafka's client can't."""
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(
                OffsetDeleteRequestPartition(partition.partition)
            )
        request = OffsetDeleteRequest(
            group_id=name,
            topics=[OffsetDeleteRequestTopic(topic, found) for topic, found in topics.items()],
        )

        def ask() -> OffsetDeleteResponse:
            node_id = self.coordinator(name)
            answer = self._session.connections.call(
                request, ApiKey.OFFSET_DELETE, OffsetDeleteResponse, node_id=node_id
            )
            check(answer.error_code, "", ApiKey.OFFSET_DELETE, name)
            return answer

        answer = with_retries(self._session.timeout_s, ask)
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
        answer = self._session.connections.call(
            request, ApiKey.LIST_GROUPS, ListGroupsResponse, node_id=node_id
        )
        check(answer.error_code, "", ApiKey.LIST_GROUPS)
        return [
            GroupListing(
                group.group_id,
                group.group_state or "Unknown",
                group.group_type.title() or "Classic",
                group.protocol_type,
            )
            for group in answer.groups
        ]

    def _delete_on(self, node_id: int, names: Names) -> dict[str, KafkaError | None]:
        answer = self._session.connections.call(
            DeleteGroupsRequest(names), ApiKey.DELETE_GROUPS, DeleteGroupsResponse, node_id=node_id
        )
        for result in answer.results:
            if result.error_code in COORDINATOR_RETRIABLE:
                raise KafkaError(ErrorCode(result.error_code))
        return {
            result.group_id: KafkaError(ErrorCode(result.error_code)) if result.error_code else None
            for result in answer.results
        }
