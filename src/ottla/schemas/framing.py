"""Confluent's wire format: how a record names its schema.

    0x00  id (4 bytes, big-endian)  payload
    0x01  GUID (16 bytes)           payload

The same bytes without a payload may be a header of the record, `__key_schema_id` or
`__value_schema_id`; the key or value is then the bare payload. A Protobuf payload follows the
indexes of its message in the file: zig-zag varints, the count first, and a single 0 for `[0]`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

ID_MAGIC: Final = 0
GUID_MAGIC: Final = 1
ID_FRAME: Final = struct.Struct(">BI")
GUID_BYTES: Final = 16
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
INDEXES_MAX: Final = 64  # messages do not nest deeper


class FramingError(ValueError):
    """Bytes without a schema id."""


class RecordSchemaId(NamedTuple):
    """A schema's id, or its GUID if that is not empty."""

    id: int
    guid: str = ""

    def __str__(self) -> str:
        return f"schema {self.guid}" if self.guid else f"schema id {self.id}"


def with_id(id: int, payload: bytes) -> bytes:
    return ID_FRAME.pack(ID_MAGIC, id) + payload


def with_guid(guid: str, payload: bytes) -> bytes:
    return bytes((GUID_MAGIC,)) + uuid.UUID(guid).bytes + payload


def split_frame(data: bytes) -> tuple[RecordSchemaId, int]:
    """The schema's id and the start of the payload; FramingError if the bytes have none."""
    if not data:
        raise FramingError("no bytes: a record with a schema begins with its id")
    if data[0] == ID_MAGIC and len(data) >= ID_FRAME.size:
        return RecordSchemaId(ID_FRAME.unpack_from(data)[1]), ID_FRAME.size
    if data[0] == GUID_MAGIC and len(data) > GUID_BYTES:
        guid = uuid.UUID(bytes=bytes(data[1 : GUID_BYTES + 1]))
        return RecordSchemaId(0, str(guid)), GUID_BYTES + 1
    raise FramingError(
        f"{len(data)} bytes, the first is 0x{data[0]:02x}: a record with a schema begins with"
        " 0x00 and an id of four bytes, or with 0x01 and a GUID"
    )


def indexes_bytes(indexes: Sequence[int]) -> bytes:
    """The path to a message within its .proto file."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def read_indexes(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """The path to the message, and the start of its payload."""
    count, position = _read_varint(data, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= INDEXES_MAX:
        raise FramingError(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        if index < 0:
            raise FramingError(f"message index {index}")
        indexes.append(index)
    return tuple(indexes), position


def _varint(number: int) -> bytes:
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 28:
            raise FramingError("the message indexes do not end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
