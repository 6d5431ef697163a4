"""The log of one partition: segments, and what is known about them.

All methods belong to the thread of the event loop; a helper thread gets a `FlushJob`, never the log.
`append` checks everything first, then writes, then remembers: an append that fails leaves no trace.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import CONTROL_BIT, BatchHeader, Origin, check_batches, patch
from ottla.records.control import Marker, read_marker
from ottla.slices import FileSlice
from ottla.storage import checkpoints, retention, rewriting
from ottla.storage.aborted import AbortedTransaction
from ottla.storage.checkpoints import DamagedError
from ottla.storage.directory import LogDir
from ottla.storage.epochs import Epochs
from ottla.storage.flush import FlushJob
from ottla.storage.log_config import LOG_APPEND_TIME, LogConfig
from ottla.storage.producers import EXPIRATION_MS, Batch, Producer, Producers
from ottla.storage.residents import Residents
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Found, Segment, file_name
from ottla.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from ottla.storage.snapshots import write_snapshot

__all__ = ["Appended", "Log", "LogConfig"]

ALWAYS = -(1 << 63)  # a time that has always come

_log = logging.getLogger("ottla.storage")
T = TypeVar("T")


class Appended:
    """What an append did."""

    __slots__ = (
        "append_time_ms",
        "duplicate",
        "first_offset",
        "last_offset",
        "log_start_offset",
        "record_count",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        append_time_ms: int,
        log_start_offset: int,
        duplicate: bool,
        record_count: int,
        size: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.append_time_ms = append_time_ms  # -1 for CreateTime
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.record_count = record_count
        self.size = size

    def __repr__(self) -> str:
        kind = ", duplicate" if self.duplicate else ""
        return f"Appended({self.first_offset} to {self.last_offset}{kind})"


class Log:
    __slots__ = (
        "_bases",
        "_config",
        "_files",
        "_name",
        "_plain",
        "_producers",
        "_residents",
        "_roll_timestamp",
        "_segments",
        "active",
        "dir",
        "end_offset",
        "epochs",
        "flushed_ms",
        "generation",
        "partition",
        "path",
        "recovery_point",
        "size",
        "snapshots",
        "start_offset",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        directory: LogDir,
        path: str,
        topic: str,
        partition: int,
        *,
        config: LogConfig,
        residents: Residents,
        segments: list[Segment],
        epochs: Epochs,
        producers: Producers,
        snapshots: set[int],
        start_offset: int,
        end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: bytes | None = None,
    ) -> None:
        self.dir = directory
        self.path = path
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self.size = sum(segment.size for segment in segments)
        self.epochs = epochs
        self.snapshots = snapshots  # offsets of the snapshot files there are
        self.flushed_ms = now_ms
        self.generation = 0  # counts truncations: a flush that began before one proves nothing
        self.active = segments[-1]
        self._name = f"{topic}-{partition}"
        self._files = directory.files
        self._residents = residents
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._producers = producers
        self._roll_timestamp = ALWAYS
        self._config = config
        self._plain = config.plain

    def __repr__(self) -> str:
        return f"Log({self._name}, {self.start_offset} to {self.end_offset})"

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._plain = config.plain
        self._roll_timestamp = ALWAYS
        self.active.interval = config.index_interval_bytes
        self.active.index_size_max = config.segment_index_bytes

    @property
    def segments(self) -> list[Segment]:
        return self._segments

    # Appending

    def append(
        self, data: memoryview, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """HOT. A client's or a coordinator's batches, at the end of the log.

        Base offsets and leader epoch are written into `data`. With compression.type other than
        `producer` other bytes go to disk. KafkaError if the batches are not fit for this log.
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
        latest = now_ms + config.message_timestamp_after_max_ms
        max_timestamp = -1
        producing = False
        for header in headers:
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
                if max_timestamp > latest:
                    raise _too_late(max_timestamp, now_ms, config)
            if header.producer_id >= 0:
                producing = True
                repeated = self._check_producer(data, header, origin)
                if repeated is not None:
                    return self._repeated(repeated)
            header.base_offset = offset
            patch(data, header.position, offset, leader_epoch)
            offset += header.last_offset_delta + 1
        size = len(data)
        segment = self.active
        if (
            size + segment.size > config.segment_bytes
            or max_timestamp > self._roll_timestamp
            or offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX
            or segment.index_full
        ):
            segment = self._roll_if_due(size, max_timestamp, first_offset, offset - 1, now_ms)
        try:
            segment.append(data, headers)
        except OSError as error:
            raise self._failed(error, "append") from error
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        self.end_offset = offset
        self.size += size
        if producing:
            self._remember_producers(data, headers)
        if offset - self.recovery_point >= config.flush_messages:
            self.flush(now_ms)
        return Appended(
            first_offset,
            offset - 1,
            append_time_ms,
            self.start_offset,
            False,
            offset - first_offset,
            size,
        )

    def append_as_follower(self, data: memoryview, *, now_ms: int) -> Appended:
        """The leader's batches, with the offsets and epochs that they have. A torn last one is left."""
        if self.dir.offline:
            raise self.dir.refusal()
        config = self._config
        headers = check_batches(data, batch_size_max=config.max_message_bytes, origin=Origin.LEADER)
        if not headers:
            end = self.end_offset
            return Appended(end, end - 1, -1, self.start_offset, False, 0, 0)
        expected = self.end_offset
        for header in headers:
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{self._name}: the leader's offset {header.base_offset} is not after "
                    f"{expected - 1}",
                )
            expected = header.next_offset
        first, last = headers[0], headers[-1]
        size = last.position + last.size
        max_timestamp = max(header.max_timestamp for header in headers)
        segment = self._roll_if_due(
            size, max_timestamp, first.base_offset, last.last_offset, now_ms
        )
        try:
            segment.append(data[:size], headers)
        except OSError as error:
            raise self._failed(error, "append") from error
        self.end_offset = expected
        self.size += size
        for header in headers:
            if header.leader_epoch != self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
        self._remember_producers(data, headers)
        if expected - self.recovery_point >= config.flush_messages:
            self.flush(now_ms)
        count = sum(header.record_count for header in headers)
        return Appended(first.base_offset, expected - 1, -1, self.start_offset, False, count, size)

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
        late = self._config.message_timestamp_type == LOG_APPEND_TIME
        return Appended(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp if late else -1,
            self.start_offset,
            True,
            batch.offset_delta + 1,
            0,
        )

    def _remember_producers(self, data: memoryview, headers: list[BatchHeader]) -> None:
        for header in headers:
            if header.producer_id < 0:
                continue
            if header.attributes & CONTROL_BIT:
                marker = read_marker(data, header)
                if marker is not None:
                    self.end_transaction(self.active, header, marker)
            else:
                self._producers.update(header)

    def end_transaction(self, segment: Segment, header: BatchHeader, marker: Marker) -> None:
        """A marker is in `segment`: the transaction is over, and listed there if it was aborted."""
        note_marker(self._producers, segment, header, marker, self._failed)

    # Rolling

    def _roll_if_due(
        self, size: int, max_timestamp: int, first_offset: int, last_offset: int, now_ms: int
    ) -> Segment:
        """The segment to write to: the active one, unless it is full or old."""
        config = self._config
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes of batches; a segment of {self._name} has {config.segment_bytes}",
            )
        segment = self.active
        if not segment.size:
            first = max_timestamp
        else:
            self._guard(segment.largest)  # also makes the segment ready for writing
            first = self._guard(segment.first_batch_timestamp)
        jitter_max = min(config.segment_jitter_ms, config.segment_ms)
        jitter = crc32(segment.path.encode()) % jitter_max if jitter_max > 0 else 0
        age_max = config.segment_ms - jitter
        # Without timestamps in the records the segment's own age counts, on every append.
        self._roll_timestamp = first + age_max if first >= 0 else ALWAYS
        old = (
            max_timestamp - first > age_max if first >= 0 else now_ms - segment.created_ms > age_max
        )
        if (
            size + segment.size > config.segment_bytes
            or (segment.size > 0 and old)
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or segment.index_full
        ):
            self.roll(now_ms, base_offset=first_offset)
            return self._roll_if_due(size, max_timestamp, first_offset, last_offset, now_ms)
        return segment

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> Segment:
        """A new active segment, unless the active one is empty and in the right place."""
        base = self.end_offset if base_offset is None else max(base_offset, self.end_offset)
        old = self.active
        if old.base_offset == base and old.size == 0:
            return old
        try:
            segment = self.new_segment(base, now_ms)
            segment.create()
        except OSError as error:
            raise self._failed(error, "new segment") from error
        if old.size == 0:  # a gap before the first record: an empty segment is of no use
            self._discard([self._segments.pop()], now_ms)
            self._bases.pop()
        else:
            old.become_inactive()
        self._add(segment)
        self._snapshot_or_wait(base)
        return segment

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        return Segment(
            self._files,
            f"{self.path}/{file_name(base_offset)}",
            base_offset,
            residents=self._residents,
            interval=self._config.index_interval_bytes,
            index_size_max=self._config.segment_index_bytes,
            created_ms=now_ms,
        )

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._roll_timestamp = ALWAYS

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
        segments = self._segments
        slot = len(segments) - 1
        segment = self.active
        if offset < segment.base_offset:
            slot = bisect_right(self._bases, offset) - 1
            segment = segments[slot]
        try:
            while True:
                if slot + 1 < len(segments):
                    inside = end_offset < segments[slot + 1].base_offset
                else:
                    inside = end_offset < self.end_offset
                end = segment.position_of(end_offset) if inside else segment.size
                found = segment.read(
                    offset, size_max=size_max, end=end, whole_first_batch=whole_first_batch
                )
                if found is not None or inside or slot + 1 == len(segments):
                    return found
                if segment.position_of(offset) < segment.size:
                    return None  # there is a batch, larger than what may be given
                slot += 1
                segment = segments[slot]
        except OSError as error:
            raise self._failed(error, "read") from error
        except DamagedError as damage:
            raise self._damaged(segment, damage) from damage

    def offset_for_time(self, timestamp: int, *, end_offset: int) -> Found | None:
        """(offset, timestamp, leader epoch) of the first record that is not earlier."""
        for segment in self._segments:
            if segment.size and self._guard(segment.largest)[0] >= timestamp:
                found = self._guard(segment.find_time, timestamp, self.start_offset)
                if found is not None:
                    return found if found[0] < end_offset else None
        return None

    def max_timestamp(self, *, end_offset: int) -> Found | None:
        """(offset, timestamp, leader epoch) of the first record with the largest timestamp."""
        best = self._segments[0]
        for segment in self._segments:
            if self._guard(segment.largest)[0] > self._guard(best.largest)[0]:
                best = segment
        found = self._guard(best.find_largest)
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

    def aborted(self, first_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in [first, end)."""
        found: list[AbortedTransaction] = []
        slot = max(0, bisect_right(self._bases, first_offset) - 1)
        for segment in self._segments[slot:]:
            if self._guard(segment.transactions.collect, first_offset, end_offset, found):
                break
        return [(aborted.producer_id, aborted.first_offset) for aborted in found]

    def producers(self) -> list[Producer]:
        return list(self._producers)

    def is_in_transaction(self, producer_id: int) -> bool:
        return self._producers.is_in_transaction(producer_id)

    def expire_producers(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> int:
        return self._producers.expire(now_ms, expiration_ms)

    # Removing

    def retain(self, now_ms: int, *, high_watermark: int | None = None) -> int:
        """Remove the segments that retention has done with; gives how many."""
        if self.dir.offline:
            return 0
        limit = self.end_offset if high_watermark is None else high_watermark
        count = self._guard(retention.expired, self, now_ms, limit)
        if count:
            self._remove_first(count, now_ms)
        return count

    def delete_records(self, before_offset: int, now_ms: int = 0) -> int:
        """Records before the offset are gone; gives the new start offset."""
        if before_offset > self.end_offset or before_offset < 0:
            raise self._out_of_range(before_offset)
        if self.dir.offline:
            raise self.dir.refusal()
        if before_offset > self.start_offset:
            self.start_offset = before_offset
            self.epochs.truncate_from_start(before_offset)
            count = max(0, bisect_right(self._bases, before_offset) - 1)
            if count:
                self._remove_first(count, now_ms)
        return self.start_offset

    def _remove_first(self, count: int, now_ms: int) -> None:
        if count == len(self._segments):
            self.roll(now_ms)
        removed = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        self.start_offset = max(self.start_offset, self._bases[0])
        self.epochs.truncate_from_start(self.start_offset)
        self._discard(removed, now_ms)

    def _discard(self, removed: list[Segment], now_ms: int) -> None:
        due_ms = now_ms + self._config.file_delete_delay_ms
        try:
            for segment in removed:
                self.size -= segment.size
                for path in segment.rename_deleted():
                    self.dir.remove_later(path, due_ms)
                self._remove_snapshot(segment.base_offset)
        except OSError as error:
            raise self._failed(error, "remove segment") from error

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut off everything from the batch that holds `offset` on; False if there was nothing."""
        if offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            return False
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        count = bisect_right(self._bases, offset)
        removed = self._segments[count:]
        del self._segments[count:], self._bases[count:]
        self._discard(removed[::-1], now_ms)
        segment = self.active = self._segments[-1]
        before = segment.size
        self._guard(segment.truncate, offset)
        self.size -= before - segment.size
        self._truncated(offset)
        self._guard(self._reload_producers, now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the next record gets `offset`."""
        removed = self._segments[:]
        self._discard(removed[::-1], now_ms)
        self._segments, self._bases = [], []
        try:
            segment = self.new_segment(offset, now_ms)
            segment.create()
        except OSError as error:
            raise self._failed(error, "new segment") from error
        self._add(segment)
        self.start_offset = offset
        self._truncated(offset)
        self.epochs.clear()
        for snapshot in list(self.snapshots):
            self._guard(self._remove_snapshot, snapshot)
        self._producers = Producers()

    def _truncated(self, offset: int) -> None:
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_from_end(offset)
        self.generation += 1
        self._roll_timestamp = ALWAYS

    def _reload_producers(self, now_ms: int) -> None:
        from ottla.storage.recovery import load_producers

        for snapshot in list(self.snapshots):
            if snapshot > self.end_offset:
                self._remove_snapshot(snapshot)
        self._producers = load_producers(
            self._files, self.path, self._segments, self.snapshots, self.end_offset, now_ms
        )

    # Onto the disk

    def flush(self, now_ms: int) -> None:
        """Everything onto the disk, before this returns."""
        while (job := self.flush_job(now_ms, active=True)) is not None:
            try:
                job.run()
            except OSError as error:
                raise self._failed(error, "flush") from error
            job.done()

    def flush_job(self, now_ms: int, *, active: bool) -> FlushJob | None:
        """What is to be flushed, for a helper thread; `active` includes the active segment."""
        end = self.end_offset if active else self.active.base_offset
        if self.recovery_point >= end or self.dir.offline:
            return None
        try:
            self.save_epochs()
            return FlushJob(self, end, now_ms)
        except OSError as error:
            raise self._failed(error, "flush") from error

    def flush_is_due(self, now_ms: int) -> bool:
        """flush.ms has passed since the last time, and something is not on the disk yet."""
        return (
            self.recovery_point < self.end_offset
            and now_ms - self.flushed_ms >= self._config.flush_ms
        )

    def take_snapshot(self, offset: int, *, sync: bool = False) -> None:
        """What is known of producers, as of `offset`."""
        path = f"{self.path}/{file_name(offset)}{SNAPSHOT_SUFFIX}"
        self._files.replace(path, write_snapshot(self._producers), sync=sync)
        self.snapshots.add(offset)

    def _snapshot_or_wait(self, offset: int) -> None:
        """A snapshot that could not be written only makes a recovery longer."""
        try:
            self.take_snapshot(offset)
            self.save_epochs()
        except OSError as error:
            _log.warning("%s: no snapshot at offset %d: %s", self._name, offset, error)

    def _remove_snapshot(self, offset: int) -> None:
        if offset in self.snapshots:
            self.snapshots.discard(offset)
            self._files.remove(f"{self.path}/{file_name(offset)}{SNAPSHOT_SUFFIX}")

    def save_epochs(self) -> None:
        if self.epochs.dirty:
            data = checkpoints.write_epochs(self.epochs.entries())
            self._files.replace(f"{self.path}/{checkpoints.LEADER_EPOCHS}", data, sync=False)
            self.epochs.dirty = False

    def close(self, now_ms: int, *, clean: bool = True, sync: bool = True) -> None:
        """With `clean` everything is written that the next start needs to trust what it finds."""
        if clean and not self.dir.offline:
            try:
                for segment in self._segments[
                    max(0, bisect_right(self._bases, self.recovery_point) - 1) :
                ]:
                    segment.close_indexes()
                if self.end_offset not in self.snapshots and self.end_offset > self._bases[0]:
                    self.take_snapshot(self.end_offset)
                self.save_epochs()
            except OSError as error:
                raise self._failed(error, "close") from error
            if sync:
                self.flush(now_ms)
        for segment in self._segments:
            self._residents.forget(segment)

    # Errors

    def _guard(self, what: Callable[..., T], *args: object) -> T:
        try:
            return what(*args)
        except OSError as error:
            raise self._failed(error, getattr(what, "__name__", "work")) from error
        except DamagedError as damage:
            raise self._damaged(self.active, damage) from damage

    def _failed(self, error: OSError, what: str) -> KafkaError:
        return self.dir.failed(error, f"{self._name}: {what}")

    def _damaged(self, segment: Segment, damage: DamagedError) -> KafkaError:
        _log.error("%s: segment %s: %s", self._name, segment.path, damage)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self._name}: {damage}")

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self._name} holds offsets {self.start_offset} to {self.end_offset}, not {offset}",
        )


def note_marker(
    producers: Producers,
    segment: Segment,
    header: BatchHeader,
    marker: Marker,
    failed: Callable[[OSError, str], KafkaError],
) -> None:
    completed = producers.end_transaction(header, marker)
    if completed is None or not completed.aborted:
        return
    still_open = producers.first_open_offset
    stable = completed.last_offset + 1 if still_open is None else still_open
    aborted = AbortedTransaction(
        completed.producer_id, completed.first_offset, completed.last_offset, stable
    )
    try:
        segment.transactions.append(aborted)
    except OSError as error:
        raise failed(error, "transaction index") from error


def _too_late(timestamp: int, now_ms: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {timestamp} is {timestamp - now_ms} ms ahead; "
        f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}",
    )
