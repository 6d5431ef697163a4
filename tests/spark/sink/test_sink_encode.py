from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ottla.client.protocol.encoded_batch import EncodedBatch
from ottla.records.batch import check_batches
from ottla.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.records.record import Record, read_records
from ottla.spark.sink.encode import RecordColumns, batches_of, encode
from ottla.spark.sink.headers import encode_headers

LARGE = 1 << 30
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def columns(keys: list[Any], values: list[Any], timestamps: list[int]) -> RecordColumns:
    return RecordColumns(
        pa.array(keys, pa.binary()), pa.array(values, pa.binary()), np.array(timestamps, np.int64)
    )


def records(batch: EncodedBatch) -> list[Record]:
    """As a broker checks the batch, and a consumer reads it."""
    data = batch.stamped(producer_id=7, producer_epoch=2, sequence=5, transactional=True)
    (header,) = check_batches(data, batch_size_max=LARGE)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    assert header.transactional
    found = read_records(data, header)
    assert header.max_timestamp == max(record.timestamp for record in found)
    return found


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_encoded_records_are_read_again(codec: int) -> None:
    draw = random.Random(codec)
    keys = [draw.choice([None, b"", draw.randbytes(draw.randrange(200))]) for _ in range(300)]
    values = [draw.choice([None, b"", draw.randbytes(draw.randrange(20_000))]) for _ in range(300)]
    times = [draw.randrange(-1000, 1 << 50) for _ in range(300)]
    found = records(encode(columns(keys, values, times), codec))
    assert [record.key for record in found] == keys
    assert [record.value for record in found] == values
    assert [record.timestamp for record in found] == times
    assert [record.offset for record in found] == list(range(300))


def test_a_part_of_a_column_is_encoded_alone() -> None:
    whole = columns([b"a", b"b", None, b"d"], [b"1", None, b"3", b"4"], [1, 2, 3, 4])
    assert [record.key for record in records(encode(whole.slice(1, 3)))] == [b"b", None]
    chosen = whole.take(np.array([3, 0]))
    assert [(record.key, record.value, record.timestamp) for record in records(encode(chosen))] == [
        (b"d", b"4", 4),
        (b"a", b"1", 1),
    ]


def test_headers() -> None:
    given = [
        None,
        [],
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        [{"key": "é" * 100, "value": b"2" * 300}],
    ]
    some = columns([None] * 4, [b"v"] * 4, [0] * 4)
    some.headers = encode_headers(pa.array(given, HEADERS))
    assert [[*record.headers] for record in records(encode(some))] == [
        [],
        [],
        [("a", b"1"), ("a", None)],
        [("é" * 100, b"2" * 300)],
    ]


def test_batches_are_bounded_and_a_large_record_has_its_own() -> None:
    values = [b"x" * 100] * 10 + [b"y" * 5000] + [b"z" * 100] * 10
    batches = list(batches_of(columns([None] * 21, values, [0] * 21), bytes_max=500))
    assert [
        value for batch in batches for value in (record.value for record in records(batch))
    ] == values
    assert [batch.count for batch in batches if len(batch.payload) > 500] == [1]
    assert max(batch.count for batch in batches) == 4


def test_a_batch_can_be_halved() -> None:
    batch = encode(
        columns([b"k"] * 5, [b"%d" % number for number in range(5)], [9, 8, 7, 6, 5]), LZ4
    )
    first, second = batch.halves()
    assert [record.value for record in records(first)] == [b"0", b"1"]
    assert [record.value for record in records(second)] == [b"2", b"3", b"4"]
    assert [record.timestamp for record in records(second)] == [7, 6, 5]
