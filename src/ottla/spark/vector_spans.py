"""`record_spans.py` with numpy, for builds whose modules are not compiled.

A Python loop steps from record to record, because only a record's length says where the next one
starts. Then the fields of all records are read at once, one field after the other:

    length | attributes | timestamp delta | offset delta | key size | key | value size | value | ...

This module rejects nothing. Unusual bytes of any kind go through the loop of `record_spans.py`, so
that only one place decides what a malformed record is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import repeat
from typing import Any, Final

import numpy as np

from ottla.records.batch import BatchHeader
from ottla.spark import record_spans
from ottla.spark.record_spans import NO_KEY, NO_VALUE, RecordSpans

RECORDS_MIN: Final = 32
"""For fewer records, numpy's calls cost more than the loop."""

VARINT_BYTES_MAX: Final = 4
VARLONG_BYTES_MAX: Final = 8
"""Longer ones are rare and need the loop's overflow checks."""

HEADERS_MAX: Final = 64
"""The largest number of headers in a record determines the number of numpy calls."""


class _IrregularError(Exception):
    """Records that only the loop handles."""


def locate_spans(
    data: bytes,
    batches: Sequence[tuple[BatchHeader, int, int]],
    spans: RecordSpans,
    first: int,
    until: int,
) -> None:
    """As `record_spans.locate_all`."""
    if sum(batch.record_count for batch, _, _ in batches) >= RECORDS_MIN:
        try:
            _locate(data, batches, spans, first, until)
            return
        except (IndexError, _IrregularError):
            pass
    record_spans.locate_spans(data, batches, spans, first, until)


def _locate(
    data: bytes,
    batches: Sequence[tuple[BatchHeader, int, int]],
    spans: RecordSpans,
    first: int,
    until: int,
) -> None:
    raw = np.frombuffer(data, np.uint8)
    at, following = _bodies(data, raw, batches)
    at += 1  # the attributes
    headers = [batch for batch, _, _ in batches]
    counts = [batch.record_count for batch in headers]
    timestamps = _timestamps(_numbers(raw, at, VARLONG_BYTES_MAX), headers, counts)
    offsets = _offsets(_signed(_numbers(raw, at, VARINT_BYTES_MAX)), headers, counts)
    if offsets[0] < first or offsets[-1] >= until:
        wanted = slice(*np.searchsorted(offsets, (first, until)))
        at, following = at[wanted], following[wanted]
        timestamps, offsets = timestamps[wanted], offsets[wanted]
        if not len(offsets):
            return
    places = np.empty((len(at), 4), np.int32)
    nulls = _place(raw, at, following, places[:, :2]) * NO_KEY
    nulls |= _place(raw, at, following, places[:, 2:]) * NO_VALUE
    if spans.with_headers:
        _place_headers(
            raw, at, following, spans
        )  # the last step that may raise; it writes only afterwards
    spans.places.write(places.tobytes())
    spans.nulls.write(nulls.tobytes())
    spans.offsets.write(offsets.tobytes())
    spans.timestamps.write(timestamps.tobytes())
    spans.count += len(at)


def _bodies(
    data: bytes, raw: Any, batches: Sequence[tuple[BatchHeader, int, int]]
) -> tuple[Any, Any]:
    """The start of each record, after its length, and its end."""
    steps = _steps()
    starts: list[int] = []
    last: dict[int, int] = {}  # the last record of each non-empty batch -> its end
    add = starts.append
    for batch, start, end in batches:
        position = start
        for _ in repeat(None, batch.record_count):
            add(position)
            position += steps[data[position]][data[position + 1]] or _long_step(data, position)
        if position != end:
            raise _IrregularError
        if batch.record_count:
            last[len(starts) - 1] = end
    at = np.array(starts, np.int64)
    following = np.empty_like(at)
    following[:-1] = at[1:]
    following[list(last)] = list(last.values())
    _numbers(raw, at, VARINT_BYTES_MAX)
    return at, following


@cache
def _steps() -> list[list[int]]:
    """By a record's first two bytes: its size including the length; 0 means `_long_step`."""
    numbers = np.arange(0x80) | np.arange(0x80)[:, None] << 7  # [second byte][first byte]
    two = np.zeros((0x80, 0x100), np.int64)
    two[:, :0x80] = np.where(numbers & 1, 0, (numbers >> 1) + 2).T
    one = [[0 if first & 1 else (first >> 1) + 1] * 0x100 for first in range(0x80)]
    return one + two.tolist()


def _long_step(data: bytes, position: int) -> int:
    length = 0
    for size in range(VARINT_BYTES_MAX):
        byte = data[position + size]
        length |= (byte & 0x7F) << 7 * size
        if byte < 0x80 and not length & 1:
            return (length >> 1) + size + 1
    raise _IrregularError


def _numbers(raw: Any, at: Any, bytes_max: int) -> Any:
    """The unsigned varints at these positions, which advance past them."""
    numbers = raw[at].astype(np.int64)
    at += 1
    more = np.flatnonzero(numbers > 0x7F)
    for shift in range(7, 7 * bytes_max, 7):
        if not len(more):
            return numbers
        # The previous byte's continuation bit is part of the sum: subtract it.
        if len(more) == len(at):
            numbers += (raw[at].astype(np.int64) << shift) - (0x80 << shift - 7)
            at += 1
            more = np.flatnonzero(numbers >> shift > 0x7F)
            continue
        numbers[more] += (raw[at[more]].astype(np.int64) << shift) - (0x80 << shift - 7)
        at[more] += 1
        more = more[numbers[more] >> shift > 0x7F]
    if len(more):
        raise _IrregularError
    return numbers


def _signed(numbers: Any) -> Any:
    return (numbers >> 1) ^ -(numbers & 1)


def _timestamps(deltas: Any, headers: Sequence[BatchHeader], counts: list[int]) -> Any:
    """Overflow wraps, as in the compiled loop."""
    timestamps = _repeated([batch.base_timestamp for batch in headers], counts)
    timestamps += _signed(deltas)
    appended = [batch.log_append_time for batch in headers]
    if any(appended):
        now = _repeated([batch.max_timestamp for batch in headers], counts)
        timestamps = np.where(np.repeat(appended, counts), now, timestamps)
    return timestamps


def _offsets(deltas: Any, headers: Sequence[BatchHeader], counts: list[int]) -> Any:
    last = _repeated([batch.last_offset_delta for batch in headers], counts)
    offsets = _repeated([batch.base_offset for batch in headers], counts)
    offsets += deltas
    if (deltas < 0).any() or (deltas > last).any() or (offsets[1:] <= offsets[:-1]).any():
        raise _IrregularError
    return offsets


def _repeated(numbers: list[int], counts: list[int]) -> Any:
    """Repeats a number per batch for each of its records."""
    return np.repeat(np.array(numbers, np.int64), counts)


def _place(raw: Any, at: Any, following: Any, places: Any) -> Any:
    """The start and end of keys, or of values. Returns 1 where it is null."""
    sizes = _numbers(raw, at, VARINT_BYTES_MAX)
    places[:, 0] = at
    null = sizes & 1
    at += (sizes >> 1) * (1 - null)
    if (at >= following).any():
        raise _IrregularError
    places[:, 1] = at
    return null.astype(np.uint8)


def _place_headers(raw: Any, at: Any, following: Any, spans: RecordSpans) -> None:
    """Reads the first header of all records that have one, then the second, and so on."""
    counts = _signed(_numbers(raw, at, VARINT_BYTES_MAX))
    if counts.min() < 0 or counts.max() > HEADERS_MAX:
        raise _IrregularError
    rows = np.cumsum(counts) - counts  # of each record: that of its next header
    places = np.empty((counts.sum(), 4), np.int32)
    nulls = np.empty(len(places), np.uint8)
    some = np.flatnonzero(counts)
    for number in range(1, HEADERS_MAX + 1):
        if not len(some):
            break
        here, ends, row = at[some], following[some], rows[some]
        found = np.empty((len(some), 4), np.int32)
        if _place(raw, here, ends, found[:, :2]).any():  # a header's name must not be null
            raise _IrregularError
        null = _place(raw, here, ends + 1, found[:, 2:])  # a value may be the end of the record
        places[row], nulls[row] = found, null * NO_VALUE
        at[some] = here
        rows[some] += 1
        some = some[counts[some] > number]
    if (at != following).any():
        raise _IrregularError
    spans.header_counts.write(counts.astype(np.int32).tobytes())
    spans.header_places.write(places.tobytes())
    spans.header_nulls.write(nulls.tobytes())
