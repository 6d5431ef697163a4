"""Replacing segments with the one that the cleaner made of them, safely against a crash.

    1. <base>.log.cleaned .index.cleaned ...   written and synced by the cleaner's process
    2. <base>.log.swap ...                     the decision: from here on the new segment counts
    3. <old>.log.deleted ...                   the sources, the oldest first
    4. <base>.log ...

The suffixes and their order are Kafka's, so that either broker can finish what the other began.
At a start:

    a `.cleaned` file      is deleted, and with it any `.swap` file of the same or a later segment:
                           step 2 was not complete, so the sources are all still there
    another `.swap` file   is the decision: the sources are deleted as far as its offsets reach, and
                           it gets its final name

The last sources may hold only superseded records, so that the offsets of the new segment do not
reach them. They come back, with records that have newer ones later in the log; the next cleaning
removes them again.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

from ottla.storage import scan
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaner_plan import CLEANED_SUFFIX, CleanedSegment
from ottla.storage.files import DirectoryEntry, Files
from ottla.storage.log_config import COMPACT
from ottla.storage.log_segment import LOG_SUFFIX, SUFFIXES, LogSegment, file_name

if TYPE_CHECKING:
    from ottla.storage.log import Log

SWAP_SUFFIX = ".swap"
NAME_DIGITS = 20

_log = logging.getLogger("ottla.storage")


def swap_in(log: Log, cleaned: CleanedSegment, sources: list[LogSegment], now_ms: int) -> bool:
    """Put a cleaned segment in the place of its sources; False if the log has changed meanwhile.

    In that case only the cleaned segment's files are deleted. OSError leaves a state that the next
    start can finish; the directory is offline until then.
    """
    segments = log.segments
    path = f"{log.path}/{file_name(cleaned.base_offsets[0])}"
    slot = _slot_of(log, cleaned, sources)
    if slot < 0 or not _is_whole(log.dir.files, path + LOG_SUFFIX + CLEANED_SUFFIX, cleaned.size):
        discard(log.dir.files, path)
        return False
    try:
        _rename(log, path, sources, now_ms)
    except OSError as error:
        # EIO even for a full disk, which elsewhere is no reason to go offline: after a partial
        # rename the files are not those that the log has open.
        raise OSError(errno.EIO, f"a swap stopped halfway: {error.strerror}", path) from error
    first = sources[0]
    segments.replace(
        slot,
        len(sources),
        LogSegment(
            log.dir.files,
            path,
            first.base_offset,
            open_segments=segments.open_segments,
            interval=first.interval,
            index_size_max=first.index_size_max,
            created_ms=now_ms,
            size=cleaned.size,
            index_size=cleaned.index_size,
            time_index_size=cleaned.time_index_size,
            transactions_size=cleaned.transactions_size,
        ),
    )
    return True


def _is_whole(files: Files, path: str, size: int) -> bool:
    return files.exists(path) and files.size(path) == size


def _rename(log: Log, path: str, sources: list[LogSegment], now_ms: int) -> None:
    files = log.dir.files
    suffixes = [suffix for suffix in SUFFIXES if files.exists(path + suffix + CLEANED_SUFFIX)]
    for suffix in suffixes:
        files.rename(path + suffix + CLEANED_SUFFIX, path + suffix + SWAP_SUFFIX)
    # Up to here a crash undoes the swap, from here on a start completes it.
    due_ms = now_ms + log.config.file_delete_delay_ms
    for source in sources:
        if source is not sources[0]:
            log.snapshots.remove(source.base_offset)
        for renamed in source.rename_deleted():
            log.dir.remove_later(renamed, due_ms)
    for suffix in suffixes:
        files.rename(path + suffix + SWAP_SUFFIX, path + suffix)


def _slot_of(log: Log, cleaned: CleanedSegment, sources: list[LogSegment]) -> int:
    """The slot of the first source, if all sources are in the log and may be replaced; else -1."""
    segments = log.segments
    if log.dir.offline or COMPACT not in log.config.cleanup_policy:
        return -1
    if [source.base_offset for source in sources] != cleaned.base_offsets:
        return -1
    slot = segments.slot(sources[0].base_offset)
    if slot + len(sources) >= len(segments):  # the active one is never cleaned
        return -1
    for at, source in enumerate(sources, slot):
        if segments[at] is not source:
            return -1
    return slot


def discard(files: Files, path: str) -> None:
    """Delete the files of a cleaned segment that is not swapped in."""
    for suffix in SUFFIXES:
        files.remove(path + suffix + CLEANED_SUFFIX)


# At a start


def finish(files: Files, path: str, entries: list[DirectoryEntry]) -> None:
    """Complete or undo the swaps that a crash has interrupted."""
    names = {entry.name: entry.size for entry in entries if not entry.is_dir}
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = sorted(name for name in names if name.endswith(SWAP_SUFFIX))
    min_cleaned_offset = min((_base(name) for name in cleaned), default=1 << 63)
    finished = []
    for name in swaps:
        # `_rename` takes `.cleaned` off every file before it deletes a source. So while one file is
        # still `.cleaned`, every source is still there, and the swap is undone.
        if _base(name) >= min_cleaned_offset or _base(name) < 0:
            _log.warning("Deleting %s/%s: its swap was not decided before the crash", path, name)
            files.remove(f"{path}/{name}")
        else:
            finished.append(name)
    for name in cleaned:  # after the `.swap` files: those left without them would look decided
        files.remove(f"{path}/{name}")
    logs = [name for name in finished if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in logs:
        _delete_sources(files, path, name, names)
    for name in logs + [name for name in finished if name not in logs]:
        _log.warning("Completing the interrupted swap of %s/%s", path, name)
        files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")


def _delete_sources(files: Files, path: str, name: str, names: dict[str, int]) -> None:
    """Delete the segments that the new one was made of, as far as its offsets reach."""
    base = _base(name)
    end = max(base + 1, _next_offset(files, f"{path}/{name}", names[name], base))
    for suffix in SUFFIXES[::-1]:
        for source in names:
            if source.endswith(suffix) and base <= _base(source) < end:
                files.remove(f"{path}/{source}")


def _next_offset(files: Files, path: str, size: int, base_offset: int) -> int:
    next_offset = base_offset
    try:
        for header in scan.headers(files.open(path, read_only=True), 0, size):
            next_offset = header.next_offset
    except DamagedError as damage:
        _log.error("%s: %s", path, damage)
    return next_offset


def _base(name: str) -> int:
    digits = name[:NAME_DIGITS]
    return int(digits) if len(digits) == NAME_DIGITS and digits.isdecimal() else -1
