"""What `columns.py` does, with numpy: for a build whose modules are not compiled.

Python walks from record to record, because only a record's length says where the next one begins.
What stands in them is then read for all records at once, field after field:

    length | attributes | timestamp delta | offset delta | key size | key | value size | value | ...

Nothing is refused here. Bytes that are unusual in any way go through the loop of `columns.py`, so
that one place decides what a malformed record is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import repeat
from typing import Any, Final

import numpy as np

from ottla.records.batch import BatchHeader
from ottla.spark import columns
from ottla.spark.columns import NO_KEY, NO_VALUE, Spans

RECORDS_MIN: Final = 32
"""For fewer records numpy's calls cost more than the loop."""

VARINT_BYTES_MAX: Final = 4
VARLONG_BYTES_MAX: Final = 8
"""What is longer is rare, and needs the loop's care about overflow."""

HEADERS_MAX: Final = 64
"""Each header of the record that has most of them costs some calls of numpy."""


class _IrregularError(Exception):
    """Records that the loop has to judge."""


def locate_all(
    data: bytes,
    batches: Sequence[tuple[BatchHeader, int, int]],
    spans: Spans,
    first: int,
    until: int,
) -> None:
    """As `columns.locate_all`."""
    if sum(batch.record_count for batch, _, _ in batches) >= RECORDS_MIN:
        try:
            _locate(data, batches, spans, first, until)
            return
        except (IndexError, _IrregularError):
            pass
    columns.locate_all(data, batches, spans, first, until)


def _locate(
    data: bytes,
    batches: Sequence[tuple[BatchHeader, int, int]],
    spans: Spans,
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
        )  # the last that may refuse: it writes when it is sure
    spans.places.write(places.tobytes())
    spans.nulls.write(nulls.tobytes())
    spans.offsets.write(offsets.tobytes())
    spans.timestamps.write(timestamps.tobytes())
    spans.count += len(at)


def _bodies(
    data: bytes, raw: Any, batches: Sequence[tuple[BatchHeader, int, int]]
) -> tuple[Any, Any]:
    """Where each record begins, after its length, and where it ends."""
    steps = _steps()
    starts: list[int] = []
    last: dict[int, int] = {}  # of each batch that has any: its last record, and where that ends
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
    """By the first two bytes of a record: its size with its length. 0 is one for `_long_step`."""
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
    """The unsigned varints at these positions, which move behind them."""
    numbers = raw[at].astype(np.int64)
    at += 1
    more = np.flatnonzero(numbers > 0x7F)
    for shift in range(7, 7 * bytes_max, 7):
        if not len(more):
            return numbers
        # A byte that says that there is more has its highest bit set: it is taken off again.
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
    """What does not fit wraps, as the numbers of a compiled loop do."""
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
    """A number for each record, from one for each batch."""
    return np.repeat(np.array(numbers, np.int64), counts)


def _place(raw: Any, at: Any, following: Any, places: Any) -> Any:
    """Start and end of keys, or of values. Returns 1 where there is none."""
    sizes = _numbers(raw, at, VARINT_BYTES_MAX)
    places[:, 0] = at
    null = sizes & 1
    at += (sizes >> 1) * (1 - null)
    if (at >= following).any():
        raise _IrregularError
    places[:, 1] = at
    return null.astype(np.uint8)


def _place_headers(raw: Any, at: Any, following: Any, spans: Spans) -> None:
    """The first header of all records that have one, then the second, and so on."""
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
        if _place(raw, here, ends, found[:, :2]).any():  # a header has a name
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
