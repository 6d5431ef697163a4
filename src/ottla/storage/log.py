"""The log of one partition: segments, and what is known about them.

All methods belong to the thread of the event loop; a helper thread gets a `FlushJob`, never a log.
`append` checks everything first, then writes, then remembers: when it fails it leaves no trace.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import CONTROL_BIT, BatchHeader, Origin, check_batches, patch
from ottla.records.control import read_marker
from ottla.slices import FileSlice
from ottla.storage import flush, following, rewriting, swap, truncation
from ottla.storage.aborted import AbortedTransaction
from ottla.storage.appended import Appended
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaner_plan import Cleaned
from ottla.storage.directory import LogDir
from ottla.storage.epochs import Epochs
from ottla.storage.flush import FlushJob
from ottla.storage.log_config import COMPACT, LOG_APPEND_TIME, LogConfig
from ottla.storage.producers import EXPIRATION_MS, Batch, Producer, Producers
from ottla.storage.replay import note_marker
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Found, Segment
from ottla.storage.segments import Segments
from ottla.storage.snapshots import Snapshots

__all__ = ["Appended", "Log", "LogConfig"]

ALWAYS = -(1 << 63)  # a time that has always come

_log = logging.getLogger("ottla.storage")


class Log:
    __slots__ = (
        "_config",
        "_damage_said",
        "_plain",
        "_producers",
        "_roll_timestamp",
        "closed",
        "dir",
        "end_offset",
        "epochs",
        "first_dirty_offset",
        "flushed_ms",
        "generation",
        "name",
        "partition",
        "path",
        "recovery_point",
        "segments",
        "snapshots",
        "start_offset",
        "topic",
        "topic_id",
        "validates_schemas",
    )

    def __init__(
        self,
        directory: LogDir,
        path: str,
        topic: str,
        partition: int,
        *,
        config: LogConfig,
        segments: Segments,
        epochs: Epochs,
        producers: Producers,
        snapshots: Snapshots,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: bytes | None = None,
        first_dirty_offset: int = 0,
    ) -> None:
        self.dir = directory
        self.path = path
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.topic_id = topic_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point  # everything before it is on the disk
        self.first_dirty_offset = first_dirty_offset  # compacted up to here; 0: never
        self.closed = False
        self.segments = segments
        self.epochs = epochs
        self.snapshots = snapshots
        self.flushed_ms = now_ms
        self.generation = 0  # counts truncations: a flush that began before one proves nothing
        self._producers = producers
        self._roll_timestamp = ALWAYS
        self._damage_said = ""
        self._config = config
        self._plain = config.plain
        self.validates_schemas = config.validates_schemas

    def __repr__(self) -> str:
        return f"Log({self.name}, {self.start_offset} to {self.end_offset})"

    @property
    def size(self) -> int:
        return self.segments.size

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._plain = config.plain
        self.validates_schemas = config.validates_schemas
        self._roll_timestamp = ALWAYS
        self.segments.active.interval = config.index_interval_bytes
        self.segments.active.index_size_max = config.segment_index_bytes

    # Appending

    def append(
        self, data: memoryview, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """HOT. A client's or a coordinator's batches, at the end of the log.

        Base offsets and leader epoch are written into `data`. KafkaError if the batches are not
        fit for this log, or if the disk does not take them.
        """
        if self.dir.offline:
            raise self.dir.refusal()
        config = self._config
        headers = check_batches(data, batch_size_max=config.max_message_bytes, origin=origin)
        append_time_ms = -1
        if not self._plain:
            data, headers = rewriting.prepare(data, headers, config, now_ms, origin)
            if config.message_timestamp_type == LOG_APPEND_TIME:
                append_time_ms = now_ms
        offset = first_offset = self.end_offset
        max_timestamp = -1
        producing = False
        for header in headers:
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
            if header.producer_id >= 0:
                producing = True
                repeated = self._check_producer(data, header, origin)
                if repeated is not None:
                    return self._repeated(repeated)
            header.base_offset = offset
            patch(data, header.position, offset, leader_epoch)
            offset += header.last_offset_delta + 1
        if max_timestamp - now_ms > config.message_timestamp_after_max_ms:
            raise _too_late(max_timestamp, now_ms, config)
        size = len(data)
        segments = self.segments
        segment = segments.active
        if (
            size + segment.size > config.segment_bytes
            or max_timestamp > self._roll_timestamp
            or offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX
            or first_offset < segment.base_offset
            or segment.index_full
        ):
            segment = self.roll_if_due(size, max_timestamp, first_offset, offset - 1, now_ms)
        try:
            segment.append(data, headers)
        except OSError as error:
            raise self.failed(error, "append") from error
        segments.size += size
        self.end_offset = offset
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        if producing:
            self.remember_producers(data, headers)
        if offset - self.recovery_point >= config.flush_messages:
            self.flush(now_ms)
        count = offset - first_offset
        start_offset = self.start_offset
        return Appended(first_offset, offset - 1, append_time_ms, start_offset, False, count, size)

    def append_as_follower(self, data: memoryview, *, now_ms: int) -> Appended:
        """The leader's batches, with the offsets and epochs they have: see `following`."""
        return following.append(self, data, now_ms)

    def _check_producer(
        self, data: memoryview, header: BatchHeader, origin: Origin
    ) -> Batch | None:
        if header.attributes & CONTROL_BIT:
            marker = read_marker(data, header)
            if marker is not None:
                self._producers.check_marker(header, marker)
            return None
        return self._producers.check(header, origin)

    def _repeated(self, batch: Batch) -> Appended:
        stamped = self._config.message_timestamp_type == LOG_APPEND_TIME
        return Appended(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp if stamped else -1,
            self.start_offset,
            True,
            batch.offset_delta + 1,
            0,
        )

    def remember_producers(self, data: memoryview, headers: list[BatchHeader]) -> None:
        for header in headers:
            if header.producer_id < 0:
                continue
            if header.attributes & CONTROL_BIT:
                marker = read_marker(data, header)
                if marker is not None:
                    with self._guard("transaction index"):
                        note_marker(self._producers, self.segments.active, header, marker)
            else:
                self._producers.update(header)

    # Rolling

    def roll_if_due(
        self, size: int, max_timestamp: int, first_offset: int, last_offset: int, now_ms: int
    ) -> Segment:
        """The segment to write to: the active one, unless it is full or old."""
        config = self._config
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes of batches; a segment of {self.name} has {config.segment_bytes}",
            )
        segment = self.segments.active
        if (
            last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            # It was made for batches after a gap, which then could not be written.
            or first_offset < segment.base_offset
            or (
                segment.size
                and (
                    size + segment.size > config.segment_bytes
                    or self._is_old(segment, max_timestamp, now_ms)
                    or segment.index_full
                )
            )
        ):
            segment = self.roll(now_ms, base_offset=first_offset)
        if not segment.size:
            self._roll_timestamp = self._roll_time(segment, max_timestamp)
        return segment

    def _is_old(self, segment: Segment, max_timestamp: int, now_ms: int) -> bool:
        """segment.ms is over since the first batch; without timestamps, since the segment is."""
        with self._guard("roll"):
            segment.largest()  # makes one that was just opened ready for writing
            first = segment.first_batch_timestamp()
        self._roll_timestamp = self._roll_time(segment, first)
        if first >= 0:
            return max_timestamp > self._roll_timestamp
        return now_ms > self._roll_time(segment, segment.created_ms)

    def _roll_time(self, segment: Segment, first: int) -> int:
        """Jitter keeps the segments of many partitions from being rolled all at once."""
        if first < 0:
            return ALWAYS
        config = self._config
        segment_ms = config.segment_ms
        if COMPACT in config.cleanup_policy:  # it must be closed before it can be compacted
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        jitter_max = min(config.segment_jitter_ms, segment_ms)
        jitter = crc32(segment.path.encode()) % jitter_max if jitter_max > 0 else 0
        return first + segment_ms - jitter

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> Segment:
        """A new active segment, unless the active one is empty and in the right place."""
        base = self.end_offset if base_offset is None else max(base_offset, self.end_offset)
        segments = self.segments
        old = segments.active
        if old.base_offset == base and not old.size:
            return old
        with self._guard("new segment"):
            segment = segments.make(base, self._config, now_ms)
        if old.size:
            old.become_inactive()
        else:  # the log begins further on than its first, empty segment says
            with self._guard("remove segment"):
                truncation.discard(self, segments.take_from(len(segments) - 1), now_ms)
        segments.add(segment)
        self._roll_timestamp = ALWAYS
        try:
            self.take_snapshot(base)
            flush.save_epochs(self)
        except OSError as error:  # makes a recovery longer, and does no other harm
            _log.warning("%s: no snapshot at offset %d: %s", self.name, base, error)
        return segment

    # Reading

    def read(
        self, offset: int, *, size_max: int, end_offset: int, whole_first_batch: bool = True
    ) -> FileSlice | None:
        """HOT. Batches from the one that holds `offset`, none of them at or beyond `end_offset`.

        From one segment, at most `size_max` bytes; the first batch is given whole if it is larger
        and `whole_first_batch` is set. None if there is nothing; the last batch may be cut.
        """
        if self.dir.offline:
            raise self.dir.refusal()
        if offset < self.start_offset or offset > self.end_offset:
            raise self._out_of_range(offset)
        if offset >= end_offset:
            return None
        segments = self.segments
        segment = segments.active
        try:
            if offset >= segment.base_offset:
                inside = end_offset < self.end_offset
                end = segment.position_of(end_offset) if inside else segment.size
                return segment.read(offset, size_max, end, whole_first_batch)
            return self._read_older(offset, size_max, end_offset, whole_first_batch)
        except OSError as error:
            raise self.failed(error, "read") from error
        except DamagedError as damage:
            raise self._damaged(damage) from damage

    def _read_older(
        self, offset: int, size_max: int, end_offset: int, whole_first_batch: bool
    ) -> FileSlice | None:
        segments = self.segments
        for slot in range(segments.slot(offset), len(segments)):
            segment = segments[slot]
            inside = end_offset < segments.end_of(slot, self.end_offset)
            end = segment.position_of(end_offset) if inside else segment.size
            found = segment.read(offset, size_max, end, whole_first_batch)
            if found is not None or inside or segment.position_of(offset) < end:
                return found
        return None

    def offset_for_time(self, timestamp: int, *, end_offset: int) -> Found | None:
        """(offset, timestamp, leader epoch) of the first record that is not earlier."""
        with self._guard("look up a time"):
            for segment in self.segments:
                if segment.size and segment.largest()[0] >= timestamp:
                    found = segment.find_time(timestamp, self.start_offset)
                    if found is not None:
                        return found if found[0] < end_offset else None
        return None

    def max_timestamp(self, *, end_offset: int) -> Found | None:
        """(offset, timestamp, leader epoch) of the first record with the largest timestamp."""
        with self._guard("look up a time"):
            best = max(self.segments, key=lambda segment: segment.largest()[0])
            found = best.find_largest()
        return found if found is not None and found[0] < end_offset else None

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset): see `Epochs.end_offset`."""
        return self.epochs.end_offset(leader_epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        return self.epochs.epoch_at(offset)

    # Transactions and producers

    @property
    def first_unstable_offset(self) -> int | None:
        """The lowest offset of an open transaction."""
        return self._producers.first_open_offset

    def unstable_offset(self, high_watermark: int) -> int | None:
        """The same, but a transaction counts as open until its marker is replicated."""
        return self._producers.first_unstable_offset(high_watermark)

    def end_of(self, records: FileSlice, first_offset: int, end_offset: int) -> int:
        """Where a read from `first_offset` on has ended, or a little later, as the index knows."""
        segments = self.segments
        for slot in range(segments.slot(first_offset), len(segments)):
            segment = segments[slot]
            if segment.file is records.file:
                with self._guard("look up an offset"):
                    found = segment.offset_after(records.position + records.size)
                if found is None:
                    found = segments.end_of(slot, self.end_offset)
                return min(found, end_offset)
        return end_offset

    def aborted(self, first_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in [first, end)."""
        found = self.aborted_transactions(first_offset, end_offset)
        return [(aborted.producer_id, aborted.first_offset) for aborted in found]

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        segments = self.segments
        with self._guard("transaction index"):
            for slot in range(segments.slot(first_offset), len(segments)):
                if segments[slot].transactions.collect(first_offset, end_offset, found):
                    break
        return found

    def producers(self) -> list[Producer]:
        return list(self._producers)

    def producer(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def expire_producers(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> int:
        return self._producers.expire(now_ms, expiration_ms)

    def replace_producers(self, producers: Producers) -> None:
        self._producers = producers

    # Removing

    def retain(self, now_ms: int, *, high_watermark: int | None = None) -> int:
        """Remove the segments that retention has done with; gives how many."""
        if self.dir.offline:
            return 0
        with self._guard("retention"):
            limit = self.end_offset if high_watermark is None else high_watermark
            return truncation.retain(self, now_ms, limit)

    def delete_records(self, before_offset: int, now_ms: int = 0) -> int:
        """Records before the offset are gone; gives the new start offset."""
        if self.dir.offline:
            raise self.dir.refusal()
        if before_offset > self.end_offset or before_offset < 0:
            raise self._out_of_range(before_offset)
        if before_offset > self.start_offset:
            with self._guard("delete records"):
                truncation.advance_start(self, before_offset, now_ms)
        return self.start_offset

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut off the batches from the one that holds `offset` on; False if there are none."""
        if offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            return False
        if offset < self.segments.first_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        with self._guard("truncate"):
            truncation.truncate_to(self, offset, now_ms)
        self._roll_timestamp = ALWAYS
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the next record gets `offset`."""
        with self._guard("truncate"):
            truncation.start_over(self, offset, now_ms)
        self._roll_timestamp = ALWAYS

    def swap_in(self, cleaned: Cleaned, sources: list[Segment], now_ms: int) -> bool:
        """What the cleaner has made of some segments takes their place: see `swap`."""
        with self._guard("swap in a cleaned segment"):
            return swap.swap_in(self, cleaned, sources, now_ms)

    # Onto the disk

    def flush(self, now_ms: int) -> None:
        """Everything onto the disk, before this returns."""
        with self._guard("flush"):
            flush.flush(self, now_ms)

    def flush_job(self, now_ms: int, *, active: bool) -> FlushJob | None:
        """What is to be flushed, for a helper thread; `active` includes the active segment."""
        end = self.end_offset if active else self.segments.active.base_offset
        if self.recovery_point >= end or self.dir.offline:
            return None
        with self._guard("flush"):
            flush.save_epochs(self)
            return FlushJob(self, end, now_ms)

    def flush_is_due(self, now_ms: int) -> bool:
        """flush.ms has passed since the last time, and something is not on the disk yet."""
        return (
            self.recovery_point < self.end_offset
            and now_ms - self.flushed_ms >= self._config.flush_ms
        )

    def take_snapshot(self, offset: int) -> None:
        """What is known of producers, as of `offset`."""
        self.snapshots.take(offset, self._producers)

    def save(self) -> None:
        """Write everything that the next start needs to trust what it finds, without syncing."""
        if not self.dir.offline:
            with self._guard("close"):
                flush.save(self)

    def close(self) -> None:
        """Let go of files and indexes. After `save` and `flush` the end is a clean one."""
        self.closed = True
        self.segments.release()

    # Errors

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        """For all that is not HOT: errors of the disk become KafkaError."""
        try:
            yield
        except OSError as error:
            raise self.failed(error, what) from error
        except DamagedError as damage:
            raise self._damaged(damage) from damage

    def failed(self, error: OSError, what: str) -> KafkaError:
        if self.closed:  # whoever still reads it finds its files gone, which is no fault
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} is closed")
        return self.dir.failed(error, f"{self.name}: {what}")

    def _damaged(self, damage: DamagedError) -> KafkaError:
        if str(damage) != self._damage_said:  # consumers ask again and again
            self._damage_said = str(damage)
            _log.error("%s: %s", self.path, damage)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.name}: {damage}")

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.name} holds offsets {self.start_offset} to {self.end_offset}, not {offset}",
        )


def _too_late(timestamp: int, now_ms: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {timestamp} is {timestamp - now_ms} ms ahead; "
        f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}",
    )
