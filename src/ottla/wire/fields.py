"""The types of the fields of Kafka's messages: how each is read from bytes and written to them.

Readers take `(data, position)` and return `(value, next position)`. `data` ends where the message's
frame ends, so every length and count on the wire is checked against its length before anything is
allocated. Readers raise MalformedError, or one of the READ_ERRORS that indexing, struct and UTF-8
decoding raise by themselves: a message's own `read` turns those into MalformedError, which saves
the readers the checks that Python makes anyway.

"Compact" is the encoding of flexible versions (KIP-482): lengths are unsigned varints, one more
than the length, and zero is null.
"""

from __future__ import annotations

import struct
from codecs import utf_8_decode
from collections.abc import Sequence
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from ottla.slices import FileSlice

Buffer = bytes | bytearray | memoryview
Records = bytes | bytearray | memoryview | FileSlice
Part = bytes | bytearray | memoryview | FileSlice

ZERO_UUID: Final = bytes(16)
VARINT_BYTES_MAX: Final = 5
NULL_SIZE: Final = b"\xff\xff\xff\xff"

# Each element of an array becomes an object, however small it is on the wire: Kafka 4.4 has the
# same limits for the same reason (CVE-2026-111108, CVE-2026-111115).
ARRAY_COUNT_MAX: Final = 1_000_000
STRING_BYTES_MAX: Final = 0x7FFF

# Topics and partitions of a Produce, which is parsed and served on the event loop in one piece.
# Kafka advises no more than 4,000 partitions for a whole broker.
PRODUCE_COUNT_MAX: Final = 4_000
TAG_COUNT_MAX: Final = 10_000

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_decode: Final = utf_8_decode

READ_ERRORS: Final = (struct.error, IndexError, ValueError, OverflowError)


class MalformedError(Exception):
    """The bytes are not a message of the expected type."""


@mypyc_attr(allow_interpreted_subclasses=True)  # only the hot messages are compiled
class Message:
    """The base of all generated messages: equality and repr, field by field."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def write(self, writer: Writer, version: int) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(self) is not type(other):
            return NotImplemented
        return field_values(self) == field_values(other)

    __hash__ = None  # type: ignore[assignment]  # a message is mutable

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in field_values(self).items())
        return f"{type(self).__name__}({fields})"


def field_values(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in message.__match_args__}


class Writer:
    """Bytes being written, with slices of files between them, which stay unread."""

    __slots__ = ("_parts", "_parts_size", "buffer")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._parts: list[Part] = []
        self._parts_size = 0

    @property
    def size(self) -> int:
        return self._parts_size + len(self.buffer)

    def splice(self, records: FileSlice) -> None:
        """Insert a slice of a file; `buffer` is a new one afterwards."""
        if records.size == 0:
            return
        if self.buffer:
            self._parts.append(self.buffer)
        self._parts.append(records)
        self._parts_size += len(self.buffer) + records.size
        self.buffer = bytearray()

    def finish(self) -> list[Part]:
        """Everything written, in order; the writer must not be used again."""
        if self.buffer:
            self._parts.append(self.buffer)
        return self._parts


# Reading ------------------------------------------------------------------------------------------


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    shift = 7
    for next_position in range(position + 1, position + VARINT_BYTES_MAX):
        byte = data[next_position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, next_position + 1
        shift += 7
    raise MalformedError("a varint of more than 5 bytes")


def read_string(data: Buffer, position: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(data, position)
    position += 2
    end = position + size
    if size < 0 or end > len(data):
        raise bad_size(size)
    return _decode(data[position:end], "strict", True)[0], end


def read_nullable_string(data: Buffer, position: int) -> tuple[str | None, int]:
    (size,) = _INT16.unpack_from(data, position)
    position += 2
    if size == -1:
        return None, position
    end = position + size
    if size < 0 or end > len(data):
        raise bad_size(size)
    return _decode(data[position:end], "strict", True)[0], end


def read_compact_string(data: Buffer, position: int) -> tuple[str, int]:
    size = data[position] - 1
    position += 1
    if size >= 0x7F:
        size, position = read_long_size(data, position - 1)
    end = position + size
    if size < 0 or size > STRING_BYTES_MAX or end > len(data):
        raise bad_size(size)
    return _decode(data[position:end], "strict", True)[0], end


def read_compact_nullable_string(data: Buffer, position: int) -> tuple[str | None, int]:
    if data[position] == 0:
        return None, position + 1
    return read_compact_string(data, position)


def read_bytes(data: Buffer, position: int) -> tuple[bytes, int]:
    start, end = read_extent(data, position)
    return bytes(data[start:end]), end


def read_nullable_bytes(data: Buffer, position: int) -> tuple[bytes | None, int]:
    if data[position : position + 4] == NULL_SIZE:
        return None, position + 4
    return read_bytes(data, position)


def read_compact_bytes(data: Buffer, position: int) -> tuple[bytes, int]:
    start, end = read_compact_extent(data, position)
    return bytes(data[start:end]), end


def read_compact_nullable_bytes(data: Buffer, position: int) -> tuple[bytes | None, int]:
    if data[position] == 0:
        return None, position + 1
    return read_compact_bytes(data, position)


def read_records(data: Buffer, position: int) -> tuple[Records, int]:
    """Record batches as a view of the frame; copied only if `data` is bytes."""
    start, end = read_extent(data, position)
    return view(data)[start:end], end


def read_nullable_records(data: Buffer, position: int) -> tuple[Records | None, int]:
    if data[position : position + 4] == NULL_SIZE:
        return None, position + 4
    return read_records(data, position)


def read_compact_records(data: Buffer, position: int) -> tuple[Records, int]:
    start, end = read_compact_extent(data, position)
    return view(data)[start:end], end


def read_compact_nullable_records(data: Buffer, position: int) -> tuple[Records | None, int]:
    if data[position] == 0:
        return None, position + 1
    return read_compact_records(data, position)


def read_extent(data: Buffer, position: int) -> tuple[int, int]:
    """Start and end of the bytes whose size is at `position`."""
    (size,) = _INT32.unpack_from(data, position)
    position += 4
    end = position + size
    if size < 0 or end > len(data):
        raise bad_size(size)
    return position, end


def read_compact_extent(data: Buffer, position: int) -> tuple[int, int]:
    size = data[position] - 1
    position += 1
    if size >= 0x7F:
        size, position = read_long_size(data, position - 1)
    end = position + size
    if size < 0 or end > len(data):
        raise bad_size(size)
    return position, end


def read_count(data: Buffer, position: int) -> tuple[int, int]:
    """The element count of an array, checked against the bytes left: each takes at least one."""
    (count,) = _INT32.unpack_from(data, position)
    position += 4
    if count < 0 or count > len(data) - position or count > ARRAY_COUNT_MAX:
        raise bad_size(count)
    return count, position


def read_nullable_count(data: Buffer, position: int) -> tuple[int, int]:
    """As read_count; -1 is null."""
    if data[position : position + 4] == NULL_SIZE:
        return -1, position + 4
    return read_count(data, position)


def read_compact_count(data: Buffer, position: int) -> tuple[int, int]:
    count = data[position] - 1
    position += 1
    if count >= 0x7F:
        count, position = read_long_size(data, position - 1)
        if count > ARRAY_COUNT_MAX:
            raise bad_size(count)
    if count < 0 or count > len(data) - position:
        raise bad_size(count)
    return count, position


def read_compact_nullable_count(data: Buffer, position: int) -> tuple[int, int]:
    if data[position] == 0:
        return -1, position + 1
    return read_compact_count(data, position)


def read_long_size(data: Buffer, position: int) -> tuple[int, int]:
    """A compact size or count of more than one byte."""
    size, position = read_uvarint(data, position)
    return size - 1, position


def read_numbers(data: Buffer, position: int, count: int, code: str) -> tuple[list[int], int]:
    """`count` integers of one width; `code` is struct's letter for it."""
    layout = f">{count}{code}"  # struct caches the last hundred compiled formats
    return list(struct.unpack_from(layout, data, position)), position + struct.calcsize(layout)


def read_uuids(data: Buffer, position: int, count: int) -> tuple[list[bytes], int]:
    end = position + 16 * count
    if end > len(data):
        raise bad_size(count)
    return [bytes(data[start : start + 16]) for start in range(position, end, 16)], end


def read_strings(data: Buffer, position: int, count: int) -> tuple[list[str], int]:
    strings = []
    for _ in range(count):
        string, position = read_string(data, position)
        strings.append(string)
    return strings, position


def read_compact_strings(data: Buffer, position: int, count: int) -> tuple[list[str], int]:
    strings = []
    for _ in range(count):
        string, position = read_compact_string(data, position)
        strings.append(string)
    return strings, position


def read_presence(data: Buffer, position: int) -> tuple[bool, int]:
    """Whether a nullable struct follows (KIP-893): a signed byte, negative for null."""
    return data[position] < 0x80, position + 1


def read_tag_count(data: Buffer, position: int) -> tuple[int, int]:
    """The number of tagged fields that follow."""
    count, position = read_uvarint(data, position)
    if count > TAG_COUNT_MAX:
        raise bad_size(count)
    return count, position


def read_tag(data: Buffer, position: int) -> tuple[int, int, int]:
    """A tagged field's tag, and the start and end of its value."""
    tag, position = read_uvarint(data, position)
    size, position = read_uvarint(data, position)
    end = position + size
    if end > len(data):
        raise bad_size(size)
    return tag, position, end


def skip_tags(data: Buffer, position: int) -> int:
    """Skip tagged fields that this version does not know."""
    count, position = read_tag_count(data, position)
    for _ in range(count):
        _, _, position = read_tag(data, position)
    return position


def view(data: Buffer) -> Buffer:
    """`data` such that slices share its memory: a bytearray as a memoryview."""
    return memoryview(data) if type(data) is bytearray else data


def bad_size(size: int) -> MalformedError:
    return MalformedError(f"a length or count of {size}: more than is left, or than there may be")


# Writing ------------------------------------------------------------------------------------------


def write_uvarint(buffer: bytearray, value: int) -> None:
    while value > 0x7F:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)


def write_string(buffer: bytearray, value: str) -> None:
    encoded = value.encode()
    buffer += _INT16.pack(len(encoded))
    buffer += encoded


def write_nullable_string(buffer: bytearray, value: str | None) -> None:
    if value is None:
        buffer += b"\xff\xff"
    else:
        write_string(buffer, value)


def write_compact_string(buffer: bytearray, value: str) -> None:
    encoded = value.encode()
    size = len(encoded) + 1
    if size < 0x80:
        buffer.append(size)
    else:
        write_uvarint(buffer, size)
    buffer += encoded


def write_compact_nullable_string(buffer: bytearray, value: str | None) -> None:
    if value is None:
        buffer.append(0)
    else:
        write_compact_string(buffer, value)


def write_bytes(buffer: bytearray, value: bytes) -> None:
    buffer += _INT32.pack(len(value))
    buffer += value


def write_nullable_bytes(buffer: bytearray, value: bytes | None) -> None:
    if value is None:
        buffer += NULL_SIZE
    else:
        write_bytes(buffer, value)


def write_compact_bytes(buffer: bytearray, value: bytes) -> None:
    write_uvarint(buffer, len(value) + 1)
    buffer += value


def write_compact_nullable_bytes(buffer: bytearray, value: bytes | None) -> None:
    if value is None:
        buffer.append(0)
    else:
        write_compact_bytes(buffer, value)


def write_records(writer: Writer, records: Records) -> None:
    """Record batches. The writer has a new buffer afterwards if they are in a file."""
    writer.buffer += _INT32.pack(len(records))
    write_raw(writer, records)


def write_nullable_records(writer: Writer, records: Records | None) -> None:
    if records is None:
        writer.buffer += NULL_SIZE
    else:
        write_records(writer, records)


def write_compact_records(writer: Writer, records: Records) -> None:
    write_uvarint(writer.buffer, len(records) + 1)
    write_raw(writer, records)


def write_compact_nullable_records(writer: Writer, records: Records | None) -> None:
    if records is None:
        writer.buffer.append(0)
    else:
        write_compact_records(writer, records)


def write_raw(writer: Writer, records: Records) -> None:
    if isinstance(records, FileSlice):
        writer.splice(records)
    else:
        writer.buffer += records


def write_count(buffer: bytearray, count: int) -> None:
    """The number of elements that follow; -1 is null."""
    buffer += _INT32.pack(count)


def write_compact_count(buffer: bytearray, count: int) -> None:
    count += 1
    if count < 0x80:
        buffer.append(count)
    else:
        write_uvarint(buffer, count)


def write_numbers(buffer: bytearray, numbers: Sequence[int], code: str) -> None:
    buffer += struct.pack(f">{len(numbers)}{code}", *numbers)


def write_uuids(buffer: bytearray, uuids: Sequence[bytes]) -> None:
    for uuid in uuids:
        assert len(uuid) == 16
        buffer += uuid


def write_strings(buffer: bytearray, strings: Sequence[str]) -> None:
    for string in strings:
        write_string(buffer, string)


def write_compact_strings(buffer: bytearray, strings: Sequence[str]) -> None:
    for string in strings:
        write_compact_string(buffer, string)


def write_tags(buffer: bytearray, tags: Sequence[tuple[int, Writer]]) -> None:
    """Tagged fields, in ascending order of their tags."""
    write_uvarint(buffer, len(tags))
    for tag, value in tags:
        write_uvarint(buffer, tag)
        write_uvarint(buffer, len(value.buffer))
        buffer += value.buffer
