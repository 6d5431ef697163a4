"""Fetches record batches of offset ranges, one request ahead.

While the caller decodes the records of one response, the broker works on the next: one request is
always in flight. At most two responses are in memory, of `fetch_bytes_max` each (a larger batch
comes whole: KIP-74).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.protocol.cluster_client import GONE_S, PAUSE_S, PAUSE_S_MAX, ClusterClient, check
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.retries import RETRIABLE, UNKNOWN_TOPIC
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, BatchHeader, check_batches
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

log = logging.getLogger("ottla.client")

FETCH_BYTES_MIN: Final = 64 * 1024
RECORD_BYTES_GUESS: Final = 1024  # before the first record of the range is seen
RECORD_BYTES_MARGIN: Final = 1.25  # too much costs less than another round trip
FETCH_WAIT_MS: Final = 500
EMPTY_MAX: Final = 2  # empty responses below the log end: compaction has removed the records
BATCH_BYTES_ANY: Final = 0x7FFFFFFF  # a broker has accepted the batch, so its size is fine


class OffsetRange(NamedTuple):
    """Records of one partition: from offset `start` up to `end`, exclusive."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class DataLost(KafkaError):
    """Records that a query has not read are gone."""


@dataclass(frozen=True, slots=True)
class CompletedFetch:
    """Whole batches; the headers say where in `data` they are. Some may lie outside the range."""

    range: OffsetRange
    position: int
    """The fetch offset: the first batch may begin before it."""
    data: bytes
    headers: Sequence[BatchHeader]
    aborted: Sequence[tuple[int, int]]
    """Producer ids and first offsets of aborted transactions; only with read_committed."""


@dataclass(frozen=True, slots=True)
class InFlightFetch:
    """A request without a response yet."""

    connection: BrokerConnection
    range: OffsetRange
    position: int


class RangeFetcher:
    """The fetches of one task."""

    def __init__(
        self,
        brokers: ClusterClient,
        *,
        read_committed: bool,
        fail_on_data_loss: bool,
        poll_timeout_s: float,
        fetch_bytes_max: int,
    ) -> None:
        self._brokers = brokers
        self._read_committed = read_committed
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout_s = poll_timeout_s
        self._fetch_bytes_max = fetch_bytes_max
        self._in_flight: InFlightFetch | None = None
        self._record_bytes: float = RECORD_BYTES_GUESS

    def fetch(self, ranges: Sequence[OffsetRange]) -> Iterator[CompletedFetch]:
        """A caller that stops early has to close the brokers: a response may be outstanding."""
        for index, offset_range in enumerate(ranges):
            following = ranges[index + 1] if index + 1 < len(ranges) else None
            yield from self._fetch_range(offset_range, following)

    def _fetch_range(
        self, range_: OffsetRange, following: OffsetRange | None
    ) -> Iterator[CompletedFetch]:
        position = range_.start
        while position < range_.end:
            fetched, position = self._answer(range_, position)
            if position < range_.end:
                self._ask_ahead(range_, position)
            elif following is not None:
                self._ask_ahead(following, following.start)
            if fetched.headers:
                yield fetched

    def _answer(self, range_: OffsetRange, position: int) -> tuple[CompletedFetch, int]:
        """The batches at `position`, and the next position; fetches until there are some."""
        begin = time.monotonic()
        deadline = begin + self._poll_timeout_s
        pause_s = PAUSE_S
        empty = 0
        while True:
            try:
                part = self._take(range_, position)
                if part.error_code == 0:
                    fetched = self._fetched(range_, position, part)
                    if fetched.headers:
                        return fetched, max(position, fetched.headers[-1].next_offset)
                    # Compaction may remove the last records of a partition, and leaves a gap.
                    empty = empty + 1 if self._end(part) >= range_.end else 0
                    if empty >= EMPTY_MAX:
                        return fetched, range_.end
                    if time.monotonic() > deadline:
                        return fetched, self._lose(range_, position, range_.end, _behind(part))
                    continue
                check(part.error_code, f"fetch of {_place(range_, position)}")
            except KafkaError as error:
                nothing = CompletedFetch(range_, position, b"", (), ())
                if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and not isinstance(error, DataLost):
                    return nothing, self._out_of_range(range_, position)
                if error.code not in RETRIABLE:
                    raise
                self._brokers.forget(error)
                if error.code in UNKNOWN_TOPIC and time.monotonic() > begin + GONE_S:
                    return nothing, self._lose(range_, position, range_.end, str(error))
                if time.monotonic() > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _take(self, range_: OffsetRange, position: int) -> PartitionData:
        """The response to the request in flight, if it is for this position, or to a new one."""
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is None:
            in_flight = self._send(range_, position)
        assert (in_flight.range, in_flight.position) == (range_, position)
        answer = in_flight.connection.receive(ApiKey.FETCH, FetchResponse)
        check(answer.error_code, f"fetch of {_place(range_, position)}")
        if not answer.responses:  # KIP-219: an empty response, and the broker throttles us
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"fetch of {_place(range_, position)}: the broker's quota lets nothing through",
            )
        return answer.responses[0].partitions[0]

    def _ask_ahead(self, range_: OffsetRange, position: int) -> None:
        """Send the next request. If it fails, `_take` notices and sends it again."""
        try:
            self._in_flight = self._send(range_, position)
        except KafkaError as error:
            self._brokers.forget(error)

    def _send(self, range_: OffsetRange, position: int) -> InFlightFetch:
        connection = self._brokers.leader(range_.topic, range_.partition)
        part = FetchPartition(
            partition=range_.partition,
            fetch_offset=position,
            partition_max_bytes=self._bytes_for(range_.end - position),
        )
        topic = FetchTopic(range_.topic, self._brokers.topic(range_.topic).id, [part])
        request = FetchRequest(
            max_wait=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes_max,
            isolation_level=int(self._read_committed),
            topics=[topic],
        )
        connection.send(request, ApiKey.FETCH)
        return InFlightFetch(connection, range_, position)

    def _bytes_for(self, count: int) -> int:
        """A small range of a large topic should not fetch megabytes."""
        size = int(count * self._record_bytes * RECORD_BYTES_MARGIN)
        return min(self._fetch_bytes_max, max(FETCH_BYTES_MIN, size))

    def _fetched(self, range_: OffsetRange, position: int, part: PartitionData) -> CompletedFetch:
        data = _bytes(part)
        try:
            headers = check_batches(
                data, batch_size_max=BATCH_BYTES_ANY, origin=AppendOrigin.LEADER
            )
        except KafkaError as error:
            raise KafkaError(error.code, f"{_place(range_, position)}: {error}") from error
        if headers:
            count = headers[-1].next_offset - headers[0].base_offset
            self._record_bytes = len(data) / count
        aborted = [
            (transaction.producer_id, transaction.first_offset)
            for transaction in part.aborted_transactions or ()
        ]
        return CompletedFetch(range_, position, data, headers, aborted)

    def _end(self, part: PartitionData) -> int:
        """The end of the partition for this isolation level."""
        return part.last_stable_offset if self._read_committed else part.high_watermark

    def _out_of_range(self, range_: OffsetRange, position: int) -> int:
        """The next position after OFFSET_OUT_OF_RANGE."""
        where = TopicPartition(range_.topic, range_.partition)
        first = self._brokers.offsets({where: EARLIEST}, read_committed=False)[where] or 0
        if position < first:
            return self._lose(range_, position, min(first, range_.end), "they were deleted")
        last = self._brokers.offsets({where: LATEST}, read_committed=False)[where] or 0
        if position <= last:
            return position  # it is back: the leader has changed meanwhile
        return self._lose(range_, position, range_.end, f"the partition ends at offset {last} now")

    def _lose(self, range_: OffsetRange, position: int, end: int, why: str) -> int:
        message = data_loss_message(f"{range_.topic}-{range_.partition}", position, end, why)
        if self._fail_on_data_loss:
            raise DataLost(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        log.warning("%s", message)
        return end


def data_loss_message(where: str, start: int, end: int, why: str) -> str:
    """The error text for records that can't be read."""
    return (
        f"Some data may have been lost: offsets {start} to {end - 1} of {where} are not"
        f" available: {why}. If the query is to go on without them, set the source option"
        ' "failOnDataLoss" to "false"'
    )


def _bytes(part: PartitionData) -> bytes:
    records = part.records
    if records is None:
        return b""
    assert isinstance(records, (bytes, bytearray, memoryview))
    return bytes(records)


def _behind(part: PartitionData) -> str:
    return f"the partition has records up to offset {part.high_watermark - 1} only"


def _place(range_: OffsetRange, position: int) -> str:
    return f"{range_.topic}-{range_.partition} at offset {position}"
