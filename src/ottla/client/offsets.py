"""Offsets of partitions: first, last, by timestamp; and deleting records below an offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from ottla.client.admin_session import AdminSession
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicAdmin, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
CONSUMER: Final = -1  # the replica id of a client

_Spec: Any = OffsetSpec  # its methods have no types
_SPECS: Final[dict[int, Any]] = {
    LATEST: _Spec.latest(),
    EARLIEST: _Spec.earliest(),
    MAX_TIMESTAMP: _Spec.max_timestamp(),
}


@dataclass(slots=True, frozen=True)
class OffsetAt:
    """An offset that was found; offset -1: there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None


class OffsetAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def find(
        self, partitions: Iterable[TopicPartition], time_ms: int = LATEST
    ) -> dict[TopicPartition, OffsetAt | KafkaError]:
        """The first offset at or after a time; or one of LATEST, EARLIEST, MAX_TIMESTAMP."""
        wanted = list(partitions)
        if not wanted:
            return {}
        if time_ms < MAX_TIMESTAMP:
            return self._find_by_wire(wanted, time_ms)
        session = self._session
        spec = _SPECS[time_ms] if time_ms < 0 else _Spec.for_timestamp(time_ms)
        futures = session.call(
            session.librdkafka.list_offsets,
            {confluent_kafka.TopicPartition(*partition): spec for partition in wanted},
            request_timeout=session.timeout_s,
        )
        found = session.wait_each(futures, _found)
        return {
            TopicPartition(partition.topic, partition.partition): at
            for partition, at in found.items()
        }

    def delete_before(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete records below each offset (-1: all); returns the new log start offsets."""
        session = self._session
        below = [
            confluent_kafka.TopicPartition(
                *partition, confluent_kafka.OFFSET_END if offset == -1 else offset
            )
            for partition, offset in offsets.items()
        ]
        futures = session.call(
            session.librdkafka.delete_records, below, request_timeout=session.timeout_s
        )
        found = session.wait_each(futures, lambda result: result.low_watermark)
        return {
            TopicPartition(partition.topic, partition.partition): low
            for partition, low in found.items()
        }

    def _find_by_wire(
        self, partitions: list[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, OffsetAt | KafkaError]:
        """librdkafka has no spec for the offsets of tiered storage (KIP-405, KIP-1005)."""
        results: dict[TopicPartition, OffsetAt | KafkaError] = {}
        for leader, group in self._by_leader(partitions).items():
            topics: dict[str, list[ListOffsetsPartition]] = {}
            for partition in group:
                topics.setdefault(partition.topic, []).append(
                    ListOffsetsPartition(
                        partition_index=partition.partition,
                        current_leader_epoch=-1,
                        timestamp=time_ms,
                    )
                )
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                topics=[ListOffsetsTopic(name, found) for name, found in topics.items()],
            )
            answer = self._session.connections.call(
                request, ApiKey.LIST_OFFSETS, ListOffsetsResponse, node_id=leader
            )
            for topic in answer.topics:
                for part in topic.partitions:
                    results[TopicPartition(topic.name, part.partition_index)] = (
                        KafkaError(ErrorCode(part.error_code))
                        if part.error_code
                        else OffsetAt(part.offset, part.timestamp, part.leader_epoch)
                    )
        return results

    def _by_leader(self, partitions: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        described = TopicAdmin(self._session).describe(
            *{partition.topic for partition in partitions}
        )
        leaders = {
            TopicPartition(topic.name, part.partition): part.leader
            for topic in described.values()
            if isinstance(topic, TopicDescription)
            for part in topic.partitions
        }
        groups: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            groups.setdefault(leaders[partition], []).append(partition)
        return groups


def _found(result: Any) -> OffsetAt:
    return OffsetAt(result.offset, result.timestamp, result.leader_epoch)
