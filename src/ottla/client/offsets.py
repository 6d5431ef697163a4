"""Offsets of partitions: first, last, by time; and deleting what lies before one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from ottla.client.record import TopicPartition
from ottla.client.session import Session
from ottla.client.topics import TopicDescription, Topics
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
CONSUMER: Final = -1  # who asks: no replica

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


class Offsets:
    def __init__(self, session: Session) -> None:
        self._session = session

    def find(
        self, partitions: Iterable[TopicPartition], time_ms: int = LATEST
    ) -> dict[TopicPartition, OffsetAt | KafkaError]:
        """The first offset at or after a time; LATEST, EARLIEST, MAX_TIMESTAMP have their own."""
        wanted = list(partitions)
        if not wanted:
            return {}
        if time_ms < MAX_TIMESTAMP:
            return self._find_by_wire(wanted, time_ms)
        session = self._session
        spec = _SPECS[time_ms] if time_ms < 0 else _Spec.for_timestamp(time_ms)
        futures = session.call(
            session.librdkafka.list_offsets,
            {confluent_kafka.TopicPartition(*each): spec for each in wanted},
            request_timeout=session.timeout_s,
        )
        found = session.wait_each(futures, _found)
        return {TopicPartition(each.topic, each.partition): at for each, at in found.items()}

    def delete_before(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete records below each offset (-1: all); for each partition its new first offset."""
        session = self._session
        wishes = [
            confluent_kafka.TopicPartition(
                *each, confluent_kafka.OFFSET_END if offset == -1 else offset
            )
            for each, offset in offsets.items()
        ]
        futures = session.call(
            session.librdkafka.delete_records, wishes, request_timeout=session.timeout_s
        )
        found = session.wait_each(futures, lambda result: result.low_watermark)
        return {TopicPartition(each.topic, each.partition): low for each, low in found.items()}

    def _find_by_wire(
        self, partitions: list[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, OffsetAt | KafkaError]:
        """The offsets of tiered storage (KIP-405, KIP-1005) have no spec in librdkafka."""
        results: dict[TopicPartition, OffsetAt | KafkaError] = {}
        for leader, group in self._by_leader(partitions).items():
            topics: dict[str, list[ListOffsetsPartition]] = {}
            for each in group:
                topics.setdefault(each.topic, []).append(
                    ListOffsetsPartition(
                        partition_index=each.partition, current_leader_epoch=-1, timestamp=time_ms
                    )
                )
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                topics=[ListOffsetsTopic(name, found) for name, found in topics.items()],
            )
            answer = self._session.lines.call(
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
        described = Topics(self._session).describe(*{each.topic for each in partitions})
        leaders = {
            TopicPartition(topic.name, part.partition): part.leader
            for topic in described.values()
            if isinstance(topic, TopicDescription)
            for part in topic.partitions
        }
        groups: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            groups.setdefault(leaders[each], []).append(each)
        return groups


def _found(result: Any) -> OffsetAt:
    return OffsetAt(result.offset, result.timestamp, result.leader_epoch)
