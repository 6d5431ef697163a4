"""Topics: create, delete, describe, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]
from confluent_kafka.admin import NewTopic as _NewTopic  # type: ignore[attr-defined]

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
PARTITIONS_PER_RESPONSE: Final = 2000


@dataclass(slots=True, frozen=True)
class NewTopic:
    """A topic to create. None means the broker's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    replicas: tuple[tuple[int, ...], ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class PartitionDescription:
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None  # None: the broker does not say (KIP-966)
    last_known_elr: tuple[int, ...] | None = None


@dataclass(slots=True, frozen=True)
class TopicDescription:
    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionDescription, ...]


class TopicAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def names(self, *, internal: bool = True) -> list[str]:
        session = self._session
        found = session.call(session.librdkafka.list_topics, timeout=session.timeout_s)
        return sorted(topic for topic in found.topics if internal or topic not in INTERNAL)

    def create(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        replicas: Iterable[Iterable[int]] = (),
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        assignment = tuple(tuple(broker_ids) for broker_ids in replicas)
        new_topic = NewTopic(name, partitions, replication_factor, assignment, configs or {})
        result = self.create_all([new_topic], validate_only=validate_only)[name]
        if result is not None:
            raise result

    def create_all(
        self, new_topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """For each topic None, or why it could not be created."""
        session = self._session
        created = [_as_librdkafka(topic) for topic in new_topics]
        futures = session.call(
            session.librdkafka.create_topics,
            created,
            validate_only=validate_only,
            request_timeout=session.timeout_s,
        )
        return session.wait_each(futures, api_key=ApiKey.CREATE_TOPICS)

    def delete(self, *names: str) -> dict[str, KafkaError | None]:
        """For each topic None, or why it could not be deleted."""
        session = self._session
        futures = session.call(
            session.librdkafka.delete_topics, list(names), request_timeout=session.timeout_s
        )
        return session.wait_each(futures, api_key=ApiKey.DELETE_TOPICS)

    def grow(self, name: str, partitions: int, replicas: Iterable[Iterable[int]] = ()) -> None:
        """Add partitions, up to `partitions` in all; `replicas` are those of the new ones."""
        session = self._session
        assignment = [list(broker_ids) for broker_ids in replicas]
        growth = (
            NewPartitions(name, partitions, assignment)
            if assignment
            else NewPartitions(name, partitions)
        )
        futures = session.call(
            session.librdkafka.create_partitions, [growth], request_timeout=session.timeout_s
        )
        session.wait(futures[name])

    def describe(
        self, *names: str, partitions_per_response: int = PARTITIONS_PER_RESPONSE
    ) -> dict[str, TopicDescription | KafkaError]:
        """For each topic its description, or the error."""
        if ApiKey.DESCRIBE_TOPIC_PARTITIONS in self._session.connections.first.versions:
            return self._describe(names, partitions_per_response)
        return self._describe_by_metadata(names)

    def name_of(self, topic_id: bytes) -> str:
        """The name of the topic with this id (KIP-516)."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=topic_id)], allow_auto_topic_creation=False
        )
        answer = self._session.connections.call(request, ApiKey.METADATA, MetadataResponse)
        for topic in answer.topics:
            check(topic.error_code, "", ApiKey.METADATA, topic.name or "")
            if topic.name is not None:
                return topic.name
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)

    def _describe(
        self, names: Iterable[str], limit: int
    ) -> dict[str, TopicDescription | KafkaError]:
        results: dict[str, TopicDescription | KafkaError] = {}
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name) for name in sorted(set(names))],
            response_partition_limit=limit,
        )
        while True:  # each response adds a partition, or its cursor is None
            answer = self._session.connections.call(
                request, ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsResponse
            )
            for topic in answer.topics:
                _add(results, topic)
            if answer.next_cursor is None:
                return results
            request.cursor = answer.next_cursor

    def _describe_by_metadata(
        self, names: Iterable[str]
    ) -> dict[str, TopicDescription | KafkaError]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in sorted(set(names))],
            allow_auto_topic_creation=False,
        )
        answer = self._session.connections.call(request, ApiKey.METADATA, MetadataResponse)
        results: dict[str, TopicDescription | KafkaError] = {}
        for topic in answer.topics:
            _add(results, topic)
        return results


def _add(results: dict[str, TopicDescription | KafkaError], topic: Any) -> None:
    """A topic of either response; the parts of a topic from two responses are joined."""
    name = topic.name or ""
    if topic.error_code:
        results[name] = KafkaError(ErrorCode(topic.error_code))
        return
    earlier = results.get(name)
    before = earlier.partitions if isinstance(earlier, TopicDescription) else ()
    partitions = (*before, *(_partition(partition) for partition in topic.partitions))
    results[name] = TopicDescription(
        name,
        topic.topic_id or ZERO_UUID,
        topic.is_internal,
        tuple(sorted(partitions, key=lambda partition: partition.partition)),
    )


def _partition(found: Any) -> PartitionDescription:
    elr = getattr(found, "eligible_leader_replicas", None)
    last = getattr(found, "last_known_elr", None)
    return PartitionDescription(
        found.partition_index,
        found.leader_id,
        found.leader_epoch,
        tuple(found.replica_nodes),
        tuple(found.isr_nodes),
        tuple(found.offline_replicas),
        None if elr is None else tuple(elr),
        None if last is None else tuple(last),
    )


def _as_librdkafka(new_topic: NewTopic) -> _NewTopic:
    named: dict[str, Any] = {"config": dict(new_topic.configs)}
    if new_topic.replicas:
        named["replica_assignment"] = [list(broker_ids) for broker_ids in new_topic.replicas]
        return _NewTopic(new_topic.name, len(new_topic.replicas), **named)
    if new_topic.replication_factor is not None:
        named["replication_factor"] = new_topic.replication_factor
    return _NewTopic(
        new_topic.name, -1 if new_topic.partitions is None else new_topic.partitions, **named
    )
