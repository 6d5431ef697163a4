"""Batches compared with two other implementations: kafka-python's and aiokafka's.

Each reads what we build and we read what each builds, in every codec, with and without producer
fields.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import (
    DefaultRecordBatch as AiokafkaBatch,
)
from aiokafka.record.default_records import (
    DefaultRecordBatchBuilder as AiokafkaBuilder,
)
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch, check_batches, read_header, rewrite_timestamps
from ottla.records.compression import CODEC_NAMES
from ottla.records.control import Marker, build_marker
from ottla.records.record import Record, read_records

with warnings.catch_warnings():  # kafka-python calls what importlib has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(0, NOW_MS, b"key", b"value", []),
    Record(1, NOW_MS + 5, None, b"no key", [("name", b"content"), ("none", None)]),
    Record(2, NOW_MS - 70_000, b"older", None, []),
    Record(3, NOW_MS, b"", b"", [("ünïcode ☃", b"")]),
    Record(4, NOW_MS, b"large", b"0123456789" * 20_000, []),
]
BUILDERS = [KafkaPythonBuilder, AiokafkaBuilder]
READERS = [KafkaPythonBatch, AiokafkaBatch]
CODECS = pytest.mark.parametrize("codec", range(5), ids=CODEC_NAMES)


def theirs(record: Any) -> Record:
    headers = [(name, value) for name, value in record.headers]
    return Record(
        record.offset, record.timestamp, _bytes(record.key), _bytes(record.value), headers
    )


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


def build(builder: Any, codec: int, *, producer_id: int = -1, transactional: bool = False) -> bytes:
    has_producer = producer_id >= 0
    batch = builder(
        magic=2,
        compression_type=codec,
        is_transactional=1 if transactional else 0,
        producer_id=producer_id,
        producer_epoch=3 if has_producer else -1,
        base_sequence=11 if has_producer else -1,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        added = batch.append(
            record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        assert added is not None
    return bytes(batch.build())


@CODECS
@pytest.mark.parametrize("builder", BUILDERS)
def test_ottla_reads_batches_of_other_clients(builder: Any, codec: int) -> None:
    data = build(builder, codec)
    [header] = check_batches(data, batch_size_max=1 << 20)
    assert header.compression == codec
    assert read_records(data, header) == RECORDS
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 5)


@CODECS
@pytest.mark.parametrize("reader", READERS)
def test_other_clients_read_batches_of_ottla(reader: Any, codec: int) -> None:
    batch = reader(build_batch(RECORDS, compression=codec))
    assert batch.validate_crc()
    assert batch.compression_type == codec
    assert [theirs(record) for record in batch] == RECORDS


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_bytes_are_the_same_without_compression(builder: Any) -> None:
    assert build(builder, 0)[12:16] in (b"\0\0\0\0", b"\xff\xff\xff\xff")  # nobody's epoch yet
    ours = build_batch(RECORDS)
    assert build(builder, 0)[:12] == ours[:12]
    assert build(builder, 0)[16:] == ours[16:]


@pytest.mark.parametrize("builder", BUILDERS)
def test_producer_fields_stand_where_they_are_expected(builder: Any) -> None:
    data = build(builder, 0, producer_id=2**40, transactional=True)
    [header] = check_batches(data, batch_size_max=1 << 20)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 11)
    assert header.transactional
    ours = build_batch(
        RECORDS, producer_id=2**40, producer_epoch=3, base_sequence=11, transactional=True
    )
    assert data[16:] == ours[16:]


@pytest.mark.parametrize("reader", READERS)
def test_other_clients_see_the_append_time(reader: Any) -> None:
    data = bytearray(build_batch(RECORDS))
    rewrite_timestamps(memoryview(data), 0, NOW_MS + 1234)
    batch = reader(bytes(data))
    assert batch.validate_crc()
    assert {record.timestamp for record in batch} == {NOW_MS + 1234}


@pytest.mark.parametrize(("commit", "expected"), [(True, COMMIT_MARKER), (False, ABORT_MARKER)])
def test_other_clients_read_our_markers(commit: bool, expected: ControlRecord) -> None:
    data = build_marker(Marker(commit, 4), producer_id=8, producer_epoch=1, timestamp=NOW_MS)
    batch: Any = AiokafkaBatch(data)
    assert batch.is_control_batch
    assert batch.is_transactional
    assert ControlRecord.parse(next(batch).key) == expected
    control: Any = next(KafkaPythonBatch(data))
    assert (control.commit, control.abort) == (commit, not commit)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_of_other_clients_are_refused(magic: int) -> None:
    builder: Any = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=10_000)
    builder.append(0, timestamp=NOW_MS if magic else None, key=b"k", value=b"v" * 40)
    with pytest.raises(KafkaError) as caught:
        check_batches(bytes(builder.build()), batch_size_max=1 << 20)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_headers_are_equal_to_those_of_other_clients() -> None:
    data = build_batch(RECORDS, base_offset=50, leader_epoch=6, compression=1)
    batch: Any = KafkaPythonBatch(data)
    header = read_header(data)
    assert (batch.base_offset, batch.leader_epoch, batch.crc) == (50, 6, header.crc)
    assert (batch.last_offset, batch.next_offset) == (header.last_offset, header.next_offset)
    assert batch.size_in_bytes == header.size
