"""Arrow columns from the positions of keys and values in fetched bytes.

All keys and values of some batches are in one buffer, at the positions that `locate` has recorded.
Read as offsets, these positions split the buffer into a binary array:

    bytes before | key | bytes between | value | bytes before the next | key | ...

Every fourth element is a key, and every fourth a value: two `take` calls in Arrow's compiled code
build both columns, whatever the number of records.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.spark.record_spans import NO_KEY, NO_VALUE, RecordSpans

US_IN_MS: Final = 1000
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class RecordArrays:
    """Records as arrays; `headers` is None if the reader does not need them."""

    __slots__ = ("headers", "keys", "offsets", "timestamps_ms", "values")

    def __init__(self, data: bytes, spans: RecordSpans) -> None:
        cut = _cut(data, spans.places.getvalue(), pa.binary())
        nulls = np.frombuffer(spans.nulls.getvalue(), np.uint8)
        self.keys: Any = _every_fourth(cut, 1, nulls & NO_KEY)
        self.values: Any = _every_fourth(cut, 3, nulls & NO_VALUE)
        self.offsets: Any = _numbers(spans.offsets.getvalue(), pa.int64(), spans.count)
        self.timestamps_ms: Any = _numbers(spans.timestamps.getvalue(), pa.int64(), spans.count)
        self.headers: Any = _headers(data, spans) if spans.with_headers else None

    @property
    def timestamps(self) -> Any:
        """In Spark's microseconds; overflow wraps around, as in Java."""
        microseconds = self.timestamps_ms.to_numpy() * US_IN_MS
        return pa.array(microseconds).view(TIMESTAMP)


def _cut(data: bytes, places: bytes, kind: Any) -> Any:
    offsets = pa.py_buffer(b"\0\0\0\0" + places)
    return pa.Array.from_buffers(kind, len(places) // 4, [None, offsets, pa.py_buffer(data)])


def _every_fourth(cut: Any, first: int, nulls: Any) -> Any:
    indices = np.arange(first, len(cut), 4, dtype=np.int32)
    return cut.take(pa.array(indices, mask=nulls != 0 if nulls.any() else None))


def _numbers(data: bytes, kind: Any, count: int) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _headers(data: bytes, spans: RecordSpans) -> Any:
    """As in Spark's own source, a record without headers has null, not an empty list."""
    counts = np.frombuffer(spans.header_counts.getvalue(), np.int32)
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    places = spans.header_places.getvalue()
    nulls = np.frombuffer(spans.header_nulls.getvalue(), np.uint8)
    cut = _cut(data, places, pa.binary())
    names = _text(_every_fourth(cut, 1, nulls & 0))
    values = _every_fourth(cut, 3, nulls & NO_VALUE)
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(
        pa.array(ends), pairs, type=HEADERS, mask=pa.array(counts == 0) if len(counts) else None
    )


def _text(names: Any) -> Any:
    """Like Java, uses a replacement character for bytes that are not UTF-8."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()])
