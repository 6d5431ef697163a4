"""A read of the log for a share-partition: its batches, and the bytes of those that are acquired.

Only headers are read here. The records themselves go from the file to the socket, as in a Fetch,
unless the group has delayed delivery: then the batches that are about to be acquired are parsed.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.share.delayed_delivery import DelayedDeliveryConfig, due_times
from ottla.broker.share.partitions import LocalSharePartition
from ottla.coordinator.share.partition import AcquiredRecords, AcquireLimits, BatchSpan, Delays
from ottla.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from ottla.replica.partition import READ_COMMITTED, LogReadResult
from ottla.slices import FileSlice


class BatchPosition(NamedTuple):
    """A batch, and where in the file it begins and ends."""

    span: BatchSpan
    position: int
    end: int


class SharePartitionRead:
    """What the next fetch of a share-partition can acquire; nothing is acquired yet."""

    __slots__ = ("_isolation", "_offset", "_read", "shared")

    def __init__(
        self, shared: LocalSharePartition, isolation: int, size_max: int, *, first: bool
    ) -> None:
        self.shared = shared
        self._isolation = isolation
        self._read: LogReadResult | None = None
        offset = shared.share_partition.fetch_offset()
        self._offset = -1 if offset is None else offset
        if offset is not None and offset <= shared.partition.high_watermark:
            self._read = shared.partition.read(
                offset, size_max=max(size_max, 0), isolation=isolation, whole_first_batch=first
            )

    @property
    def size(self) -> int:
        """The bytes that were found; 0 if there are none, or too many records are in flight."""
        read = self._read
        return 0 if read is None or read.records is None else len(read.records)

    @property
    def is_stale(self) -> bool:
        """True if another read would begin elsewhere, so this one is of no use."""
        return bool(self.size) and self.shared.share_partition.fetch_offset() != self._offset

    def acquire(
        self,
        member_id: str,
        acquire_limits: AcquireLimits,
        now_ms: int,
        delay: DelayedDeliveryConfig | None = None,
    ) -> tuple[list[AcquiredRecords], FileSlice | None]:
        """Acquire records for this member; their batches are a part of the file."""
        read = self._read
        if read is None or read.records is None or not self.size:
            return [], None
        found = self._walk(read, read.records)
        acquired = self.shared.share_partition.acquire(
            member_id,
            [batch.span for batch in found],
            fetch_offset=self._offset,
            acquire_limits=acquire_limits,
            now_ms=now_ms,
            delays=None if delay is None else self._delays(read.records, found, delay),
        )
        if not acquired:
            return [], None
        first, last = acquired[0].first, acquired[-1].last
        needed = [batch for batch in found if batch.span.last >= first and batch.span.first <= last]
        start = needed[0].position
        return acquired, FileSlice(read.records.file, start, needed[-1].end - start)

    def _delays(
        self, records: FileSlice, found: list[BatchPosition], config: DelayedDeliveryConfig
    ) -> Delays:
        positions = {batch.span.first: batch for batch in found}

        def delays(span: BatchSpan) -> list[tuple[int, int]]:
            """The last batch is cached, because its records may be acquired one by one."""
            shared = self.shared
            if shared.delays[0] != span.first:
                _, position, end = positions[span.first]
                data = records.file.pread(end - position, position)
                shared.delays = (span.first, due_times(data, config))
            return shared.delays[1]

        return delays

    def _walk(self, read: LogReadResult, records: FileSlice) -> list[BatchPosition]:
        """The batches of the read whose records could be acquired."""
        share_partition = self.shared.share_partition
        last_offset = max(share_partition.window_end, self._offset)
        aborted = sorted(read.aborted or (), key=lambda transaction: transaction[1])
        ended: set[int] = set()  # producers inside of a transaction that is aborted later
        found: list[BatchPosition] = []
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
            span = BatchSpan(header.base_offset, header.last_offset, skipped)
            found.append(BatchPosition(span, position, position + header.size))
            position += header.size
        return found


def _is_aborted(header: BatchHeader, ended: set[int]) -> bool:
    """True if a batch is of an aborted transaction; its abort marker is not."""
    if header.control:
        ended.discard(header.producer_id)
        return False
    return header.transactional and header.producer_id in ended
