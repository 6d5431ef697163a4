"""From the log to a share-partition: which batches a read found, and the bytes of some of them.

Only headers are read here. The records themselves go from the file to the socket, as in a Fetch,
unless the group has delayed delivery: then batches that are about to be given out are looked into.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.share_delays import DelayConfig, due_times
from ottla.broker.shares import Shared
from ottla.coordinator.share.partition import Acquired, Delays, Span, Wanted
from ottla.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from ottla.replica.partition import READ_COMMITTED, Read
from ottla.slices import FileSlice


class Found(NamedTuple):
    """A batch, and where in the file it ends."""

    span: Span
    position: int
    end: int


class Reading:
    """What there is for the next reader of a share-partition; not yet given to anybody."""

    __slots__ = ("_isolation", "_offset", "_read", "shared")

    def __init__(self, shared: Shared, isolation: int, size_max: int, *, first: bool) -> None:
        self.shared = shared
        self._isolation = isolation
        self._read: Read | None = None
        offset = shared.partition.fetch_offset()
        self._offset = -1 if offset is None else offset
        if offset is not None and offset <= shared.log.high_watermark:
            self._read = shared.log.read(
                offset, size_max=max(size_max, 0), isolation=isolation, whole_first_batch=first
            )

    @property
    def size(self) -> int:
        """The bytes that were found; 0 where there is nothing to give, or too much in flight."""
        read = self._read
        return 0 if read is None or read.records is None else len(read.records)

    @property
    def is_stale(self) -> bool:
        """Whether another read would begin elsewhere: what was found is for nobody."""
        return bool(self.size) and self.shared.partition.fetch_offset() != self._offset

    def acquire(
        self, member_id: str, wanted: Wanted, now_ms: int, delay: DelayConfig | None = None
    ) -> tuple[list[Acquired], FileSlice | None]:
        """Records for this member, and the batches which hold them, as a part of the file."""
        read = self._read
        if read is None or read.records is None or not self.size:
            return [], None
        found = self._walk(read, read.records)
        acquired = self.shared.partition.acquire(
            member_id,
            [each.span for each in found],
            fetch_offset=self._offset,
            wanted=wanted,
            now_ms=now_ms,
            delays=None if delay is None else self._delays(read.records, found, delay),
        )
        if not acquired:
            return [], None
        first, last = acquired[0].first, acquired[-1].last
        needed = [each for each in found if each.span.last >= first and each.span.first <= last]
        start = needed[0].position
        return acquired, FileSlice(read.records.file, start, needed[-1].end - start)

    def _delays(self, records: FileSlice, found: list[Found], config: DelayConfig) -> Delays:
        places = {each.span.first: each for each in found}

        def delays(span: Span) -> list[tuple[int, int]]:
            """The last batch is remembered: it may be given out record by record."""
            shared = self.shared
            if shared.delays[0] != span.first:
                _, position, end = places[span.first]
                data = records.file.pread(end - position, position)
                shared.delays = (span.first, due_times(data, config))
            return shared.delays[1]

        return delays

    def _walk(self, read: Read, records: FileSlice) -> list[Found]:
        """The batches of the read, as far as they could be given out at all."""
        partition = self.shared.partition
        last_offset = max(partition.window_end, self._offset)
        aborted = sorted(read.aborted or (), key=lambda each: each[1])
        ended: set[int] = set()  # producers in the midst of a transaction that will be aborted
        found: list[Found] = []
        position, end = records.position, records.position + records.size
        while position + BATCH_OVERHEAD <= end:
            header = read_header(records.file.pread(BATCH_OVERHEAD, position))
            if position + header.size > end:
                break
            if header.base_offset > last_offset and found:  # the first may come after a wide gap
                break
            while aborted and aborted[0][1] <= header.last_offset:
                ended.add(aborted.pop(0)[0])
            skipped = self._isolation == READ_COMMITTED and _is_aborted(header, ended)
            span = Span(header.base_offset, header.last_offset, skipped)
            found.append(Found(span, position, position + header.size))
            position += header.size
        return found


def _is_aborted(header: BatchHeader, ended: set[int]) -> bool:
    """Whether a batch is of a transaction that was aborted; the marker that says so is not."""
    if header.control:
        ended.discard(header.producer_id)
        return False
    return header.transactional and header.producer_id in ended
