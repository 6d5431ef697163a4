"""Moving partitions between brokers (KIP-455), and electing their leaders (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ottla.client.protocol.connection import check
from ottla.client.record import TopicPartition
from ottla.client.session import Session
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


class Election(IntEnum):
    """Of the first replica, or of any that lives where nobody leads; the numbers are Kafka's."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(slots=True, frozen=True)
class Reassignment:
    """A partition on its way: all that hold it now, those that come, and those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Reassignments:
    def __init__(self, session: Session) -> None:
        self._session = session

    def list(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """What is under way, of these partitions or of all."""
        asked = None
        if partitions is not None:
            asked = [
                ListPartitionReassignmentsTopics(topic, indexes)
                for topic, indexes in _by_topic(partitions).items()
            ]
        answer = self._session.lines.call(
            ListPartitionReassignmentsRequest(self._timeout_ms, asked),
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ListPartitionReassignmentsResponse,
        )
        api_key = ApiKey.LIST_PARTITION_REASSIGNMENTS
        check(answer.error_code, answer.error_message, api_key)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    def alter(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> Results:
        """Move partitions to these brokers, the preferred leader first; None cancels a move.

        For each None, or why not. The moves themselves take their time: `list`.
        """
        topics: dict[str, ReassignableTopic] = {}
        for partition, replicas in targets.items():
            topic = topics.setdefault(partition.topic, ReassignableTopic(partition.topic))
            wanted = None if replicas is None else [*replicas]
            topic.partitions.append(ReassignablePartition(partition.partition, wanted))
        answer = self._session.lines.call(
            AlterPartitionReassignmentsRequest(
                self._timeout_ms, allow_replication_factor_change, [*topics.values()]
            ),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsResponse,
        )
        api_key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
        check(answer.error_code, answer.error_message, api_key)
        return {
            TopicPartition(topic.name, each.partition_index): _failure(
                each.error_code, each.error_message
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    def elect(
        self, election: Election, partitions: Iterable[TopicPartition] | None = None
    ) -> Results:
        """Elect leaders of these partitions, or of all that need it: None each, or why not."""
        asked = None
        if partitions is not None:
            asked = [TopicPartitions(*each) for each in _by_topic(partitions).items()]
        answer = self._session.lines.call(
            ElectLeadersRequest(election, asked, self._timeout_ms),
            ApiKey.ELECT_LEADERS,
            ElectLeadersResponse,
        )
        check(answer.error_code, "", ApiKey.ELECT_LEADERS)
        return {
            TopicPartition(topic.topic, each.partition_id): _failure(
                each.error_code, each.error_message
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    @property
    def _timeout_ms(self) -> int:
        return int(self._session.timeout_s * 1000)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return topics


def _failure(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(ErrorCode(code), message or "") if code else None
