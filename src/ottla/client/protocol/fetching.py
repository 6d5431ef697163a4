"""Record batches of ranges, fetched one answer after the other; the next is asked for beforehand.

While the records of one answer are decoded, the broker works on the next: one request is always
under way. No more than two answers are in memory, of `fetch_bytes_max` each (a batch that is
larger comes whole: KIP-74).
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
from ottla.records.batch import BatchHeader, Origin, check_batches
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

log = logging.getLogger("ottla.spark")

FETCH_BYTES_MIN: Final = 64 * 1024
RECORD_BYTES_GUESS: Final = 1024  # before a record of the range was seen
RECORD_BYTES_MARGIN: Final = 1.25  # rather a little too much than one more round trip
FETCH_WAIT_MS: Final = 500
EMPTY_MAX: Final = 2  # answers without records, from a partition that goes on: there are none
BATCH_BYTES_ANY: Final = 0x7FFFFFFF  # what a broker has taken is not too large for us


class Range(NamedTuple):
    """Records of one partition: from offset `start`, up to but without `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class DataLost(KafkaError):
    """Records that a query has not read are not there any more."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches: their headers say where in `data` they are. Some may lie outside the range."""

    range: Range
    position: int
    """What was asked for: the first batch may begin before it."""
    data: bytes
    headers: Sequence[BatchHeader]
    aborted: Sequence[tuple[int, int]]
    """Producers and first offsets of aborted transactions; only for read_committed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request under way."""

    line: BrokerConnection
    range: Range
    position: int


class Fetching:
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
        self._asked: Asked | None = None
        self._record_bytes: float = RECORD_BYTES_GUESS

    def fetch(self, ranges: Sequence[Range]) -> Iterator[Fetched]:
        """Whoever stops before the end closes the brokers: an answer may be under way."""
        for index, each in enumerate(ranges):
            following = ranges[index + 1] if index + 1 < len(ranges) else None
            yield from self._fetch_range(each, following)

    def _fetch_range(self, range_: Range, following: Range | None) -> Iterator[Fetched]:
        position = range_.start
        while position < range_.end:
            fetched, position = self._answer(range_, position)
            if position < range_.end:
                self._ask_ahead(range_, position)
            elif following is not None:
                self._ask_ahead(following, following.start)
            if fetched.headers:
                yield fetched

    def _answer(self, range_: Range, position: int) -> tuple[Fetched, int]:
        """The batches at `position` and what to go on with; asked for until there are some."""
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
                    # Compaction may take the last records of a partition, and leave a gap.
                    empty = empty + 1 if self._end(part) >= range_.end else 0
                    if empty >= EMPTY_MAX:
                        return fetched, range_.end
                    if time.monotonic() > deadline:
                        return fetched, self._lose(range_, position, range_.end, _behind(part))
                    continue
                check(part.error_code, f"fetch of {_place(range_, position)}")
            except KafkaError as error:
                nothing = Fetched(range_, position, b"", (), ())
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

    def _take(self, range_: Range, position: int) -> PartitionData:
        """The answer to the request under way, if it asked for this, or to a new one."""
        asked, self._asked = self._asked, None
        if asked is None:
            asked = self._ask(range_, position)
        assert (asked.range, asked.position) == (range_, position)
        answer = asked.line.receive(ApiKey.FETCH, FetchResponse)
        check(answer.error_code, f"fetch of {_place(range_, position)}")
        if not answer.responses:  # KIP-219: an answer without records, and the broker makes us wait
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"fetch of {_place(range_, position)}: the broker's quota lets nothing through",
            )
        return answer.responses[0].partitions[0]

    def _ask_ahead(self, range_: Range, position: int) -> None:
        """Trouble with this request shows when its answer is wanted: then it is asked again."""
        try:
            self._asked = self._ask(range_, position)
        except KafkaError as error:
            self._brokers.forget(error)

    def _ask(self, range_: Range, position: int) -> Asked:
        line = self._brokers.leader(range_.topic, range_.partition)
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
        line.send(request, ApiKey.FETCH)
        return Asked(line, range_, position)

    def _bytes_for(self, count: int) -> int:
        """A small range of a large topic does not take megabytes."""
        size = int(count * self._record_bytes * RECORD_BYTES_MARGIN)
        return min(self._fetch_bytes_max, max(FETCH_BYTES_MIN, size))

    def _fetched(self, range_: Range, position: int, part: PartitionData) -> Fetched:
        data = _bytes(part)
        try:
            headers = check_batches(data, batch_size_max=BATCH_BYTES_ANY, origin=Origin.LEADER)
        except KafkaError as error:
            raise KafkaError(error.code, f"{_place(range_, position)}: {error}") from error
        if headers:
            count = headers[-1].next_offset - headers[0].base_offset
            self._record_bytes = len(data) / count
        aborted = [
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        ]
        return Fetched(range_, position, data, headers, aborted)

    def _end(self, part: PartitionData) -> int:
        """How far the partition goes for a reader like us."""
        return part.last_stable_offset if self._read_committed else part.high_watermark

    def _out_of_range(self, range_: Range, position: int) -> int:
        """Where to go on after the broker said that it does not have this offset."""
        where = TopicPartition(range_.topic, range_.partition)
        first = self._brokers.offsets({where: EARLIEST}, read_committed=False)[where] or 0
        if position < first:
            return self._lose(range_, position, min(first, range_.end), "they were deleted")
        last = self._brokers.offsets({where: LATEST}, read_committed=False)[where] or 0
        if position <= last:
            return position  # it is there again: the leader has changed meanwhile
        return self._lose(range_, position, range_.end, f"the partition ends at offset {last} now")

    def _lose(self, range_: Range, position: int, end: int, why: str) -> int:
        message = lost(f"{range_.topic}-{range_.partition}", position, end, why)
        if self._fail_on_data_loss:
            raise DataLost(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        log.warning("%s", message)
        return end


def lost(where: str, start: int, end: int, why: str) -> str:
    """What is to be said of records that can't be read."""
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


def _place(range_: Range, position: int) -> str:
    return f"{range_.topic}-{range_.partition} at offset {position}"
