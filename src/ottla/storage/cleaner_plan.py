"""What the cleaner's process is told, and what it answers: one line of JSON each.

It gets paths, sizes and offsets, never a log; it writes `.cleaned` files and nothing else. The
loop's thread alone puts them in the place of others.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.storage.aborted import AbortedTransaction

CLEANED_SUFFIX = ".cleaned"


@dataclass(frozen=True, slots=True)
class Source:
    """A segment that is closed."""

    base_offset: int
    end_offset: int  # where the next one begins
    size: int
    index_size: int
    time_index_size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One log that is to be cleaned."""

    path: str
    sources: list[Source]  # all that are closed and may be cleaned, dirty or not
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
    buffer_size: int  # read and written at once
    bytes_per_second: float | None  # None: as fast as it goes

    def write(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Some segments have become one, whose files end in `.cleaned` and are on the disk."""

    base_offsets: list[int]  # of the sources; the first one is that of the new segment
    size: int
    index_size: int
    time_index_size: int
    transactions_size: int


@dataclass(slots=True)
class Finished:
    """The whole log is done; or it was found to be damaged, and is not."""

    end_offset: int = -1  # cleaned up to here
    failure: str = ""
    passing: bool = False  # no room, or the like: it may work another time
    seconds: float = 0.0
    key_count: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


@dataclass(slots=True)
class Answer:
    """One line of the process: either of the two."""

    cleaned: Cleaned | None = None
    finished: Finished | None = field(default=None)

    def write(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def read_plan(line: bytes) -> Plan:
    fields: dict[str, Any] = json.loads(line)
    fields["sources"] = [Source(**each) for each in fields["sources"]]
    fields["aborted"] = [AbortedTransaction(*each) for each in fields["aborted"]]
    fields["producers"] = {int(key): tuple(last) for key, last in fields["producers"].items()}
    return Plan(**fields)


def read_answer(line: bytes) -> Answer:
    fields: dict[str, Any] = json.loads(line)
    cleaned, finished = fields["cleaned"], fields["finished"]
    return Answer(
        cleaned=None if cleaned is None else Cleaned(**cleaned),
        finished=None if finished is None else Finished(**finished),
    )
