"""Encodes columns of records as record batches, a whole batch at once.

A record is some varints, the key, another varint, the value, then headers. numpy computes the
varints of all records, and Arrow joins the pieces row by row: its result is contiguous in memory,
as a batch needs it. No Python code runs per record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.protocol.encoded_batch import EncodedBatch
from ottla.records.compression import NONE, compress
from ottla.rows.binary_columns import Bytes, Numbers, binary_array, binary_parts, nulls_of

RECORD_OVERHEAD: Final = 24  # about what the varints of a record take
VARINT_BITS: Final = 7
NO_HEADERS: Final = b"\x00"
EMPTY: Final = pa.scalar(b"", pa.binary())


@dataclass(slots=True)
class RecordColumns:
    """Records as columns. `headers` are encoded with their count; None: no record has headers."""

    keys: Any
    values: Any
    timestamps: Numbers
    headers: Any = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: npt.NDArray[np.int64]) -> RecordColumns:
        chosen = pa.array(rows)
        return RecordColumns(
            self.keys.take(chosen),
            self.values.take(chosen),
            self.timestamps[rows],
            None if self.headers is None else self.headers.take(chosen),
        )

    def slice(self, start: int, end: int) -> RecordColumns:
        return RecordColumns(
            self.keys.slice(start, end - start),
            self.values.slice(start, end - start),
            self.timestamps[start:end],
            None if self.headers is None else self.headers.slice(start, end - start),
        )

    def sizes(self) -> Numbers:
        """The approximate size of each record."""
        _, _, keys = binary_parts(self.keys)
        _, _, values = binary_parts(self.values)
        sizes = keys + values + RECORD_OVERHEAD
        return sizes if self.headers is None else sizes + binary_parts(self.headers)[2]


def batches_of(
    columns: RecordColumns, *, bytes_max: int, compression: int = NONE
) -> Iterator[EncodedBatch]:
    """Record batches of at most `bytes_max` before compression; a larger record gets its own."""
    ends = np.cumsum(columns.sizes())
    start = 0
    while start < len(columns):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + bytes_max, side="right"))
        end = max(end, start + 1)
        yield encode(columns.slice(start, end), compression)
        start = end


def encode(columns: RecordColumns, compression: int = NONE) -> EncodedBatch:
    """Encodes all records as one batch."""
    count = len(columns)
    timestamps = columns.timestamps
    base = int(timestamps[0])
    _, _, key_sizes = binary_parts(columns.keys)
    _, _, value_sizes = binary_parts(columns.values)
    header_sizes = 1 if columns.headers is None else binary_parts(columns.headers)[2]
    front = [
        _varints(timestamps - base),
        _varints(np.arange(count, dtype=np.int64)),
        _varints(_length_or_null(columns.keys, key_sizes)),
    ]
    middle = _varints(_length_or_null(columns.values, value_sizes))
    body = 1 + sum(number.sizes for number in front) + key_sizes
    body = body + middle.sizes + value_sizes + header_sizes
    zero = Varints(np.zeros((count, 1), np.uint8), np.ones(count, np.int64))  # attributes
    joined = pc.binary_join_element_wise(
        _binary([_varints(body), zero, *front]),
        _filled(columns.keys),
        _binary([middle]),
        _filled(columns.values),
        pa.scalar(NO_HEADERS, pa.binary()) if columns.headers is None else columns.headers,
        EMPTY,
    )
    data, starts, sizes = binary_parts(joined)
    payload = data[int(starts[0]) : int(starts[-1] + sizes[-1])]
    return EncodedBatch(
        count, base, int(timestamps.max()), compression, compress(compression, payload.data)
    )


@dataclass(slots=True)
class Varints:
    """A varint per record: the first `sizes` bytes of its row in `table`."""

    table: Bytes
    sizes: Numbers


def _varints(numbers: Numbers) -> Varints:
    """Zigzag, then seven bits per byte, lowest first; bit 7 is the continuation bit."""
    left = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(1, -(-int(left.max(initial=0)).bit_length() // VARINT_BITS))
    table = np.empty((len(numbers), width), np.uint8)
    sizes = np.ones(len(numbers), np.int64)
    for column in range(width):
        table[:, column] = left & np.uint64(0x7F)
        left = left >> np.uint64(VARINT_BITS)
        more = left != 0
        table[:, column] |= more.astype(np.uint8) << np.uint8(7)
        sizes += more
    return Varints(table, sizes)


def _binary(parts: Sequence[Varints]) -> Any:
    """For each record, the bytes of its varints."""
    table = np.hstack([part.table for part in parts])
    used = np.hstack([np.arange(part.table.shape[1]) < part.sizes[:, np.newaxis] for part in parts])
    total: Numbers = np.sum([part.sizes for part in parts], axis=0)
    return binary_array(table[used], total)


def _filled(array: Any) -> Any:
    return array.fill_null(EMPTY) if array.null_count else array


def _length_or_null(array: Any, sizes: Numbers) -> Numbers:
    return np.where(nulls_of(array), -1, sizes) if array.null_count else sizes
