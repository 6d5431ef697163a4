"""Cleaning one log: what of its closed segments is still wanted is written anew.

    1. the keys of the dirty segments go into a table: key -> offset of its last record
    2. all closed segments up to there are read again, group by group, and of each record is asked:
       is it the last of its key? Those that are go into one new segment for each group. In the
       dirty segments the table has the answer by offset; in the clean ones it is asked by key.

A batch that stays whole is copied byte for byte; one that loses records keeps its header, with
another count, and the bytes of the records that stay. A batch of which none is left goes, unless it
is the last of its producer, whose sequence it tells, or the last of the range, which tells where
the range ends: then its header stays alone.

A tombstone is wanted for delete.retention.ms after the first cleaning that saw it. When that ends
is written into the batch: the base timestamp, and bit 6 of the attributes (KIP-534). Markers of
transactions use the same: see `cleaner_transactions`.

Nothing here knows a log. It may run in a process of its own, on `Files` and a `Plan`.
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
from ottla.records.record import parse_records, read_payload, read_records
from ottla.records.rewrite import rebuild_batch
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaner_plan import CLEANED_SUFFIX, Answer, Cleaned, Finished, Plan, Source
from ottla.storage.cleaner_records import (
    ENTRY_SIZE,
    TOMBSTONE_BIT,
    Kept,
    filter_records,
    index_keys,
    pick_records,
)
from ottla.storage.cleaner_transactions import Transactions
from ottla.storage.files import PASSING_ERRNOS, Files
from ottla.storage.residents import Residents
from ottla.storage.segment import LOG_SUFFIX, RELATIVE_OFFSET_MAX, SUFFIXES, Segment, file_name

BUFFER_SIZE_MIN = 64 * 1024
BUFFER_SIZE_MAX = 4 * 1024 * 1024

Pace = Callable[[int], object]  # told of bytes read and written; may sleep
Seconds = Callable[[], float]


def clean(files: Files, plan: Plan, pace: Pace, seconds: Seconds) -> Iterator[Answer]:
    """Each group of segments as it is done, and at last what became of the whole."""
    work = Work(files, plan, pace)
    started = seconds()
    try:
        work.index()
        for group in work.groups():
            yield Answer(cleaned=work.clean_group(group))
        work.finished.end_offset = work.latest_offset + 1
    except (DamagedError, KafkaError) as damage:
        work.finished.failure = str(damage)
    except OSError as error:
        work.finished.failure = str(error)
        work.finished.passing = error.errno in PASSING_ERRNOS
    work.finished.seconds = seconds() - started
    yield Answer(finished=work.finished)


class Work:
    """One cleaning of one log."""

    def __init__(self, files: Files, plan: Plan, pace: Pace) -> None:
        self._files = files
        self._plan = plan
        self._pace = pace
        self._buffer_size = min(max(plan.buffer_size, BUFFER_SIZE_MIN), BUFFER_SIZE_MAX)
        self._places: dict[bytes, int] = {}  # key -> where its last record is
        self._sorted: list[int] = []  # the same places, in the order of the log
        self._slot = 0  # the first of them that the walk has not come to
        self._transactions = Transactions(plan.aborted)
        self.latest_offset = plan.first_dirty_offset - 1  # the table knows all up to here
        self.finished = Finished()

    # The table of keys

    def index(self) -> None:
        """Fill the table from the dirty segments, until it is full or they are at their end."""
        plan = self._plan
        transactions = Transactions(plan.aborted)
        key_count_max = max(1, plan.table_size // ENTRY_SIZE)
        for source in plan.sources:
            if source.end_offset > plan.first_dirty_offset:
                if not self._index_segment(source, transactions, key_count_max):
                    break
                self.latest_offset = source.end_offset - 1  # over a gap, if there is one
        self._sorted = sorted(self._places.values())
        self.finished.key_count = len(self._places)

    def _index_segment(
        self, source: Source, transactions: Transactions, key_count_max: int
    ) -> bool:
        """False if the table has no room for a batch: up to that one it is known what is wanted."""
        places = self._places
        start = self._plan.first_dirty_offset
        for chunk, header in self._batches(source):
            if header.last_offset < start:
                continue
            if header.attributes & CONTROL_BIT:
                transactions.is_spent(chunk, header, None)
            elif not transactions.is_aborted(header):
                # A first batch is taken at any size, or a small table would never get anywhere.
                if places and len(places) + header.record_count > key_count_max:
                    return False
                payload = read_payload(chunk, header)
                self.finished.records_without_key += index_keys(
                    payload, header.record_count, header.base_offset, start, places
                )
            self.latest_offset = header.last_offset
        return True

    # Groups

    def groups(self) -> Iterator[list[Source]]:
        """Neighbours that fit into one segment, by their sizes of now."""
        plan = self._plan
        group: list[Source] = []
        for source in plan.sources:
            if source.base_offset > self.latest_offset:
                break
            if group and not _fits(plan, group, source):
                yield group
                group = []
            group.append(source)
        if group:
            yield group

    def clean_group(self, group: list[Source]) -> Cleaned:
        base_offset = group[0].base_offset
        path = f"{self._plan.path}/{file_name(base_offset)}"
        for suffix in SUFFIXES:  # of a cleaning whose result nobody wanted
            self._files.remove(path + suffix + CLEANED_SUFFIX)
        segment = Segment(
            self._files,
            path,
            base_offset,
            residents=Residents(),
            interval=self._plan.index_interval_bytes,
            index_size_max=self._plan.segment_index_bytes,
            created_ms=self._plan.now_ms,
            ending=CLEANED_SUFFIX,
        )
        segment.create()
        segment.create_indexes()  # of what is left there may be no batch at all
        for source in group:
            self._clean_segment(source, segment)
        segment.close_indexes()
        segment.open_file().sync()
        for suffix in SUFFIXES[1:]:
            if self._files.exists(path + suffix + CLEANED_SUFFIX):
                self._files.sync(path + suffix + CLEANED_SUFFIX)
        self._files.sync(self._plan.path)
        return Cleaned(
            base_offsets=[source.base_offset for source in group],
            size=segment.size,
            index_size=segment.offset_index.file.written,
            time_index_size=segment.time_index.file.written,
            transactions_size=segment.transactions.written,
        )

    def _clean_segment(self, source: Source, segment: Segment) -> None:
        """What of one segment is still wanted, at the end of another."""
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
        segment: Segment,
        pieces: list[bytes | memoryview],
        headers: list[BatchHeader],
        size: int,
    ) -> None:
        segment.append(memoryview(b"".join(pieces)), headers)
        self.finished.bytes_written += size
        self._pace(size)

    # Batches

    def _clean_batch(
        self, chunk: memoryview, header: BatchHeader, segment: Segment
    ) -> bytes | memoryview | None:
        """What is left of a batch; None if nothing is."""
        self.finished.records_read += header.record_count
        if header.attributes & CONTROL_BIT:
            return self._clean_marker(chunk, header, segment)
        if self._transactions.is_aborted(header):
            return self._empty(header)
        if header.base_offset > self.latest_offset:  # of these the table knows nothing
            self.finished.records_kept += header.record_count
            return chunk[header.position : header.position + header.size]
        horizon = header.delete_horizon_ms
        drop_tombstones = horizon is not None and horizon <= self._plan.now_ms
        if header.base_offset >= self._plan.first_dirty_offset:
            return self._clean_dirty(chunk, header, drop_tombstones)
        payload = read_payload(chunk, header)
        kept = filter_records(
            payload, header.record_count, header.base_offset, self._places, drop_tombstones
        )
        self.finished.records_without_key += kept.keyless
        if not kept.count:
            return self._empty(header)
        return self._rest(chunk, header, kept.tombstones, kept, payload)

    def _clean_dirty(
        self, chunk: memoryview, header: BatchHeader, drop_tombstones: bool
    ) -> bytes | memoryview | None:
        """A batch that was indexed: what is wanted of it is known, without a look at its records.

        Many lose all of theirs, and some none: these are not even unpacked.
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
            return self._empty(header)
        if len(wanted) == header.record_count:
            return self._rest(chunk, header, tombstones, None, None)
        payload = read_payload(chunk, header)
        kept = pick_records(payload, header.record_count, header.base_offset, wanted)
        if kept.count != len(wanted):
            raise DamagedError(f"offsets {wanted[0]} to {wanted[-1]} are not what they were")
        return self._rest(chunk, header, tombstones, kept, payload)

    def _rest(
        self,
        chunk: memoryview,
        header: BatchHeader,
        tombstones: bool,
        kept: Kept | None,
        payload: bytes | None,
    ) -> bytes | memoryview:
        """The batch with those of its records that are kept; None are all of them."""
        count = header.record_count if kept is None else kept.count
        self.finished.records_kept += count
        sets_horizon = tombstones and header.delete_horizon_ms is None
        if count == header.record_count and not sets_horizon:
            return chunk[header.position : header.position + header.size]
        if kept is None or payload is None:
            payload = read_payload(chunk, header)
        else:
            payload = b"".join([payload[start:end] for start, end in kept.ranges])
            header.record_count = count
            if not header.log_append_time:
                header.max_timestamp = header.base_timestamp + kept.max_timestamp_delta
        if not sets_horizon:
            return write_batch(header, compress(header.attributes & COMPRESSION_MASK, payload))
        # The deltas count from the base timestamp, which changes: the records are written anew.
        horizon = self._plan.now_ms + self._plan.delete_retention_ms
        return rebuild_batch(header, parse_records(payload, header), delete_horizon_ms=horizon)

    def _clean_marker(
        self, chunk: memoryview, header: BatchHeader, segment: Segment
    ) -> bytes | memoryview | None:
        plan = self._plan
        spent = self._transactions.is_spent(chunk, header, segment.transactions)
        horizon = header.delete_horizon_ms
        if not header.record_count or (spent and horizon is not None and horizon <= plan.now_ms):
            return self._empty(header)
        self.finished.records_kept += header.record_count
        if spent and horizon is None:
            records = read_records(chunk, header)
            horizon = plan.now_ms + plan.delete_retention_ms
            return rebuild_batch(header, records, delete_horizon_ms=horizon)
        return chunk[header.position : header.position + header.size]

    def _empty(self, header: BatchHeader) -> bytes | None:
        """The header alone, where it still says something."""
        if header.next_offset == self._plan.end_offset or self._tells_of_producer(header):
            return rebuild_batch(header, [])
        return None

    def _tells_of_producer(self, header: BatchHeader) -> bool:
        """Whether the producer's last sequence, or its epoch, is known by this batch alone."""
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

    def _batches(self, source: Source) -> Iterator[tuple[memoryview, BatchHeader]]:
        """Every batch of a segment, its checksum checked; its header's position is in the chunk."""
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
            self.finished.bytes_read += len(chunk)
            self._pace(len(chunk))
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


def _fits(plan: Plan, group: list[Source], source: Source) -> bool:
    return (
        sum(each.size for each in group) + source.size <= plan.segment_bytes
        and sum(each.index_size for each in group) + source.index_size <= plan.segment_index_bytes
        and sum(each.time_index_size for each in group) + source.time_index_size
        <= plan.segment_index_bytes
        and (not source.size or source.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX)
    )


def _header(chunk: memoryview, at: int, path: str) -> BatchHeader:
    try:
        return read_header(chunk, at)
    except KafkaError as error:
        raise DamagedError(f"{path}: {error.message}") from None
