"""numpy and the loop give the same spans or the same error, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import KafkaError
from ottla.records.batch import BatchHeader, build_batch, read_header, write_batch
from ottla.records.record import Record, read_payload, write_records
from ottla.spark import chunks, record_spans, vector_spans
from ottla.spark.record_spans import RecordSpans

Batches = Sequence[tuple[BatchHeader, int, int]]
Locate = Callable[[bytes, Batches, RecordSpans, int, int], None]

EVERYTHING = (0, 1 << 60)
NOW_MS = 1_700_000_000_000
SMALL = st.binary(max_size=12) | st.none()
LARGE = st.sampled_from([bytes(63), bytes(64), bytes(300), bytes(9_000)])
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(NOW_MS - 10, NOW_MS + 10**6),
        key=SMALL,
        value=SMALL | LARGE,
        headers=st.lists(st.tuples(st.text(max_size=3), SMALL), max_size=3),
    ),
    min_size=1,
    max_size=80,
)


def batches_of(data: bytes) -> list[tuple[BatchHeader, int, int]]:
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        found.append((header, position + 61, position + header.size))
        position += header.size
    return found


def outcome(
    locate_all: Locate,
    data: bytes,
    batches: Batches,
    with_headers: bool = True,
    limits: tuple[int, int] = EVERYTHING,
) -> object:
    spans = RecordSpans(with_headers)
    try:
        locate_all(data, batches, spans, *limits)
    except KafkaError as error:
        return str(error)
    return (
        spans.count,
        spans.places.getvalue(),
        spans.nulls.getvalue(),
        spans.offsets.getvalue(),
        spans.timestamps.getvalue(),
        spans.header_counts.getvalue(),
        spans.header_places.getvalue(),
        spans.header_nulls.getvalue(),
    )


@given(
    batches=st.lists(st.tuples(RECORDS, st.sampled_from([None, 77])), min_size=1, max_size=3),
    with_headers=st.booleans(),
    data=st.data(),
)
@settings(max_examples=60)
def test_numpy_reads_usual_records(
    batches: list[tuple[list[Record], int | None]], with_headers: bool, data: st.DataObject
) -> None:
    """Calls `_locate`, which reports what it leaves to the loop."""
    built, offset = b"", data.draw(st.integers(0, 1 << 40))
    first = offset
    for records, append_time in batches:
        built += build_batch(records, base_offset=offset, log_append_time_ms=append_time)
        offset += len(records) + data.draw(st.integers(0, 3))
    start = data.draw(st.integers(first, offset))
    limits = data.draw(st.sampled_from([EVERYTHING, (start, offset), (first, start)]))
    found = batches_of(built)
    numpy = outcome(vector_spans._locate, built, found, with_headers, limits)
    assert numpy == outcome(record_spans.locate_spans, built, found, with_headers, limits)


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), cut=st.integers(0, 3))
@settings(max_examples=300)
def test_malformed_bytes_are_left_to_the_loop(place: float, byte: int, cut: int) -> None:
    records = [
        Record(timestamp=NOW_MS, key=b"key", value=b"value" * number, headers=[("h", b"x")])
        for number in range(vector_spans.RECORDS_MIN)
    ]
    whole = bytearray(build_batch(records))
    header = read_header(bytes(whole))
    whole[61 + int(place * (len(whole) - 61))] = byte
    data = bytes(whole[: len(whole) - cut])
    batches = [(header, 61, len(data))]
    numpy = outcome(vector_spans.locate_spans, data, batches)
    assert numpy == outcome(record_spans.locate_spans, data, batches)


@pytest.mark.parametrize(
    "odd",
    [
        Record(timestamp=-(1 << 63), value=b"v"),  # a delta of ten bytes
        Record(timestamp=NOW_MS, headers=[("h", b"")] * (vector_spans.HEADERS_MAX + 1)),
    ],
)
def test_unusual_records_are_read_by_the_loop(odd: Record) -> None:
    records = [Record(timestamp=NOW_MS, value=b"usual")] * 40 + [odd]
    data = build_batch(records)
    with pytest.raises(vector_spans._IrregularError):
        vector_spans._locate(data, batches_of(data), RecordSpans(True), *EVERYTHING)
    numpy = outcome(vector_spans.locate_spans, data, batches_of(data))
    assert numpy == outcome(record_spans.locate_spans, data, batches_of(data))
    assert isinstance(numpy, tuple)
    assert numpy[0] == 41


def test_an_emptied_batch_is_skipped() -> None:
    records = [Record(timestamp=NOW_MS + number, value=b"v") for number in range(40)]
    empty = read_header(build_batch(records, base_offset=40))
    empty.record_count = 0
    data = (
        build_batch(records)
        + write_batch(empty, write_records([], [], empty.base_timestamp))
        + build_batch(records, base_offset=80)
    )
    batches = batches_of(data)
    assert [batch.record_count for batch, _, _ in batches] == [40, 0, 40]
    numpy = outcome(vector_spans._locate, data, batches)
    assert numpy == outcome(record_spans.locate_spans, data, batches)


@pytest.mark.parametrize("compression", range(5))
def test_compressed_batches(compression: int) -> None:
    records = [Record(timestamp=NOW_MS, key=None, value=b"") for _ in range(40)]
    raw = build_batch(records, compression=compression)
    header = read_header(raw)
    payload = bytes(read_payload(raw, header))
    batches = [(header, 0, len(payload))]
    numpy = outcome(vector_spans._locate, payload, batches)
    assert numpy == outcome(record_spans.locate_spans, payload, batches)


def test_the_build_chooses_the_implementation() -> None:
    compiled = not str(record_spans.__file__).endswith(".py")
    module = record_spans if compiled else vector_spans
    assert chunks.locate_spans is module.locate_spans
