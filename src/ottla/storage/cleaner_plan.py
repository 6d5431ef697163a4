"""What the cleaner's process gets and what it reports: one line of JSON each.

It gets paths, sizes and offsets, never a log, and it writes only `.cleaned` files. Only the loop's
thread swaps them in, because only there does the log stand still.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.storage.transaction_index import AbortedTransaction

CLEANED_SUFFIX = ".cleaned"


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A closed segment to read."""

    base_offset: int
    end_offset: int  # where the next one begins
    size: int
    index_size: int
    time_index_size: int


@dataclass(frozen=True, slots=True)
class CleanerPlan:
    """One log to clean."""

    path: str
    sources: list[SourceSegment]  # all closed segments that may be cleaned, dirty or not
    first_dirty_offset: int
    end_offset: int  # the first offset that may not be cleaned
    aborted: list[AbortedTransaction]
    producers: dict[int, tuple[int, int]]  # id -> offset of the last record or -1, epoch
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    table_size: int  # bytes for the table of keys
    buffer_size: int  # bytes per read and per write
    bytes_per_second: float | None  # None: no limit

    def write(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """One segment made of several; its files end in `.cleaned` and are synced."""

    base_offsets: list[int]  # of the sources; the first one is that of the new segment
    size: int
    index_size: int
    time_index_size: int
    transactions_size: int


@dataclass(slots=True)
class CleanerStats:
    """The end of a cleaning: what it did, or why it failed."""

    end_offset: int = -1  # cleaned up to here
    failure: str = ""
    passing: bool = False  # the failure is a full disk or the like: a later try may succeed
    seconds: float = 0.0
    key_count: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


@dataclass(slots=True)
class CleanerReport:
    """One line from the process: a cleaned segment, or the end."""

    cleaned: CleanedSegment | None = None
    finished: CleanerStats | None = field(default=None)

    def write(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def read_plan(line: bytes) -> CleanerPlan:
    fields: dict[str, Any] = json.loads(line)
    fields["sources"] = [SourceSegment(**source) for source in fields["sources"]]
    fields["aborted"] = [AbortedTransaction(*aborted) for aborted in fields["aborted"]]
    fields["producers"] = {int(key): tuple(last) for key, last in fields["producers"].items()}
    return CleanerPlan(**fields)


def read_report(line: bytes) -> CleanerReport:
    fields: dict[str, Any] = json.loads(line)
    cleaned, finished = fields["cleaned"], fields["finished"]
    return CleanerReport(
        cleaned=None if cleaned is None else CleanedSegment(**cleaned),
        finished=None if finished is None else CleanerStats(**finished),
    )
