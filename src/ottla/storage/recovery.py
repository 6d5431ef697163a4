"""Opening a partition's directory: after a clean end quickly, after a crash with care.

    clean end   sizes come from the directory, the end offset from the last index entry on,
                producers from the last snapshot: a few small reads, whatever the log's size
    a crash     segments from the recovery point on are read from end to end. At the first batch
                that is not whole or has a wrong checksum the log ends: the rest of that segment is
                cut off, later segments are removed. Indexes are built anew on the way.

What was cut is logged in one line: partition, segment, position, bytes, why. Indexes, snapshots and
checkpoints that are damaged cost time and nothing else: all of them can be had from the log again.
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
from ottla.storage.directory import LogDir
from ottla.storage.epochs import Epochs
from ottla.storage.files import Entry, Files
from ottla.storage.log import Log
from ottla.storage.log_config import COMPACT, LogConfig
from ottla.storage.producers import Producers
from ottla.storage.replay import load_producers, note_batch
from ottla.storage.residents import Residents
from ottla.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    file_name,
)
from ottla.storage.segments import Segments
from ottla.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from ottla.storage.snapshots import Snapshots
from ottla.storage.swap import SWAP_SUFFIX

NAME_DIGITS = 20
OFFSET_MAX = (1 << 63) - 1
LEFTOVERS = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")

_log = logging.getLogger("ottla.storage")
_DIGITS = re.compile(r"[0-9]{20}")


@dataclass(slots=True)
class Found:
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
    swaps: bool = False  # a swap of the cleaner's was interrupted
    others: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Opening:
    """One log on its way to being open."""

    directory: LogDir
    path: str
    topic: str
    partition: int
    config: LogConfig
    residents: Residents
    now_ms: int
    clean: bool
    recovery_point: int = 0
    start_offset: int = 0
    first_dirty_offset: int = 0
    end_offset: int = -1  # once it is known

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def files(self) -> Files:
        return self.directory.files


def open_log(opening: Opening) -> Log:
    """The log in `opening.path`, which is made if it is not there."""
    files, path = opening.files, opening.path
    entries = files.entries(path)
    found = _survey(entries)
    if found.swaps:
        swap.finish(files, path, entries)
        found = _survey(files.entries(path))
    for name in found.leftovers:
        files.remove(f"{path}/{name}")
    snapshots = Snapshots(files, path, found.sizes[SNAPSHOT_SUFFIX])
    segments = _segments(opening, found)
    producers: Producers | None = None
    first = _first_to_scan(opening, found, segments)
    epochs = _read_epochs(opening, found, segments[:first])
    if first < len(segments):
        producers = _recover(opening, segments, first, snapshots, epochs)
    if not segments:
        segments.append(_new_segment(opening, max(0, opening.start_offset)))
    end_offset = opening.end_offset
    if end_offset < 0:
        end_offset = segments[-1].next_offset()
    start_offset = _start_offset(opening, segments, end_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    _drop_stray_snapshots(segments, snapshots, end_offset)
    if producers is None:
        # After a clean stop a log without any snapshot has no producers that need be known.
        producers = Producers()
        if snapshots.offsets:
            producers = load_producers(snapshots, segments, end_offset, opening.now_ms)
    for segment in segments:
        opening.residents.forget(segment)  # a log that nobody uses holds no descriptor
    return Log(
        opening.directory,
        path,
        opening.topic,
        opening.partition,
        config=opening.config,
        segments=Segments(opening.directory, path, opening.residents, segments),
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
        start_offset=start_offset,
        end_offset=end_offset,
        recovery_point=end_offset if opening.clean else min(opening.recovery_point, end_offset),
        now_ms=opening.now_ms,
        topic_id=_read_topic_id(opening, found),
        first_dirty_offset=min(opening.first_dirty_offset, end_offset),
    )


def _survey(entries: list[Entry]) -> Found:
    found = Found()
    for name, size, is_dir in entries:
        if is_dir:
            continue
        if name.endswith(LEFTOVERS):
            found.leftovers.append(name)
            continue
        if name.endswith(SWAP_SUFFIX):
            found.swaps = True
            continue
        digits, suffix = name[:NAME_DIGITS], name[NAME_DIGITS:]
        offset = int(digits) if _DIGITS.fullmatch(digits) else -1
        if suffix in found.sizes and 0 <= offset < OFFSET_MAX:
            found.sizes[suffix][offset] = size
        else:
            found.others.add(name)
    return found


def _segments(opening: Opening, found: Found) -> list[Segment]:
    logs = found.sizes[LOG_SUFFIX]
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        for base in found.sizes[suffix].keys() - logs.keys():
            _log.warning(
                "%s: removed %s%s, which has no log", opening.name, file_name(base), suffix
            )
            opening.files.remove(f"{opening.path}/{file_name(base)}{suffix}")
    return [_segment(opening, found, base) for base in sorted(logs)]


def _segment(opening: Opening, found: Found, base_offset: int) -> Segment:
    sizes = found.sizes
    return Segment(
        opening.files,
        f"{opening.path}/{file_name(base_offset)}",
        base_offset,
        residents=opening.residents,
        interval=opening.config.index_interval_bytes,
        index_size_max=opening.config.segment_index_bytes,
        created_ms=opening.now_ms,
        size=sizes[LOG_SUFFIX].get(base_offset, 0),
        index_size=sizes[INDEX_SUFFIX].get(base_offset, 0),
        time_index_size=sizes[TIME_INDEX_SUFFIX].get(base_offset, 0),
        transactions_size=sizes[TRANSACTION_INDEX_SUFFIX].get(base_offset, 0),
    )


def _new_segment(opening: Opening, base_offset: int) -> Segment:
    segment = _segment(opening, Found(), base_offset)
    segment.create()
    return segment


def _first_to_scan(opening: Opening, found: Found, segments: list[Segment]) -> int:
    """The first segment that must be read through; len(segments) if all can be trusted."""
    first = len(segments)
    if not opening.clean and segments:
        bases = [segment.base_offset for segment in segments]
        first = max(0, bisect_right(bases, opening.recovery_point) - 1)
    for slot in range(first):
        segment = segments[slot]
        if segment.transactions.written:
            try:
                segment.transactions.all()
            except DamagedError as damage:
                _log.warning("%s: %s.txnindex: %s", opening.name, segment.path, damage)
                return slot
        indexed = segment.base_offset in found.sizes[INDEX_SUFFIX]
        if segment.size and not (indexed and segment.base_offset in found.sizes[TIME_INDEX_SUFFIX]):
            segment.rebuild_indexes("an index file is missing")
    if first == len(segments) and segments:
        try:
            opening.end_offset = segments[-1].next_offset()
        except DamagedError as damage:
            _log.warning(
                "%s: %s does not end as it should after a clean stop: %s",
                opening.name,
                segments[-1].path,
                damage,
            )
            return first - 1
    return first


def _recover(
    opening: Opening,
    segments: list[Segment],
    first: int,
    snapshots: Snapshots,
    epochs: Epochs,
) -> Producers:
    """Read the segments from the `first` on; `segments` ends with the last that is kept."""
    base = segments[first].base_offset
    producers = load_producers(snapshots, segments[:first], base, opening.now_ms)
    epochs.truncate_from_end(base)
    for slot in range(first, len(segments)):
        last = slot + 1 == len(segments)
        limit = OFFSET_MAX if last else segments[slot + 1].base_offset
        cut, next_offset = _scan(opening, segments[slot], limit, producers, epochs)
        opening.end_offset = next_offset
        if (
            not (cut or last)
            and next_offset < limit
            and limit > opening.first_dirty_offset
            and COMPACT not in opening.config.cleanup_policy
        ):
            # A power cut may lose the end of one segment and spare the next.
            cut = True
            _log.warning("%s: offsets %d to %d are missing", opening.name, next_offset, limit - 1)
        if cut:
            _remove_after(opening, segments, slot)
            break
    return producers


def _scan(
    opening: Opening, segment: Segment, limit: int, producers: Producers, epochs: Epochs
) -> tuple[bool, int]:
    """Read one segment, all of whose offsets are below `limit`.

    Gives whether some of it was cut off, and the offset after what is left.
    """
    segment.clear_indexes()
    segment.transactions.clear()
    file = segment.open_file()
    size = segment.size = file.size()
    valid = 0
    next_offset = segment.base_offset
    why = ""
    try:
        for header in _in_order(scan.checked(file, 0, size), segment.base_offset, limit):
            note_batch(producers, segment, header)  # first: it may find that the log ends here
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
            opening.name,
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

    No checksum covers a batch's offset. After a gap, which compaction leaves but a flipped bit may
    feign, a batch is held back until the next one shows that it goes on from there.
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


def _remove_after(opening: Opening, segments: list[Segment], slot: int) -> None:
    for segment in segments[slot + 1 :]:
        _log.warning(
            "%s: segment %s of %d bytes removed: it follows the damage",
            opening.name,
            file_name(segment.base_offset) + LOG_SUFFIX,
            segment.size,
        )
        for path in segment.rename_deleted():
            opening.directory.remove_later(
                path, opening.now_ms + opening.config.file_delete_delay_ms
            )
    del segments[slot + 1 :]


def _start_offset(opening: Opening, segments: list[Segment], end_offset: int) -> int:
    first = segments[0].base_offset
    start = max(opening.start_offset, first)
    if start > end_offset:
        # Kafka would drop the whole log here. The checkpoint is the likelier one to be wrong.
        _log.warning(
            "%s: start offset %d is beyond the log's end %d; it starts at %d",
            opening.name,
            start,
            end_offset,
            first,
        )
        return first
    return start


def _drop_stray_snapshots(segments: list[Segment], snapshots: Snapshots, end_offset: int) -> None:
    """A snapshot belongs to a segment's base offset or to the end of the log."""
    kept = {segment.base_offset for segment in segments if segment.base_offset <= end_offset}
    for offset in snapshots.offsets - kept - {end_offset}:
        snapshots.remove(offset)


def _read_epochs(opening: Opening, found: Found, segments: list[Segment]) -> Epochs:
    """From the file; from the batches if it is missing or not what was written.

    `segments` are those that will not be scanned: the others tell their epochs on the way.
    """
    why = "it is missing or empty"
    if checkpoints.LEADER_EPOCHS in found.others:
        try:
            data = opening.files.read(f"{opening.path}/{checkpoints.LEADER_EPOCHS}")
            if data:
                return Epochs(checkpoints.read_epochs(data))
        except DamagedError as damage:
            why = str(damage)
    if not any(segment.size for segment in segments):
        return Epochs()
    _log.warning("%s: leader epochs are read from the log: %s", opening.name, why)
    return _epochs_of(segments)


def _epochs_of(segments: list[Segment]) -> Epochs:
    """From the batches. Only segments in which the epoch changes are read through."""
    epochs = Epochs()
    epochs.dirty = True  # even if there are none: the file shall say so
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
        _log.warning("leader epochs are known up to %s only: %s", epochs.entries(), damage)
    return epochs


def _read_topic_id(opening: Opening, found: Found) -> bytes | None:
    if checkpoints.PARTITION_METADATA not in found.others:
        return None
    try:
        data = opening.files.read(f"{opening.path}/{checkpoints.PARTITION_METADATA}")
        return checkpoints.read_partition_metadata(data)
    except DamagedError as damage:
        _log.warning("%s: partition.metadata: %s", opening.name, damage)
        return None
