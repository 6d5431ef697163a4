"""Records: varints, every kind of malformed bytes, and missing keys."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BatchHeader, build_batch, read_header, write_batch
from ottla.records.record import (
    Record,
    RecordErrors,
    check_keys,
    read_payload,
    read_records,
    read_varint,
    read_varlong,
    records_without_key,
    write_varint,
)

NUMBERS = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31)]
LONG_NUMBERS = [*NUMBERS, 2**31, 2**53, 2**63 - 1, -(2**63)]

# Attributes, timestamp 0, offset 0, key "k", value null, one header "h" -> "v".
BODY = b"\x00\x00\x00\x02k\x01\x02\x02h\x02v"
FIVE_BYTES = b"\x80\x80\x80\x80\x80\x00"
TEN_BYTES = b"\x80" * 10 + b"\x00"


def sized(body: bytes) -> bytes:
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out) + body


def batch_of(payload: bytes, count: int = 1) -> tuple[bytes, BatchHeader]:
    header = read_header(build_batch([Record(timestamp=1000)]))
    header.record_count = count
    header.last_offset_delta = max(0, count - 1)
    data = write_batch(header, payload)
    return data, read_header(data)


@pytest.mark.parametrize("number", LONG_NUMBERS)
def test_varlongs_are_read_as_they_were_written(number: int) -> None:
    out = bytearray(b"..")
    write_varint(out, number)
    assert read_varlong(bytes(out) + b"rest", 2) == (number, len(out))


@pytest.mark.parametrize("number", NUMBERS)
def test_varints_are_read_as_they_were_written(number: int) -> None:
    out = bytearray()
    write_varint(out, number)
    assert read_varint(bytes(out), 0) == (number, len(out))


def test_a_record_is_read_field_by_field() -> None:
    data, header = batch_of(sized(BODY))
    assert read_records(data, header) == [
        Record(offset=0, timestamp=1000, key=b"k", value=None, headers=[("h", b"v")])
    ]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x16",
        sized(BODY)[:-1],
        sized(BODY) + b"\x00",
        b"\x17" + BODY,  # a negative length
        b"\x18" + BODY,  # one byte more than there is
        b"\x14" + BODY,  # one byte less
        FIVE_BYTES + BODY,
        sized(b"\x00" + TEN_BYTES + BODY[2:]),
        sized(b"\x00\x00" + FIVE_BYTES + BODY[3:]),
        sized(b"\x00\x00\x01" + BODY[3:]),  # offset delta -1
        sized(b"\x00\x00\x02" + BODY[3:]),  # offset delta 1 in a batch of one
        sized(b"\x00\x00\x00" + FIVE_BYTES + BODY[4:]),
        sized(b"\x00\x00\x00\xfe\xff\xff\xff\x0f" + BODY[5:]),  # a key of 2 GB
        sized(b"\x00\x00\x00\x01\xfe\xff\xff\xff\x0f\x00"),  # a value of 2 GB
        sized(BODY[:6] + b"\x01"),  # -1 headers
        sized(BODY[:6] + b"\xfe\xff\xff\xff\x0f"),  # 2^31 - 1 headers
        sized(BODY[:6] + b"\x02\x01\x02v"),  # a header without a name
        sized(BODY[:6] + b"\x02\x7eh\x02v"),  # a name longer than the record
        sized(BODY[:6] + b"\x02\x02h\x7ev"),  # a value longer than the record
        sized(BODY[:6] + b"\x04\x02h\x02v"),  # two headers, one written
    ],
)
def test_malformed_records_are_refused(payload: bytes) -> None:
    data, header = batch_of(payload)
    with pytest.raises(KafkaError) as caught:
        read_records(data, header)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_offsets_must_grow_inside_a_batch() -> None:
    data, header = batch_of(sized(BODY) * 2, count=2)
    with pytest.raises(KafkaError) as caught:
        read_records(data, header)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_count_that_the_bytes_cannot_hold_is_refused_at_once(count: int) -> None:
    data, header = batch_of(sized(BODY))
    header.record_count = count
    for read in (read_records, records_without_key):
        with pytest.raises(KafkaError) as caught:
            read(data, header)
        assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_batch_may_be_empty() -> None:
    data, header = batch_of(b"", count=0)
    assert read_records(data, header) == []
    assert records_without_key(data, header) == []


def test_any_negative_length_is_null_as_in_kafka() -> None:
    data, header = batch_of(sized(b"\x00\x00\x00\x03\x05\x00"))
    [record] = read_records(data, header)
    assert (record.key, record.value) == (None, None)
    assert records_without_key(data, header) == [0]


def test_a_header_name_that_is_not_utf8_keeps_its_bytes() -> None:
    body = BODY[:7] + b"\x04\xff\xfe\x01"
    data, header = batch_of(sized(body))
    records = read_records(data, header)
    assert read_payload(build_batch(records), read_header(build_batch(records))) == sized(body)


def test_a_truncated_batch_is_refused() -> None:
    data = build_batch([Record(value=b"v" * 100)])
    with pytest.raises(KafkaError) as caught:
        read_records(data[:-1], read_header(data))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_records_are_read_at_the_position_of_their_header() -> None:
    first, second = build_batch([Record(value=b"a")]), build_batch([Record(value=b"b")])
    data = memoryview(first + second)
    assert [r.value for r in read_records(data, read_header(data, len(first)))] == [b"b"]


def test_plain_records_are_bounded_too() -> None:
    data = build_batch([Record(value=b"v" * 100)])
    with pytest.raises(KafkaError) as caught:
        read_records(data, read_header(data), size_max=100)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", range(5))
def test_records_without_a_key_are_named_by_their_index(codec: int) -> None:
    keys = [b"a", None, b"", None, b"k" * 200]
    data = build_batch([Record(key=key, value=b"v" * 90) for key in keys], compression=codec)
    assert records_without_key(data, read_header(data)) == [1, 3]
    with pytest.raises(RecordErrors) as caught:
        check_keys(data, read_header(data))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.records] == [1, 3]


def test_key_check_accepts_records_with_keys() -> None:
    data = build_batch([Record(key=b"k"), Record(key=b"")])
    check_keys(data, read_header(data))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        sized(BODY)[:-1],
        sized(BODY) + b"\x00",
        b"\x17" + BODY,
        FIVE_BYTES + BODY,
        sized(b"\x00" + TEN_BYTES + BODY[2:]),
        sized(b"\x00\x00\x00\x7e" + BODY[4:]),  # a key longer than the record
        b"\x02\x80" + b"\x80" * 9,
    ],
)
def test_key_check_refuses_malformed_records(payload: bytes) -> None:
    data, header = batch_of(payload)
    with pytest.raises(KafkaError) as caught:
        records_without_key(data, header)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_records_are_equal_by_value_and_show_themselves() -> None:
    record = Record(1, 2, b"k", b"v", [("h", None)])
    assert record == Record(1, 2, b"k", b"v", [("h", None)])
    assert record != Record(1, 2, b"k", b"v")
    assert record != 1
    assert "key=b'k'" in repr(record)
