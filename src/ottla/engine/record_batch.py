"""Consecutive records of one source, as columns: what a batch step takes instead of a record.

A Python call per record and node was most of the time of a join. A step over a whole batch is a
list comprehension, and what stores and formats do for many keys at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Any, Final

from ottla.engine.records import AnyRecord, Headers, Record

PORTION: Final = 8192
"""Records deserialized at once: a bound on what is in memory as bytes and as objects."""


class BatchError(Exception):
    """A batch step leaves these records to the steps of single records."""


@dataclass(slots=True)
class RecordBatch:
    """`headers` is None if no record has any. Steps never modify the lists, but may share them."""

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    headers: list[Headers] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def with_pairs(self, keys: list[Any], values: list[Any]) -> RecordBatch:
        return RecordBatch(keys, values, self.timestamps, self.headers)

    def part(self, begin: int, end: int) -> RecordBatch:
        if begin == 0 and end == len(self):
            return self
        headers = self.headers
        return RecordBatch(
            self.keys[begin:end],
            self.values[begin:end],
            self.timestamps[begin:end],
            None if headers is None else headers[begin:end],
        )

    def records(self) -> Iterator[AnyRecord]:
        headers = repeat(()) if self.headers is None else self.headers
        return map(Record, self.keys, self.values, self.timestamps, headers)

    def kept(self, keep: Sequence[object]) -> RecordBatch:
        """The records for which `keep` is true."""
        headers = self.headers
        return RecordBatch(
            list(compress(self.keys, keep)),
            list(compress(self.values, keep)),
            list(compress(self.timestamps, keep)),
            None if headers is None else list(compress(headers, keep)),
        )


DeliverBatch = Callable[[RecordBatch], None]


def to_nobody(batch: RecordBatch) -> None:
    """The downstream of a node without children."""
