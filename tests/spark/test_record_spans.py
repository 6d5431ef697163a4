"""The source's hot loop equals `ottla.records`, for any records and compression."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.client.protocol.range_fetcher import CompletedFetch, OffsetRange
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch, read_header, write_batch
from ottla.records.record import Record, read_records, write_records
from ottla.spark.chunks import decode
from ottla.spark.record_arrays import RecordArrays
from ottla.spark.record_spans import RecordSpans, locate, wrapped

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
SMALL = st.binary(max_size=40) | st.none()
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=I64 | st.integers(0, 10**13),
        key=SMALL,
        value=SMALL | st.binary(min_size=100, max_size=300),
        headers=st.lists(st.tuples(st.text(max_size=6), SMALL), max_size=3),
    ),
    min_size=1,
    max_size=30,
)
EVERYTHING = OffsetRange("t", 0, 0, 1 << 60)


def rows(columns: RecordArrays) -> list[tuple[Any, ...]]:
    headers = columns.headers.to_pylist() if columns.headers is not None else []
    return list(
        zip(
            columns.offsets.to_pylist(),
            columns.timestamps_ms.to_pylist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            [
                header and [(entry["key"], entry["value"]) for entry in header]
                for header in headers or [None] * len(columns.offsets)
            ],
            strict=True,
        )
    )


def expected(records: list[Record], range_: OffsetRange = EVERYTHING) -> list[tuple[Any, ...]]:
    return [
        (
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            [(text(name), value) for name, value in record.headers] or None,
        )
        for record in records
        if range_.start <= record.offset < range_.end
    ]


def text(name: str) -> str:
    """`ottla.records` keeps invalid UTF-8 unchanged."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def fetched(batches: list[bytes], range_: OffsetRange = EVERYTHING) -> CompletedFetch:
    data = b"".join(batches)
    headers, position = [], 0
    while position < len(data):
        headers.append(read_header(data, position))
        position += headers[-1].size
    return CompletedFetch(range_, range_.start, data, headers, ())


@given(
    batches=st.lists(st.tuples(RECORDS, st.integers(0, 4)), min_size=1, max_size=4), data=st.data()
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_columns_equal_what_the_records_room_reads(
    batches: list[tuple[list[Record], int]], data: st.DataObject
) -> None:
    built, whole, offset = [], [], data.draw(st.integers(0, 1 << 40))
    first = offset
    for records, compression in batches:
        raw = build_batch(records, base_offset=offset, compression=compression)
        built.append(raw)
        whole += read_records(raw, read_header(raw))
        offset += len(records) + data.draw(st.integers(0, 3))  # compaction leaves gaps
    start = data.draw(st.integers(first, offset))
    range_ = OffsetRange("t", 0, start, data.draw(st.integers(start, offset + 5)))
    chunks = decode(fetched(built, range_), with_headers=True, committed=False)
    assert [row for chunk in chunks for row in rows(chunk.columns)] == expected(whole, range_)


def test_headers_are_not_parsed_unless_requested() -> None:
    raw = build_batch([Record(timestamp=5, key=b"k", value=b"v", headers=[("a", b"b")])])
    (chunk,) = decode(fetched([raw]), with_headers=False, committed=False)
    assert chunk.columns.headers is None
    assert rows(chunk.columns) == [(0, 5, b"k", b"v", None)]


def test_log_append_time_comes_from_the_batch() -> None:
    records = [Record(timestamp=5, value=b"a"), Record(timestamp=9, value=b"b")]
    stamped = build_batch(records, log_append_time_ms=77)
    plain = build_batch(records, base_offset=2)
    chunks = list(decode(fetched([stamped, plain]), with_headers=False, committed=False))
    assert [
        (chunk.timestamp_type, chunk.columns.timestamps_ms.to_pylist()) for chunk in chunks
    ] == [
        (1, [77, 77]),
        (0, [5, 9]),
    ]


def test_a_compacted_batch_keeps_its_offsets() -> None:
    records = [Record(timestamp=1, value=b"a"), Record(timestamp=1, value=b"b")]
    header = read_header(build_batch([*records, *records, *records], base_offset=10))
    header.record_count = 2
    raw = write_batch(header, write_records(records, [1, 4], header.base_timestamp))
    (chunk,) = decode(fetched([raw]), with_headers=False, committed=False)
    assert chunk.columns.offsets.to_pylist() == [11, 14]


def test_a_header_name_that_is_not_text_has_replacement_characters() -> None:
    raw = build_batch([Record(value=b"v", headers=[("a\udcff", b"1")])])
    (chunk,) = decode(fetched([raw]), with_headers=True, committed=False)
    assert chunk.columns.headers.to_pylist() == [[{"key": "a\ufffd", "value": b"1"}]]


@given(position=st.integers(0, 60), byte=st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_bytes_that_are_not_records_are_refused_or_read(position: int, byte: int) -> None:
    """Never a crash, and never bytes from outside the batch."""
    records = [Record(timestamp=1, key=b"key", value=b"value", headers=[("h", b"x")])] * 3
    raw = bytearray(build_batch(records))
    position = 61 + position % (len(raw) - 61)
    raw[position] = byte
    data = bytes(raw)
    spans = RecordSpans(with_headers=True)
    try:
        locate(data, 61, len(data), read_header(data), spans, 0, 1 << 60)
    except KafkaError as error:
        refused = error.code
    else:
        refused = ErrorCode.NONE
    assert refused in (ErrorCode.NONE, ErrorCode.INVALID_RECORD)
    if not refused:
        assert rows(RecordArrays(data, spans)) == expected(read_records(data, read_header(data)))


def test_a_record_that_is_cut_off_is_refused() -> None:
    raw = build_batch([Record(timestamp=1, value=b"value")])
    with pytest.raises(KafkaError, match="malformed"):
        locate(raw[:-3], 61, len(raw) - 3, read_header(raw), RecordSpans(), 0, 1 << 60)


@given(number=st.integers(-(1 << 64), 1 << 64))
def test_wrapped_keeps_64_bits(number: int) -> None:
    assert -(1 << 63) <= wrapped(number) < 1 << 63
    assert (wrapped(number) - number) % (1 << 64) == 0
