"""Finds keys and values in the bytes of fetched records: the hot loop of the source.

It copies nothing and creates no object per record: it appends four positions, an offset and a
timestamp per record to columns of numbers, from which `record_arrays.py` builds Arrow columns with
one copy of all keys and one of all values. mypyc compiles it (setup.py). In an interpreted build,
`vector_spans.py` does the same with numpy, and this loop handles only what that leaves to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BatchHeader

NO_KEY: Final = 1
NO_VALUE: Final = 2

BITS_32: Final = 0xFFFFFFFF
I64_MAX: Final = 0x7FFFFFFFFFFFFFFF
VARINT_BITS_MAX: Final = 35
VARLONG_BITS_MAX: Final = 70


class RecordSpans:
    """The records found so far, as columns of little-endian numbers."""

    def __init__(self, with_headers: bool = False) -> None:
        self.with_headers = with_headers
        self.count = 0
        self.places = BytesWriter()  # four i32 per record: start and end of key and value
        self.nulls = BytesWriter()  # one byte per record: NO_KEY, NO_VALUE
        self.offsets = BytesWriter()  # i64
        self.timestamps = BytesWriter()  # i64, in ms
        self.header_counts = BytesWriter()  # one i32 per record
        self.header_places = BytesWriter()  # four i32 per header: name and value
        self.header_nulls = BytesWriter()


def locate_spans(
    data: bytes,
    batches: Sequence[tuple[BatchHeader, int, int]],
    spans: RecordSpans,
    first: int,
    until: int,
) -> None:
    """`locate` for several batches, each with the start and end of its records in `data`."""
    for batch, start, end in batches:
        locate(data, start, end, batch, spans, first, until)


def locate(
    data: bytes,
    start: int,
    end: int,
    batch: BatchHeader,
    spans: RecordSpans,
    first: int,
    until: int,
) -> None:
    """Add the records of one batch with offsets from `first` (inclusive) to `until` (exclusive).

    `data[start:end]` has the batch's decompressed records. Raises INVALID_RECORD for malformed
    bytes, as `ottla.records` does.
    """
    try:
        _locate(data, start, end, batch, spans, first, until)
    except IndexError:
        raise _invalid("a record is cut off") from None


def _locate(
    data: bytes,
    start: int,
    end: int,
    batch: BatchHeader,
    spans: RecordSpans,
    first: int,
    until: int,
) -> None:
    position: i64 = start
    limit: i64 = end
    offset_min: i64 = first
    offset_end: i64 = until
    base_offset: i64 = batch.base_offset
    delta_last: i64 = batch.last_offset_delta
    appended = batch.log_append_time
    base_timestamp: i64 = batch.max_timestamp if appended else batch.base_timestamp
    delta_before: i64 = -1
    found: i64 = 0
    for _ in range(batch.record_count):
        length: i64 = data[position]
        position += 1
        if length > 0x7F:
            length, position = _varint(data, position, length)
        following: i64 = position + (length >> 1)
        if length & 1 or following > limit:
            raise _invalid("record length")
        number: i64 = data[position + 1]  # after the attributes
        position += 2
        if number > 0x7F:
            number, position = _varlong(data, position, number)
        timestamp: i64 = base_timestamp
        if not appended:
            timestamp += ((number >> 1) & I64_MAX) ^ -(number & 1)
        delta: i64 = data[position]
        position += 1
        if delta > 0x7F:
            delta, position = _varint(data, position, delta)
        delta = (delta >> 1) ^ -(delta & 1)
        if delta <= delta_before or delta > delta_last:
            raise _invalid("offset delta")
        delta_before = delta
        offset: i64 = base_offset + delta
        if offset >= offset_end:
            break
        if offset < offset_min:
            position = following
            continue
        position = _place(data, position, following, spans)
        write_i64_le(spans.offsets, offset)
        if timestamp > I64_MAX or timestamp < -I64_MAX - 1:
            timestamp = wrapped(timestamp)  # compiled i64 arithmetic has wrapped already
        write_i64_le(spans.timestamps, timestamp)
        found += 1
    else:
        if position != limit:
            raise _invalid("bytes after the last record")
    spans.count += found


def _place(data: bytes, position: i64, following: i64, spans: RecordSpans) -> i64:
    """Key, value and headers of the record that ends at `following`."""
    nulls: i64 = 0
    places = spans.places
    size: i64 = data[position]
    position += 1
    if size > 0x7F:
        size, position = _varint(data, position, size)
    write_i32_le(places, i32(position))
    if size & 1:
        nulls = NO_KEY
    else:
        position += size >> 1
    if position >= following:
        raise _invalid("key size")
    write_i32_le(places, i32(position))
    size = data[position]
    position += 1
    if size > 0x7F:
        size, position = _varint(data, position, size)
    write_i32_le(places, i32(position))
    if size & 1:
        nulls |= NO_VALUE
    else:
        position += size >> 1
    if position >= following:
        raise _invalid("value size")
    write_i32_le(places, i32(position))
    spans.nulls.append(nulls)
    if spans.with_headers:
        position = _place_headers(data, position, following, spans)
        if position != following:
            raise _invalid("record size")
    return following


def _place_headers(data: bytes, position: i64, following: i64, spans: RecordSpans) -> i64:
    count: i64 = data[position]
    position += 1
    if count > 0x7F:
        count, position = _varint(data, position, count)
    count = (count >> 1) ^ -(count & 1)
    if count < 0 or count > following - position:
        raise _invalid("header count")
    write_i32_le(spans.header_counts, i32(count))
    places = spans.header_places
    for _ in range(count):
        size: i64 = data[position]
        position += 1
        if size > 0x7F:
            size, position = _varint(data, position, size)
        write_i32_le(places, i32(position))
        position += size >> 1
        if size & 1 or position >= following:
            raise _invalid("header name")
        write_i32_le(places, i32(position))
        size = data[position]
        position += 1
        if size > 0x7F:
            size, position = _varint(data, position, size)
        write_i32_le(places, i32(position))
        if not size & 1:
            position += size >> 1
        if position > following:
            raise _invalid("header value")
        write_i32_le(places, i32(position))
        spans.header_nulls.append(NO_VALUE if size & 1 else 0)
    return position


def _varint(data: bytes, position: i64, number: i64) -> tuple[i64, i64]:
    """The rest of an unsigned varint whose first byte, `number`, has the continuation bit."""
    number &= 0x7F
    shift: i64 = 7
    while True:
        byte: i64 = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & BITS_32, position
        shift += 7
        if shift >= VARINT_BITS_MAX:
            raise _invalid("a varint of more than five bytes")


def _varlong(data: bytes, position: i64, number: i64) -> tuple[i64, i64]:
    """The same for 64 bits; an interpreted int may exceed them."""
    number &= 0x7F
    shift: i64 = 7
    while True:
        byte: i64 = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift >= VARLONG_BITS_MAX:
            raise _invalid("a varlong of more than ten bytes")


def wrapped(number: int) -> int:
    """Wraps around like 64-bit arithmetic."""
    return ((number + I64_MAX + 1) & 0xFFFFFFFFFFFFFFFF) - I64_MAX - 1


def _invalid(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"malformed records: {what}")
