"""Follows a topic from its beginning: one Fetch at a time, whose records are applied at once.

Positions advance past transaction markers, too, so a caller that waits for the end offset does not
wait for a record that does not exist.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.range_fetcher import BATCH_BYTES_ANY, CompletedFetch, OffsetRange
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, check_batches
from ottla.spark.chunks import Chunk, decode
from ottla.spark.limits import EARLIEST
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FETCH_WAIT_MS: Final = 500
FETCH_WAIT_SEVERAL_MS: Final = 20  # responses of several leaders are read one after another
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 1024 * 1024
METADATA_S: Final = 5.0
OFFSET_MAX: Final = 2**63 - 1


class TopicFollower:
    """One thread calls `step`; any thread may read `positions` and `ends`."""

    def __init__(
        self,
        brokers: ClusterClient,
        topic: str,
        *,
        apply: Callable[[Chunk], None],
        restart: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._brokers = brokers
        self._topic = topic
        self._apply = apply
        self._restart = restart
        self._clock = clock
        self._id: bytes | None = None
        self._looked_at = -METADATA_S
        self.positions: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        """The last stable offsets of the last responses."""

    def step(self) -> None:
        """Fetches once. After a KafkaError the positions are unchanged, and `step` may be called
        again."""
        try:
            self._look()
            by_line = self._by_line()
            wait_ms = FETCH_WAIT_MS if len(by_line) == 1 else FETCH_WAIT_SEVERAL_MS
            for line, partitions in by_line:
                line.send(self._request(partitions, wait_ms), ApiKey.FETCH)
            answers = [line.receive(ApiKey.FETCH, FetchResponse) for line, _ in by_line]
        except KafkaError as error:
            self._brokers.forget(error)
            self._brokers.close()  # a response may still be in flight
            raise
        for answer in answers:
            self._take(answer)

    def _look(self) -> None:
        """Refreshes metadata: finds new partitions, and a topic that was created again."""
        if self._clock() - self._looked_at < METADATA_S:
            return
        found = self._brokers.topics([self._topic]).get(self._topic)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {self._topic}"
            )
        if self._id is not None and found.id != self._id:
            self._restart()
            self.positions = {}
            self.ends = {}
        new = [partition for partition in found.leaders if partition not in self.positions]
        wanted = {TopicPartition(self._topic, partition): EARLIEST for partition in new}
        starts = self._brokers.offsets(wanted, read_committed=False) if wanted else {}
        positions = {key.partition: offset or 0 for key, offset in starts.items()}
        self.positions = {**self.positions, **positions}
        self._id = found.id
        self._looked_at = self._clock()

    def _by_line(self) -> list[tuple[BrokerConnection, list[int]]]:
        found: dict[int, tuple[BrokerConnection, list[int]]] = {}
        for partition in self.positions:
            line = self._brokers.leader(self._topic, partition)
            found.setdefault(id(line), (line, []))[1].append(partition)
        return list(found.values())

    def _request(self, partitions: list[int], wait_ms: int) -> FetchRequest:
        parts = [
            FetchPartition(
                partition=partition,
                fetch_offset=self.positions[partition],
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for partition in partitions
        ]
        topic = FetchTopic(self._topic, self._brokers.topic(self._topic).id, parts)
        return FetchRequest(
            max_wait=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=1,
            topics=[topic],
        )

    def _take(self, answer: FetchResponse) -> None:
        _check(answer.error_code, self._topic)
        for topic in answer.responses:
            for part in topic.partitions:
                self._take_part(part)

    def _take_part(self, part: PartitionData) -> None:
        partition = part.partition_index
        where = f"{self._topic}-{partition}"
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._begin_again(partition)
            return
        if part.error_code:
            self._looked_at = -METADATA_S
            error = KafkaError(ErrorCode(part.error_code), f"fetch of {where}")
            self._brokers.forget(error)
            raise error
        data = _bytes(part)
        headers = check_batches(data, batch_size_max=BATCH_BYTES_ANY, origin=AppendOrigin.LEADER)
        position = self.positions[partition]
        if headers:
            aborted = [
                (transaction.producer_id, transaction.first_offset)
                for transaction in part.aborted_transactions or ()
            ]
            whole = OffsetRange(self._topic, partition, position, OFFSET_MAX)
            for chunk in decode(
                CompletedFetch(whole, position, data, headers, aborted),
                with_headers=True,
                committed=True,
            ):
                self._apply(chunk)
            position = max(position, headers[-1].next_offset)
        self.ends[partition] = part.last_stable_offset
        self.positions[partition] = position

    def _begin_again(self, partition: int) -> None:
        """Restarts at the log start after retention or truncation; applied rows stay."""
        where = TopicPartition(self._topic, partition)
        first = self._brokers.offsets({where: EARLIEST}, read_committed=False)[where]
        self.positions[partition] = first or 0


def _check(code: int, what: str) -> None:
    if code:
        raise KafkaError(ErrorCode(code), f"fetch of {what}")


def _bytes(part: PartitionData) -> bytes:
    records = part.records
    if records is None:
        return b""
    assert isinstance(records, (bytes, bytearray, memoryview))
    return bytes(records)
