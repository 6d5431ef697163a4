"""Partition reassignments (KIP-455) and leader elections (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

Results = dict[TopicPartition, KafkaError | None]


class ElectionType(IntEnum):
    """Of the preferred replica, or of any live one if there is no leader. Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(slots=True, frozen=True)
class Reassignment:
    """A partition that is being moved: its replicas, and those added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignmentAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def list(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Ongoing reassignments, of these partitions or of all."""
        requested = None
        if partitions is not None:
            requested = [
                ListPartitionReassignmentsTopics(topic, indexes)
                for topic, indexes in _by_topic(partitions).items()
            ]
        answer = self._session.connections.call(
            ListPartitionReassignmentsRequest(self._timeout_ms, requested),
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ListPartitionReassignmentsResponse,
        )
        api_key = ApiKey.LIST_PARTITION_REASSIGNMENTS
        check(answer.error_code, answer.error_message, api_key)
        return {
            TopicPartition(topic.name, partition.partition_index): Reassignment(
                tuple(partition.replicas),
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    def alter(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> Results:
        """Move partitions to these brokers, the preferred leader first; None cancels a move.

        Returns None for each, or why not. The moves themselves take their time: `list`.
        """
        topics: dict[str, ReassignableTopic] = {}
        for partition, replicas in targets.items():
            topic = topics.setdefault(partition.topic, ReassignableTopic(partition.topic))
            wanted = None if replicas is None else [*replicas]
            topic.partitions.append(ReassignablePartition(partition.partition, wanted))
        answer = self._session.connections.call(
            AlterPartitionReassignmentsRequest(
                self._timeout_ms, allow_replication_factor_change, [*topics.values()]
            ),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsResponse,
        )
        api_key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
        check(answer.error_code, answer.error_message, api_key)
        return {
            TopicPartition(topic.name, result.partition_index): _failure(
                result.error_code, result.error_message
            )
            for topic in answer.responses
            for result in topic.partitions
        }

    def elect(
        self, election: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Results:
        """Elect leaders of these partitions, or of all that need it: for each None, or why not."""
        requested = None
        if partitions is not None:
            requested = [TopicPartitions(*topic) for topic in _by_topic(partitions).items()]
        answer = self._session.connections.call(
            ElectLeadersRequest(election, requested, self._timeout_ms),
            ApiKey.ELECT_LEADERS,
            ElectLeadersResponse,
        )
        check(answer.error_code, "", ApiKey.ELECT_LEADERS)
        return {
            TopicPartition(topic.topic, result.partition_id): _failure(
                result.error_code, result.error_message
            )
            for topic in answer.replica_election_results
            for result in topic.partition_result
        }

    @property
    def _timeout_ms(self) -> int:
        return int(self._session.timeout_s * 1000)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def _failure(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(ErrorCode(code), message or "") if code else None
