"""Cleaning one log: its closed segments are rewritten with the last record of each key.

    1. read the dirty segments and enter their keys into a table: key -> offset of its last record
    2. read all closed segments up to there again, group by group, and copy each record that is the
       last of its key into one new segment per group. For a dirty segment the offset answers that;
       for a clean one the key is looked up.

A batch that stays whole is copied byte for byte. One that loses records keeps its header, with
another count, and the bytes of the records that stay. A batch that loses all records is removed,
except for its header in two cases: it is the last batch of its producer, whose sequence is known by
it, or the last one that may be cleaned, which holds the end offset of the range.

A tombstone stays for delete.retention.ms after the first cleaning that saw it, so that a consumer
which reads the log from the start within that time learns of the deletion. The batch itself says
when that ends: in its base timestamp, with bit 6 of the attributes set (KIP-534). Transaction
markers use the same: see `cleaned_transactions`.

Nothing here knows a `Log`: it works on `Files` and a `CleanerPlan`, and so can run in its own
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.errors import KafkaError
from ottla.records.batch import (
    BATCH_OVERHEAD,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_DATA_POSITION,
    NO_PRODUCER_ID,
    BatchHeader,
    read_header,
    write_batch,
)
from ottla.records.checksum import crc32c
from ottla.records.compression import compress
from ottla.records.rebuild import rebuild_batch
from ottla.records.record import parse_records, read_payload, read_records
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaned_transactions import CleanedTransactionMetadata
from ottla.storage.cleaner_plan import (
    CLEANED_SUFFIX,
    CleanedSegment,
    CleanerPlan,
    CleanerReport,
    CleanerStats,
    SourceSegment,
)
from ottla.storage.files import PASSING_ERRNOS, Files
from ottla.storage.log_segment import (
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SUFFIXES,
    LogSegment,
    file_name,
)
from ottla.storage.open_segment_cache import OpenSegmentCache
from ottla.storage.retained_records import (
    ENTRY_SIZE,
    TOMBSTONE_BIT,
    RetainedRecords,
    filter_records,
    index_keys,
    pick_records,
)

BUFFER_SIZE_MIN = 64 * 1024
BUFFER_SIZE_MAX = 4 * 1024 * 1024

Throttle = Callable[[int], object]  # called with bytes read or written; may sleep
Seconds = Callable[[], float]


def clean(
    files: Files, plan: CleanerPlan, throttle: Throttle, seconds: Seconds
) -> Iterator[CleanerReport]:
    """Clean a log: reports each cleaned segment when it is done, and the statistics at the end."""
    cleaner = SegmentCleaner(files, plan, throttle)
    started = seconds()
    try:
        cleaner.index()
        for group in cleaner.groups():
            yield CleanerReport(cleaned=cleaner.clean_group(group))
        cleaner.stats.end_offset = cleaner.latest_offset + 1
    except (DamagedError, KafkaError) as damage:
        cleaner.stats.failure = str(damage)
    except OSError as error:
        cleaner.stats.failure = str(error)
        cleaner.stats.passing = error.errno in PASSING_ERRNOS
    cleaner.stats.seconds = seconds() - started
    yield CleanerReport(finished=cleaner.stats)


class SegmentCleaner:
    """One cleaning of one log."""

    def __init__(self, files: Files, plan: CleanerPlan, throttle: Throttle) -> None:
        self._files = files
        self._plan = plan
        self._throttle = throttle
        self._buffer_size = min(max(plan.buffer_size, BUFFER_SIZE_MIN), BUFFER_SIZE_MAX)
        self._places: dict[bytes, int] = {}  # key -> place of its last record
        self._sorted: list[int] = []  # the same places, in the order of the log
        self._slot = 0  # the first of them that the walk has not reached
        self._transactions = CleanedTransactionMetadata(plan.aborted)
        self.latest_offset = plan.first_dirty_offset - 1  # the table has all keys up to here
        self.stats = CleanerStats()

    # The table of keys

    def index(self) -> None:
        """Fill the table from the dirty segments, until it is full or they end."""
        plan = self._plan
        transactions = CleanedTransactionMetadata(plan.aborted)
        key_count_max = max(1, plan.table_size // ENTRY_SIZE)
        for source in plan.sources:
            if source.end_offset > plan.first_dirty_offset:
                if not self._index_segment(source, transactions, key_count_max):
                    break
                self.latest_offset = source.end_offset - 1  # past a gap at the segment's end
        self._sorted = sorted(self._places.values())
        self.stats.key_count = len(self._places)

    def _index_segment(
        self, source: SourceSegment, transactions: CleanedTransactionMetadata, key_count_max: int
    ) -> bool:
        """False if the table had no room for a batch: the cleaning then ends before that batch."""
        places = self._places
        start = self._plan.first_dirty_offset
        for chunk, header in self._batches(source):
            if header.last_offset < start:
                continue
            if header.attributes & CONTROL_BIT:
                transactions.is_spent(chunk, header, None)
            elif not transactions.is_aborted(header):
                # The first batch is taken at any size, or a small table would clean nothing, ever.
                # A batch counts with all its records, before it is known how many keys are new.
                if places and len(places) + header.record_count > key_count_max:
                    return False
                payload = read_payload(chunk, header)
                self.stats.records_without_key += index_keys(
                    payload, header.record_count, header.base_offset, start, places
                )
            self.latest_offset = header.last_offset
        return True

    # Groups

    def groups(self) -> Iterator[list[SourceSegment]]:
        """Runs of segments that fit into one by their present sizes, as they only get smaller."""
        plan = self._plan
        group: list[SourceSegment] = []
        for source in plan.sources:
            if source.base_offset > self.latest_offset:
                break
            if group and not _fits(plan, group, source):
                yield group
                group = []
            group.append(source)
        if group:
            yield group

    def clean_group(self, group: list[SourceSegment]) -> CleanedSegment:
        base_offset = group[0].base_offset
        path = f"{self._plan.path}/{file_name(base_offset)}"
        for suffix in SUFFIXES:  # left over from a cleaning that was not swapped in
            self._files.remove(path + suffix + CLEANED_SUFFIX)
        segment = LogSegment(
            self._files,
            path,
            base_offset,
            open_segments=OpenSegmentCache(),
            interval=self._plan.index_interval_bytes,
            index_size_max=self._plan.segment_index_bytes,
            created_ms=self._plan.now_ms,
            ending=CLEANED_SUFFIX,
        )
        segment.create()
        segment.create_indexes()  # here, because the segment may end up without any batch
        for source in group:
            self._clean_segment(source, segment)
        segment.close_indexes()
        # All on the disk before the loop's thread renames anything: the swap deletes the sources.
        segment.open_file().sync()
        for suffix in SUFFIXES[1:]:
            if self._files.exists(path + suffix + CLEANED_SUFFIX):
                self._files.sync(path + suffix + CLEANED_SUFFIX)
        self._files.sync(self._plan.path)
        return CleanedSegment(
            base_offsets=[source.base_offset for source in group],
            size=segment.size,
            index_size=segment.offset_index.file.written,
            time_index_size=segment.time_index.file.written,
            transactions_size=segment.transactions.written,
        )

    def _clean_segment(self, source: SourceSegment, segment: LogSegment) -> None:
        """Append what `source` retains to `segment`."""
        pieces: list[bytes | memoryview] = []
        headers: list[BatchHeader] = []
        size = 0
        for chunk, header in self._batches(source):
            piece = self._clean_batch(chunk, header, segment)
            if piece is None:
                continue
            headers.append(read_header(piece) if isinstance(piece, bytes) else header)
            pieces.append(piece)
            size += len(piece)
            if size >= self._buffer_size:
                self._write(segment, pieces, headers, size)
                pieces, headers, size = [], [], 0
        if size:
            self._write(segment, pieces, headers, size)

    def _write(
        self,
        segment: LogSegment,
        pieces: list[bytes | memoryview],
        headers: list[BatchHeader],
        size: int,
    ) -> None:
        segment.append(memoryview(b"".join(pieces)), headers)
        self.stats.bytes_written += size
        self._throttle(size)

    # Batches

    def _clean_batch(
        self, chunk: memoryview, header: BatchHeader, segment: LogSegment
    ) -> bytes | memoryview | None:
        """What is left of a batch; None if nothing is."""
        self.stats.records_read += header.record_count
        if header.attributes & CONTROL_BIT:
            return self._clean_marker(chunk, header, segment)
        if self._transactions.is_aborted(header):
            return self._header_only(header)
        if header.base_offset > self.latest_offset:  # the table has none of these keys
            self.stats.records_kept += header.record_count
            return chunk[header.position : header.position + header.size]
        horizon = header.delete_horizon_ms
        drop_tombstones = horizon is not None and horizon <= self._plan.now_ms
        if header.base_offset >= self._plan.first_dirty_offset:
            return self._clean_dirty(chunk, header, drop_tombstones)
        payload = read_payload(chunk, header)
        retained = filter_records(
            payload, header.record_count, header.base_offset, self._places, drop_tombstones
        )
        self.stats.records_without_key += retained.keyless
        if not retained.count:
            return self._header_only(header)
        return self._retained_batch(chunk, header, retained.tombstones, retained, payload)

    def _clean_dirty(
        self, chunk: memoryview, header: BatchHeader, drop_tombstones: bool
    ) -> bytes | memoryview | None:
        """A batch whose keys are in the table: the offsets alone say which records to retain.

        Many batches retain none and some retain all; these are not even decompressed.
        """
        places = self._sorted
        count = len(places)
        slot = self._slot
        first = header.base_offset << 1
        end = header.next_offset << 1
        while slot < count and places[slot] < first:
            slot += 1
        wanted: list[int] = []
        tombstones = False
        while slot < count and places[slot] < end:
            place = places[slot]
            slot += 1
            if place & TOMBSTONE_BIT:
                if drop_tombstones:
                    continue
                tombstones = True
            wanted.append(place >> 1)
        self._slot = slot
        if not wanted:
            return self._header_only(header)
        if len(wanted) == header.record_count:
            return self._retained_batch(chunk, header, tombstones, None, None)
        payload = read_payload(chunk, header)
        retained = pick_records(payload, header.record_count, header.base_offset, wanted)
        if retained.count != len(wanted):
            raise DamagedError(f"offsets {wanted[0]} to {wanted[-1]} changed while being cleaned")
        return self._retained_batch(chunk, header, tombstones, retained, payload)

    def _retained_batch(
        self,
        chunk: memoryview,
        header: BatchHeader,
        tombstones: bool,
        retained: RetainedRecords | None,
        payload: bytes | None,
    ) -> bytes | memoryview:
        """The batch with the retained records only; `retained` is None for all of them."""
        count = header.record_count if retained is None else retained.count
        self.stats.records_kept += count
        sets_horizon = tombstones and header.delete_horizon_ms is None
        if count == header.record_count and not sets_horizon:
            return chunk[header.position : header.position + header.size]
        if retained is None or payload is None:
            payload = read_payload(chunk, header)
        else:
            payload = b"".join([payload[start:end] for start, end in retained.ranges])
            header.record_count = count
            if not header.log_append_time:
                header.max_timestamp = header.base_timestamp + retained.max_timestamp_delta
        if not sets_horizon:
            return write_batch(header, compress(header.attributes & COMPRESSION_MASK, payload))
        # Timestamp deltas count from the base timestamp, which becomes the horizon: so the records
        # themselves have to be rewritten.
        horizon = self._plan.now_ms + self._plan.delete_retention_ms
        return rebuild_batch(header, parse_records(payload, header), delete_horizon_ms=horizon)

    def _clean_marker(
        self, chunk: memoryview, header: BatchHeader, segment: LogSegment
    ) -> bytes | memoryview | None:
        plan = self._plan
        spent = self._transactions.is_spent(chunk, header, segment.transactions)
        horizon = header.delete_horizon_ms
        if not header.record_count or (spent and horizon is not None and horizon <= plan.now_ms):
            return self._header_only(header)
        self.stats.records_kept += header.record_count
        if spent and horizon is None:
            records = read_records(chunk, header)
            horizon = plan.now_ms + plan.delete_retention_ms
            return rebuild_batch(header, records, delete_horizon_ms=horizon)
        return chunk[header.position : header.position + header.size]

    def _header_only(self, header: BatchHeader) -> bytes | None:
        """The batch's header alone if something depends on it, else None."""
        if header.next_offset == self._plan.end_offset or self._has_producer_state(header):
            return rebuild_batch(header, [])
        return None

    def _has_producer_state(self, header: BatchHeader) -> bool:
        """True if the producer's last sequence or epoch is known by this batch alone.

        Without it a restart that replays the log would forget the producer, and accept a repeated
        batch as a new one.
        """
        if header.producer_id <= NO_PRODUCER_ID:
            return False
        last = self._plan.producers.get(header.producer_id)
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.attributes & CONTROL_BIT != 0 and header.producer_epoch == epoch

    # Reading

    def _batches(self, source: SourceSegment) -> Iterator[tuple[memoryview, BatchHeader]]:
        """Every batch of a segment, its checksum checked; its header's position is in the chunk.

        Damage ends the cleaning: to copy on would make it permanent, and drop what lies behind it.
        """
        path = f"{self._plan.path}/{file_name(source.base_offset)}{LOG_SUFFIX}"
        file = self._files.open(path, read_only=True)
        position = 0
        next_offset = source.base_offset
        want = self._buffer_size
        while position < source.size:
            want = min(want, source.size - position)
            chunk = memoryview(file.pread(want, position))
            if len(chunk) < want:
                raise DamagedError(f"{path} has {position + len(chunk)} bytes, not {source.size}")
            self.stats.bytes_read += len(chunk)
            self._throttle(len(chunk))
            want = self._buffer_size
            size = len(chunk)
            at = 0
            while at + BATCH_OVERHEAD <= size:
                header = _header(chunk, at, path)
                end = at + header.size
                if end > size:
                    want = max(want, header.size)
                    break
                if crc32c(chunk[at + CRC_DATA_POSITION : end]) != header.crc:
                    raise DamagedError(f"{path}: wrong checksum at position {position + at}")
                if header.base_offset < next_offset or header.next_offset > source.end_offset:
                    raise DamagedError(f"{path}: offset {header.base_offset} is out of place")
                next_offset = header.next_offset
                yield chunk, header
                at = end
            if at == 0 and (size < BATCH_OVERHEAD or position + want > source.size):
                raise DamagedError(f"{path}: no whole batch at position {position}")
            position += at


def _fits(plan: CleanerPlan, group: list[SourceSegment], source: SourceSegment) -> bool:
    return (
        sum(segment.size for segment in group) + source.size <= plan.segment_bytes
        and sum(segment.index_size for segment in group) + source.index_size
        <= plan.segment_index_bytes
        and sum(segment.time_index_size for segment in group) + source.time_index_size
        <= plan.segment_index_bytes
        and (not source.size or source.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX)
    )


def _header(chunk: memoryview, at: int, path: str) -> BatchHeader:
    try:
        return read_header(chunk, at)
    except KafkaError as error:
        raise DamagedError(f"{path}: {error.message}") from None
