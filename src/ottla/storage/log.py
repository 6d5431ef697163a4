"""The log of one partition: its segments, leader epochs and producers.

Only the event loop's thread calls these methods; a helper thread gets a `FlushJob`, never a `Log`.
`append` checks everything first, then writes, then remembers: when it fails it leaves no trace.

    start_offset      of the first record; retention and DeleteRecords raise it
    recovery_point    every record below it is on the disk: a recovery scans from here on
    end_offset        of the next record. Records from the high watermark on, which `replica`
                      knows, may still be cut off when the leader changes
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import CONTROL_BIT, AppendOrigin, BatchHeader, check_batches, patch
from ottla.records.control import read_marker
from ottla.slices import FileSlice
from ottla.storage import flush, follower_append, rewrite, swap, truncation
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaner_plan import CleanedSegment
from ottla.storage.flush import FlushJob
from ottla.storage.leader_epoch_cache import LeaderEpochCache
from ottla.storage.log_append_info import LogAppendInfo
from ottla.storage.log_config import COMPACT, LOG_APPEND_TIME, LogConfig, timestamp_too_late
from ottla.storage.log_dir import LogDir
from ottla.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment, TimestampAndOffset
from ottla.storage.log_segments import LogSegments
from ottla.storage.producers import (
    EXPIRATION_MS,
    BatchMetadata,
    PartitionProducers,
    ProducerStateEntry,
)
from ottla.storage.replay import note_marker
from ottla.storage.snapshots import ProducerSnapshots
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["Log", "LogAppendInfo", "LogConfig"]

ALWAYS = -(1 << 63)  # a roll time in the past: the next append calls `roll_if_due`

_log = logging.getLogger("ottla.storage")


class Log:
    __slots__ = (
        "_config",
        "_damage_logged",
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
        segments: LogSegments,
        epochs: LeaderEpochCache,
        producers: PartitionProducers,
        snapshots: ProducerSnapshots,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: bytes | None = None,
        first_dirty_offset: int = 0,
    ) -> None:
        assert segments.first_offset <= start_offset <= end_offset
        assert recovery_point <= end_offset
        self.dir = directory
        self.path = path
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.topic_id = topic_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point  # everything before it is on the disk
        self.first_dirty_offset = first_dirty_offset  # compacted up to here; 0: never compacted
        self.closed = False
        self.segments = segments
        self.epochs = epochs
        self.snapshots = snapshots
        self.flushed_ms = now_ms
        # Counts truncations. A flush or a cleaning that began before one says nothing about the
        # records that now stand at the same offsets, so its result is dropped.
        self.generation = 0
        self._producers = producers
        self._roll_timestamp = ALWAYS
        self._damage_logged = ""
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

    def reconfigure(self, config: LogConfig) -> None:
        """Use these settings from the next append on."""
        self._config = config
        self._plain = config.plain
        self.validates_schemas = config.validates_schemas
        self._roll_timestamp = ALWAYS
        self.segments.active.interval = config.index_interval_bytes
        self.segments.active.index_size_max = config.segment_index_bytes

    # Appending

    def append(
        self,
        data: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> LogAppendInfo:
        """HOT. Append a client's or a coordinator's batches as the leader; offsets and leader epoch
        are written into `data`. KafkaError if this log or its disk refuses them."""
        if self.dir.offline:
            raise self.dir.offline_error()
        config = self._config
        headers = check_batches(data, batch_size_max=config.max_message_bytes, origin=origin)
        append_time_ms = -1
        if not self._plain:
            data, headers = rewrite.rewrite_batches(data, headers, config, now_ms, origin)
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
                # A repeated batch is a client's, alone in its request: none is left out here.
                duplicate = self._check_producer(data, header, origin)
                if duplicate is not None:
                    return self._duplicate_info(duplicate)
            # In place, in the request's buffer: the CRC does not cover these two fields, so a batch
            # goes to disk without a copy. If a check below refuses it, the buffer is dropped.
            header.base_offset = offset
            patch(data, header.position, offset, leader_epoch)
            offset += header.last_offset_delta + 1
        if max_timestamp - now_ms > config.message_timestamp_after_max_ms:
            raise timestamp_too_late(max_timestamp, now_ms, config)
        size = len(data)
        segments = self.segments
        segment = segments.active
        # The conditions of `roll_if_due`, without a call: they are false for nearly every batch.
        if (
            size + segment.size > config.segment_bytes
            or max_timestamp > self._roll_timestamp
            or offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX
            or first_offset < segment.base_offset
            or segment.index_full
        ):
            segment = self.roll_if_due(size, max_timestamp, first_offset, offset - 1, now_ms)
        assert segment.base_offset <= first_offset  # an index holds offsets relative to the base
        try:
            segment.append(data, headers)
        except OSError as error:
            raise self.failed(error, "append") from error
        # In the log: from here on nothing may refuse it, or a retry would be appended once more.
        segments.size += size
        self.end_offset = offset
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        if producing:
            self.update_producers(data, headers)
        # Last: if it fails, a retry is recognised by the sequence that was just remembered.
        if offset - self.recovery_point >= config.flush_messages:
            self.flush(now_ms)
        count = offset - first_offset
        return LogAppendInfo(
            first_offset, offset - 1, append_time_ms, self.start_offset, False, count, size
        )

    def append_as_follower(self, data: memoryview, *, now_ms: int) -> LogAppendInfo:
        """Append the leader's batches with the offsets and epochs they have."""
        return follower_append.append_as_follower(self, data, now_ms)

    def _check_producer(
        self, data: memoryview, header: BatchHeader, origin: AppendOrigin
    ) -> BatchMetadata | None:
        """The batch that this one repeats, if any. A marker has no sequence, so it never does."""
        if header.attributes & CONTROL_BIT:
            marker = read_marker(data, header)
            if marker is not None:
                self._producers.check_marker(header, marker)
            return None
        return self._producers.check(header, origin)

    def _duplicate_info(self, batch: BatchMetadata) -> LogAppendInfo:
        """The answer that the first try got, or would have got."""
        stamped = self._config.message_timestamp_type == LOG_APPEND_TIME
        return LogAppendInfo(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp if stamped else -1,
            self.start_offset,
            True,
            batch.offset_delta + 1,
            0,
        )

    def update_producers(self, data: memoryview, headers: list[BatchHeader]) -> None:
        """Update the producer state with batches that are in the log."""
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
    ) -> LogSegment:
        """The segment to write to: the active one, or a new one if that is full or too old."""
        config = self._config
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes of batches; a segment of {self.name} has {config.segment_bytes}",
            )
        segment = self.segments.active
        if (
            # Index entries hold 31 bits of offset, counted from the segment's base offset.
            last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            # The segment was created for batches after a gap, and writing these failed.
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

    def _is_old(self, segment: LogSegment, max_timestamp: int, now_ms: int) -> bool:
        """True if segment.ms has passed since the first batch, by the timestamps of the batches. If
        they have none, the age counts from when the file was created."""
        with self._guard("roll"):
            segment.largest()  # reads it if the log was just opened: writing needs it
            first = segment.first_batch_timestamp()
        self._roll_timestamp = self._roll_time(segment, first)
        if first >= 0:
            return max_timestamp > self._roll_timestamp
        return now_ms > self._roll_time(segment, segment.created_ms)

    def _roll_time(self, segment: LogSegment, first: int) -> int:
        """Jitter, fixed per segment, keeps many partitions from rolling at the same moment."""
        if first < 0:
            return ALWAYS
        config = self._config
        segment_ms = config.segment_ms
        if COMPACT in config.cleanup_policy:  # only a closed segment can be compacted
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        jitter_max = min(config.segment_jitter_ms, segment_ms)
        jitter = crc32(segment.path.encode()) % jitter_max if jitter_max > 0 else 0
        return first + segment_ms - jitter

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> LogSegment:
        """A new active segment, unless the active one is empty and in the right place."""
        base = self.end_offset if base_offset is None else max(base_offset, self.end_offset)
        segments = self.segments
        old = segments.active
        if old.base_offset == base and not old.size:
            return old
        with self._guard("new segment"):
            segment = segments.create_segment(base, self._config, now_ms)
        if old.size:
            old.become_inactive()
        else:  # the log begins at a later offset than the name of its empty segment says
            with self._guard("remove segment"):
                truncation.delete_segments(self, segments.take_from(len(segments) - 1), now_ms)
        segments.add(segment)
        self._roll_timestamp = ALWAYS
        try:
            self.take_snapshot(base)
            flush.save_epochs(self)
        except OSError as error:
            # Both can be rebuilt from the log, so a batch is not refused for them: without the
            # snapshot a recovery replays more segments.
            _log.warning("%s: producer snapshot %d not written: %s", self.name, base, error)
        return segment

    # Reading

    def read(
        self, offset: int, *, size_max: int, end_offset: int, whole_first_batch: bool = True
    ) -> FileSlice | None:
        """HOT. Batches from the one that holds `offset` on, all of them below `end_offset`.

        They come from one segment and have at most `size_max` bytes, except that a larger first
        batch comes whole if `whole_first_batch` is set: a consumer whose fetch size is smaller
        than a batch would otherwise never get past it (KIP-74). The last batch may be cut off.
        None if there is nothing to read.
        """
        if self.dir.offline:
            raise self.dir.offline_error()
        if offset < self.start_offset or offset > self.end_offset:
            raise self._out_of_range(offset)
        if offset >= end_offset:
            return None
        segments = self.segments
        segment = segments.active
        try:
            # Consumers that keep up read the active segment, whose recent positions are in memory.
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
            # Compaction left nothing at or after `offset` in this segment: look in the next one.
        return None

    def offset_for_time(self, timestamp: int, *, end_offset: int) -> TimestampAndOffset | None:
        """The first record whose timestamp is at or after `timestamp`, if below `end_offset`."""
        with self._guard("look up a time"):
            for segment in self.segments:
                if segment.size and segment.largest()[0] >= timestamp:
                    found = segment.find_time(timestamp, self.start_offset)
                    if found is not None:
                        return found if found[0] < end_offset else None
        return None

    def max_timestamp(self, *, end_offset: int) -> TimestampAndOffset | None:
        """The first record that has the log's largest timestamp (KIP-734)."""
        with self._guard("look up a time"):
            best = max(self.segments, key=lambda segment: segment.largest()[0])
            found = best.find_largest()
        return found if found is not None and found[0] < end_offset else None

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch: see `LeaderEpochCache.end_offset`."""
        return self.epochs.end_offset(leader_epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        return self.epochs.epoch_at(offset)

    # Transactions and producers

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return self._producers.first_open_offset

    def unstable_offset(self, high_watermark: int) -> int | None:
        """The same, but a transaction stays open until its marker is below the high watermark."""
        return self._producers.first_unstable_offset(high_watermark)

    def end_of(self, records: FileSlice, first_offset: int, end_offset: int) -> int:
        """The offset at which a read from `first_offset` on ended, or a later one near to it.

        As exact as the index; the caller only needs a bound for aborted transactions.
        """
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

    def producers(self) -> list[ProducerStateEntry]:
        return list(self._producers)

    def producer(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    def expire_producers(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> int:
        return self._producers.expire(now_ms, expiration_ms)

    def replace_producers(self, producers: PartitionProducers) -> None:
        self._producers = producers

    # Removing

    def retain(self, now_ms: int, *, high_watermark: int | None = None) -> int:
        """Delete the segments that retention no longer keeps; returns how many."""
        if self.dir.offline:
            return 0
        with self._guard("retention"):
            limit = self.end_offset if high_watermark is None else high_watermark
            return truncation.delete_old_segments(self, now_ms, limit)

    def delete_records(self, before_offset: int, now_ms: int = 0) -> int:
        """Move the start offset to `before_offset` (DeleteRecords); returns the start offset."""
        if self.dir.offline:
            raise self.dir.offline_error()
        if before_offset > self.end_offset or before_offset < 0:
            raise self._out_of_range(before_offset)
        if before_offset > self.start_offset:
            with self._guard("delete records"):
                truncation.advance_start_offset(self, before_offset, now_ms)
        return self.start_offset

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut off the batches from the one that holds `offset` on; False if there are none."""
        if offset >= self.end_offset:
            # This broker may have been a leader that noted the start of its epoch and was replaced
            # before it appended a record: that entry contradicts the next leader's.
            self.epochs.truncate_from_end(self.end_offset)
            return False
        if offset < self.segments.first_offset:  # nothing here is in the leader's log
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        with self._guard("truncate"):
            truncation.truncate_to(self, offset, now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Delete all records; the next one gets `offset`."""
        with self._guard("truncate"):
            truncation.truncate_fully(self, offset, now_ms)

    def swap_in(self, cleaned: CleanedSegment, sources: list[LogSegment], now_ms: int) -> bool:
        """Replace `sources` with the segment that the cleaner made of them."""
        with self._guard("swap in a cleaned segment"):
            return swap.swap_in(self, cleaned, sources, now_ms)

    # Flushing

    def flush(self, now_ms: int) -> None:
        """Sync everything to the disk before this returns."""
        with self._guard("flush"):
            flush.flush(self, now_ms)

    def flush_job(self, now_ms: int, *, active: bool) -> FlushJob | None:
        """A flush for a helper thread to run; `active` includes the active segment."""
        end = self.end_offset if active else self.segments.active.base_offset
        if self.recovery_point >= end or self.dir.offline:
            return None
        with self._guard("flush"):
            flush.save_epochs(self)
            return FlushJob(self, end, now_ms)

    def flush_is_due(self, now_ms: int) -> bool:
        """True if flush.ms has passed since the last flush and something is unflushed."""
        is_time = now_ms - self.flushed_ms >= self._config.flush_ms
        return is_time and self.recovery_point < self.end_offset

    def take_snapshot(self, offset: int) -> None:
        """Write a producer snapshot as of `offset`."""
        self.snapshots.take(offset, self._producers)

    def save(self) -> None:
        """Write what the next start needs to trust the files without a scan; nothing is synced."""
        if not self.dir.offline:
            with self._guard("close"):
                flush.save(self)

    def close(self) -> None:
        """Release files and indexes. After `save` and `flush` this is a clean shutdown."""
        self.closed = True
        self.segments.release()

    # Called by the modules that do the work. Only these methods write to a log's attributes.

    def extended(self, end_offset: int, size: int) -> None:
        """The active segment has `size` more bytes, and the log ends at `end_offset`."""
        assert end_offset > self.end_offset
        self.segments.size += size
        self.end_offset = end_offset

    def start_moved(self, offset: int) -> None:
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)

    def end_moved(self, offset: int) -> None:
        """Records from `offset` on were cut off; `generation` voids a flush that is under way."""
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self.epochs.truncate_from_end(offset)
        self.generation += 1
        self._roll_timestamp = ALWAYS

    def flushed(self, end_offset: int, now_ms: int) -> None:
        assert end_offset <= self.end_offset  # else a recovery would trust records yet to come
        self.recovery_point = max(self.recovery_point, end_offset)
        self.flushed_ms = now_ms

    def cleaned(self, end_offset: int) -> None:
        assert end_offset <= self.segments.active.base_offset  # the active one is never cleaned
        self.first_dirty_offset = end_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader's first records in this epoch come next."""
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, self.end_offset)

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        """Turn errors of the disk into KafkaError, for everything that is not HOT."""
        try:
            yield
        except OSError as error:
            raise self.failed(error, what) from error
        except DamagedError as damage:
            raise self._damaged(damage) from damage

    def failed(self, error: OSError, what: str) -> KafkaError:
        if self.closed:  # a reader of a deleted log finds its files gone: the disk is not at fault
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} is closed")
        return self.dir.failed(error, f"{self.name}: {what}")

    def _damaged(self, damage: DamagedError) -> KafkaError:
        if str(damage) != self._damage_logged:  # a consumer asks for the same batch many times
            self._damage_logged = str(damage)
            _log.error("%s: %s", self.path, damage)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.name}: {damage}")

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.name} holds offsets {self.start_offset} to {self.end_offset}, not {offset}",
        )
