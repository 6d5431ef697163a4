"""Opening the log in a partition's directory, with a recovery if the last shutdown was not clean.

    clean shutdown    sizes come from the directory, the end offset from the last index entry on,
                      producers from the last snapshot: a few small reads, whatever the log's size
    crash             segments from the recovery point on are read from end to end. The log ends at
                      the first batch that is torn or has a wrong checksum: the rest of that segment
                      is cut off, later segments are deleted. The indexes are rebuilt on the way.

Records beyond the damage are given up even where they look whole, because a log must have no hole:
the leader, or another replica, has every record that was acknowledged by all in-sync replicas.

Each cut is logged in one line: partition, segment, position, bytes, why. Damaged indexes, snapshots
and checkpoints cost time only, because all of them can be rebuilt from the log.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.records.batch import BatchHeader
from ottla.storage import checkpoints, scan, swap
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaner_plan import CLEANED_SUFFIX
from ottla.storage.files import DirectoryEntry, Files
from ottla.storage.leader_epoch_cache import LeaderEpochCache
from ottla.storage.log import Log
from ottla.storage.log_config import COMPACT, LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.log_segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    LogSegment,
    file_name,
)
from ottla.storage.log_segments import LogSegments
from ottla.storage.open_segment_cache import OpenSegmentCache
from ottla.storage.producers import PartitionProducers
from ottla.storage.replay import load_producers, note_batch
from ottla.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from ottla.storage.snapshots import ProducerSnapshots
from ottla.storage.swap import SWAP_SUFFIX

NAME_DIGITS = 20
OFFSET_MAX = (1 << 63) - 1
LEFTOVERS = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")

_log = logging.getLogger("ottla.storage")
_DIGITS = re.compile(r"[0-9]{20}")


@dataclass(slots=True)
class SegmentFiles:
    """What a partition's directory holds, by base offset."""

    sizes: dict[str, dict[int, int]] = field(
        default_factory=lambda: {
            LOG_SUFFIX: {},
            INDEX_SUFFIX: {},
            TIME_INDEX_SUFFIX: {},
            TRANSACTION_INDEX_SUFFIX: {},
            SNAPSHOT_SUFFIX: {},
        }
    )
    leftovers: list[str] = field(default_factory=list)
    swaps: bool = False  # a crash interrupted the cleaner's swap
    others: set[str] = field(default_factory=set)


@dataclass(slots=True)
class LoadLogParams:
    """What opening one log takes, and what it has found out so far."""

    directory: LogDir
    path: str
    topic: str
    partition: int
    config: LogConfig
    open_segments: OpenSegmentCache
    now_ms: int
    clean: bool
    recovery_point: int = 0
    start_offset: int = 0
    first_dirty_offset: int = 0
    end_offset: int = -1  # -1: not known yet

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def files(self) -> Files:
        return self.directory.files


def open_log(params: LoadLogParams) -> Log:
    """Open the log in `params.path`; an empty directory becomes an empty log."""
    files, path = params.files, params.path
    entries = files.entries(path)
    segment_files = _list_files(entries)
    if segment_files.swaps:
        swap.finish(files, path, entries)
        segment_files = _list_files(files.entries(path))
    for name in segment_files.leftovers:
        files.remove(f"{path}/{name}")
    snapshots = ProducerSnapshots(files, path, segment_files.sizes[SNAPSHOT_SUFFIX])
    segments = _segments(params, segment_files)
    producers: PartitionProducers | None = None
    first = _recovery_slot(params, segment_files, segments)
    # Epochs and producers of the trusted segments first: the scan continues from their state.
    epochs = _read_epochs(params, segment_files, segments[:first])
    if first < len(segments):
        producers = _recover(params, segments, first, snapshots, epochs)
    if not segments:
        segments.append(_new_segment(params, max(0, params.start_offset)))
    end_offset = params.end_offset
    if end_offset < 0:
        end_offset = segments[-1].next_offset()
    start_offset = _start_offset(params, segments, end_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    _drop_stray_snapshots(segments, snapshots, end_offset)
    if producers is None:
        # A clean shutdown writes a snapshot, so a log without one has no producers to know.
        producers = PartitionProducers()
        if snapshots.offsets:
            producers = load_producers(snapshots, segments, end_offset, params.now_ms)
    for segment in segments:
        params.open_segments.forget(segment)  # a log that is not in use keeps no file open
    return Log(
        params.directory,
        path,
        params.topic,
        params.partition,
        config=params.config,
        segments=LogSegments(params.directory, path, params.open_segments, segments),
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
        start_offset=start_offset,
        end_offset=end_offset,
        recovery_point=end_offset if params.clean else min(params.recovery_point, end_offset),
        now_ms=params.now_ms,
        topic_id=_read_topic_id(params, segment_files),
        first_dirty_offset=min(params.first_dirty_offset, end_offset),
    )


def _list_files(entries: list[DirectoryEntry]) -> SegmentFiles:
    segment_files = SegmentFiles()
    for name, size, is_dir in entries:
        if is_dir:
            continue
        if name.endswith(LEFTOVERS):
            segment_files.leftovers.append(name)
            continue
        if name.endswith(SWAP_SUFFIX):
            segment_files.swaps = True
            continue
        digits, suffix = name[:NAME_DIGITS], name[NAME_DIGITS:]
        offset = int(digits) if _DIGITS.fullmatch(digits) else -1
        if suffix in segment_files.sizes and 0 <= offset < OFFSET_MAX:
            segment_files.sizes[suffix][offset] = size
        else:
            segment_files.others.add(name)
    return segment_files


def _segments(params: LoadLogParams, segment_files: SegmentFiles) -> list[LogSegment]:
    logs = segment_files.sizes[LOG_SUFFIX]
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        for base in segment_files.sizes[suffix].keys() - logs.keys():
            _log.warning("%s: removed %s%s, which has no log", params.name, file_name(base), suffix)
            params.files.remove(f"{params.path}/{file_name(base)}{suffix}")
    return [_segment(params, segment_files, base) for base in sorted(logs)]


def _segment(params: LoadLogParams, segment_files: SegmentFiles, base_offset: int) -> LogSegment:
    sizes = segment_files.sizes
    return LogSegment(
        params.files,
        f"{params.path}/{file_name(base_offset)}",
        base_offset,
        open_segments=params.open_segments,
        interval=params.config.index_interval_bytes,
        index_size_max=params.config.segment_index_bytes,
        created_ms=params.now_ms,
        size=sizes[LOG_SUFFIX].get(base_offset, 0),
        index_size=sizes[INDEX_SUFFIX].get(base_offset, 0),
        time_index_size=sizes[TIME_INDEX_SUFFIX].get(base_offset, 0),
        transactions_size=sizes[TRANSACTION_INDEX_SUFFIX].get(base_offset, 0),
    )


def _new_segment(params: LoadLogParams, base_offset: int) -> LogSegment:
    segment = _segment(params, SegmentFiles(), base_offset)
    segment.create()
    return segment


def _recovery_slot(
    params: LoadLogParams, segment_files: SegmentFiles, segments: list[LogSegment]
) -> int:
    """The first segment that recovery must read through; len(segments) if all can be trusted.

    An aborted transaction that is missing from its index would show a consumer aborted records, so
    a damaged transaction index, unlike the others, starts the recovery at its segment.
    """
    first = len(segments)
    if not params.clean and segments:
        bases = [segment.base_offset for segment in segments]
        first = max(0, bisect_right(bases, params.recovery_point) - 1)
    for slot in range(first):
        segment = segments[slot]
        if segment.transactions.written:
            try:
                segment.transactions.all()
            except DamagedError as damage:
                _log.warning("%s: %s.txnindex: %s", params.name, segment.path, damage)
                return slot
        indexed = segment.base_offset in segment_files.sizes[INDEX_SUFFIX]
        if segment.size and not (
            indexed and segment.base_offset in segment_files.sizes[TIME_INDEX_SUFFIX]
        ):
            segment.rebuild_indexes("an index file is missing")
    if first == len(segments) and segments:
        try:
            params.end_offset = segments[-1].next_offset()
        except DamagedError as damage:
            _log.warning(
                "%s: %s does not end where the index says, despite a clean shutdown: %s",
                params.name,
                segments[-1].path,
                damage,
            )
            return first - 1
    return first


def _recover(
    params: LoadLogParams,
    segments: list[LogSegment],
    first: int,
    snapshots: ProducerSnapshots,
    epochs: LeaderEpochCache,
) -> PartitionProducers:
    """Read the segments from `first` on, and drop from `segments` what follows damage."""
    base = segments[first].base_offset
    producers = load_producers(snapshots, segments[:first], base, params.now_ms)
    epochs.truncate_from_end(base)
    for slot in range(first, len(segments)):
        last = slot + 1 == len(segments)
        limit = OFFSET_MAX if last else segments[slot + 1].base_offset
        cut, next_offset = _scan(params, segments[slot], limit, producers, epochs)
        params.end_offset = next_offset
        # A power cut may lose the end of one segment and spare the next. Compaction leaves gaps as
        # well, so only a log that was never compacted up to here shows that records are missing.
        if (
            not (cut or last)
            and next_offset < limit
            and limit > params.first_dirty_offset
            and COMPACT not in params.config.cleanup_policy
        ):
            cut = True
            _log.warning("%s: offsets %d to %d are missing", params.name, next_offset, limit - 1)
        if cut:
            _remove_after(params, segments, slot)
            break
    return producers


def _scan(
    params: LoadLogParams,
    segment: LogSegment,
    limit: int,
    producers: PartitionProducers,
    epochs: LeaderEpochCache,
) -> tuple[bool, int]:
    """Read one segment, all of whose offsets must be below `limit`, and cut off what is damaged.

    Returns whether something was cut off, and the offset after the last record left.
    """
    segment.clear_indexes()
    segment.transactions.clear()
    file = segment.open_file()
    size = segment.size = file.size()
    valid = 0
    next_offset = segment.base_offset
    why = ""
    try:
        for header in _in_order(scan.checked_headers(file, 0, size), segment.base_offset, limit):
            note_batch(producers, segment, header)  # first: an unreadable marker raises here
            segment.note_scanned(header)
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
            next_offset = header.next_offset
            valid = header.position + header.size
    except DamagedError as damage:
        why = str(damage)
    if valid < size:
        file.truncate(valid)
        segment.size = valid
        _log.warning(
            "%s: segment %s: cut %d bytes at position %d: %s; the log ends at offset %d",
            params.name,
            file_name(segment.base_offset) + LOG_SUFFIX,
            size - valid,
            valid,
            why,
            next_offset,
        )
    segment.forget_recent(next_offset)
    segment.close_indexes_or_wait()
    return valid < size, next_offset


def _in_order(
    headers: Iterator[BatchHeader], base_offset: int, limit: int
) -> Iterator[BatchHeader]:
    """The headers, as long as their offsets rise and stay in the segment.

    No checksum covers a batch's base offset. A gap may come from compaction or from a flipped bit;
    the batch after it is held back until the next one shows that the log continues from there. If
    the next one leads back, the bit had flipped.
    """
    limit = min(limit, base_offset + RELATIVE_OFFSET_MAX + 1)
    expected = base_offset
    held: BatchHeader | None = None
    try:
        for header in headers:
            offset = header.base_offset
            if held is not None:
                if expected <= offset < held.next_offset:
                    wrong, held = held, None
                    raise DamagedError(f"offset {wrong.base_offset} leads back to {offset}")
                yield held
                expected = held.next_offset
                held = None
            if offset < expected:
                raise DamagedError(f"offset {offset} does not follow {expected - 1}")
            if header.next_offset > limit:
                raise DamagedError(f"offset {header.last_offset} is beyond the segment")
            if offset > expected:
                held = header
            else:
                yield header
                expected = header.next_offset
    except DamagedError:
        if held is not None:
            yield held
        raise
    if held is not None:
        yield held


def _remove_after(params: LoadLogParams, segments: list[LogSegment], slot: int) -> None:
    for segment in segments[slot + 1 :]:
        _log.warning(
            "%s: deleted segment %s of %d bytes: it follows the damage",
            params.name,
            file_name(segment.base_offset) + LOG_SUFFIX,
            segment.size,
        )
        for path in segment.rename_deleted():
            params.directory.remove_later(path, params.now_ms + params.config.file_delete_delay_ms)
    del segments[slot + 1 :]


def _start_offset(params: LoadLogParams, segments: list[LogSegment], end_offset: int) -> int:
    first = segments[0].base_offset
    start = max(params.start_offset, first)
    if start > end_offset:
        # Kafka deletes the whole log here. The checkpoint is more likely to be wrong than the log.
        _log.warning(
            "%s: start offset %d is beyond the log's end %d; it starts at %d",
            params.name,
            start,
            end_offset,
            first,
        )
        return first
    return start


def _drop_stray_snapshots(
    segments: list[LogSegment], snapshots: ProducerSnapshots, end_offset: int
) -> None:
    """Remove snapshots that belong neither to a segment's base offset nor to the log's end."""
    kept = {segment.base_offset for segment in segments if segment.base_offset <= end_offset}
    for offset in snapshots.offsets - kept - {end_offset}:
        snapshots.remove(offset)


def _read_epochs(
    params: LoadLogParams, segment_files: SegmentFiles, segments: list[LogSegment]
) -> LeaderEpochCache:
    """From the file, or from the batches if the file is missing or damaged.

    `segments` are those that will not be scanned; the scan adds the epochs of the others.
    """
    why = "it is missing or empty"
    if checkpoints.LEADER_EPOCHS in segment_files.others:
        try:
            data = params.files.read(f"{params.path}/{checkpoints.LEADER_EPOCHS}")
            if data:
                return LeaderEpochCache(checkpoints.read_epoch_checkpoint(data))
        except DamagedError as damage:
            why = str(damage)
    if not any(segment.size for segment in segments):
        return LeaderEpochCache()
    _log.warning("%s: rebuilding %s from the log: %s", params.name, checkpoints.LEADER_EPOCHS, why)
    return _epochs_of(segments, params.name)


def _epochs_of(segments: list[LogSegment], name: str) -> LeaderEpochCache:
    """From the batches. Only segments within which the epoch changes are read through."""
    epochs = LeaderEpochCache()
    epochs.dirty = True  # even if there are none: the file must say so
    filled = [segment for segment in segments if segment.size]
    try:
        for slot, segment in enumerate(filled):
            file = segment.open_file()
            first = segment.header_at(file, 0)
            epochs.assign(first.leader_epoch, first.base_offset)
            if slot + 1 < len(filled):
                following = filled[slot + 1]
                after = following.header_at(following.open_file(), 0).leader_epoch
                if after == first.leader_epoch:
                    continue
            for header in scan.headers(file, 0, segment.size):
                if header.leader_epoch > epochs.latest:
                    epochs.assign(header.leader_epoch, header.base_offset)
    except DamagedError as damage:
        known = epochs.entries()
        _log.warning("%s: leader epochs are only known up to %s: %s", name, known, damage)
    return epochs


def _read_topic_id(params: LoadLogParams, segment_files: SegmentFiles) -> bytes | None:
    if checkpoints.PARTITION_METADATA not in segment_files.others:
        return None
    try:
        data = params.files.read(f"{params.path}/{checkpoints.PARTITION_METADATA}")
        return checkpoints.read_partition_metadata(data)
    except DamagedError as damage:
        _log.warning("%s: partition.metadata: %s", params.name, damage)
        return None
