"""The encodings of the fields of messages."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.slices import FileSlice
from ottla.wire import fields
from ottla.wire.fields import MalformedError, Writer
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

UNHURRIED = settings(deadline=None)  # a busy machine is not a failure


class NoFile:
    def fileno(self) -> int:
        return -1

    def pread(self, size: int, position: int) -> bytes:
        raise AssertionError("a slice must not be read while it is written")


@UNHURRIED
@given(value=st.integers(0, 2**35 - 1))
def test_varints_are_read_as_they_were_written(value: int) -> None:
    buffer = bytearray()
    fields.write_uvarint(buffer, value)
    assert fields.read_uvarint(bytes(buffer) + b"more", 0) == (value, len(buffer))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")],
)
def test_varints_are_little_endian_groups_of_seven_bits(value: int, encoded: str) -> None:
    buffer = bytearray()
    fields.write_uvarint(buffer, value)
    assert buffer.hex() == encoded


@UNHURRIED
@given(value=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_strings_are_read_as_they_were_written(value: str | None) -> None:
    for name in ("nullable_string", "compact_nullable_string"):
        buffer = bytearray()
        getattr(fields, f"write_{name}")(buffer, value)
        read = getattr(fields, f"read_{name}")
        assert read(memoryview(buffer), 0) == (value, len(buffer))
        assert read(bytes(buffer), 0) == (value, len(buffer))


def test_a_string_too_long_for_its_length_is_not_written() -> None:
    with pytest.raises(struct.error):
        fields.write_string(bytearray(), "x" * 32768)


def test_records_are_views_of_the_frame() -> None:
    buffer = bytearray(b"\x06")
    buffer += b"batch"
    for data in (buffer, memoryview(buffer)):
        records, end = fields.read_compact_records(data, 0)
        assert isinstance(records, memoryview)
        assert (records.obj, end) == (buffer, 6)
        assert bytes(records) == b"batch"


def test_integers_in_arrays_keep_their_sign() -> None:
    buffer = bytearray()
    fields.write_numbers(buffer, [-1, 0, 2**31 - 1], "i")
    assert fields.read_numbers(buffer, 0, 3, "i") == ([-1, 0, 2**31 - 1], 12)


def test_more_uuids_than_bytes_are_malformed() -> None:
    with pytest.raises(MalformedError):
        fields.read_uuids(bytes(40), 0, 3)


def test_a_file_slice_is_a_part_of_its_own() -> None:
    first, second = FileSlice(NoFile(), 10, 500), FileSlice(NoFile(), 700, 90)
    writer = Writer()
    writer.buffer += b"before"
    fields.write_compact_nullable_records(writer, first)
    writer.buffer += b"between"
    fields.write_records(writer, second)
    assert writer.size == 6 + 2 + 500 + 7 + 4 + 90
    assert writer.finish() == [b"before\xf5\x03", first, b"between\0\0\0\x5a", second]


def test_an_empty_file_slice_is_no_part() -> None:
    writer = Writer()
    fields.write_records(writer, FileSlice(NoFile(), 10, 0))
    writer.buffer += b"after"
    assert writer.finish() == [b"\0\0\0\0after"]


def test_records_in_memory_stay_in_one_part() -> None:
    writer = Writer()
    for records in (b"one", bytearray(b"two"), memoryview(b"six")):
        fields.write_nullable_records(writer, records)
    fields.write_nullable_records(writer, None)
    assert writer.finish() == [b"\0\0\0\3one\0\0\0\3two\0\0\0\3six\xff\xff\xff\xff"]


def test_messages_are_equal_if_their_fields_are() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=3)
    assert message == HeartbeatRequest("g", 3)
    assert message != HeartbeatRequest("g", 4)
    assert HeartbeatRequest() != HeartbeatResponse()
    assert repr(message) == (
        "HeartbeatRequest(group_id='g', generation_id=3, member_id='', group_instance_id=None)"
    )


def test_messages_have_no_other_fields() -> None:
    message = HeartbeatRequest()
    with pytest.raises(AttributeError):
        message.generation = 3  # type: ignore[attr-defined]
