"""What the records of a batch name as their schemas, read without making records of them.

A frame is the bytes in which a key or a value names its schema (see `ottla.schemas.framing`): the
first five, 17 with a GUID, or those of a header. A null has none. What names no schema is a frame,
too, and of no schema.
"""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import RECORD_SIZE_MIN, Record, read_varint

ID_SIZE = 5
GUID_SIZE = 17
GUID_MAGIC = 1
FRAMED = 2 * ID_SIZE  # the least size of what has an id, in zig-zag
HEADER_END = b"_schema_id"  # of both headers
KEY_HEADER = "__key_schema_id"
VALUE_HEADER = "__value_schema_id"


def distinct_frames(
    payload: bytes, count: int, *, keys: bool, values: bool
) -> tuple[set[bytes], set[bytes]] | None:
    """HOT. The frames of the keys and of the values of `count` records, as far as they are wanted.

    None if headers may have some: `frames_of` knows. Varints are read in place, because a call
    costs as much as the rest of a record.
    """
    if count < 0 or count * RECORD_SIZE_MIN > len(payload):
        raise _invalid(f"{count} records in {len(payload)} bytes")
    key_frames: set[bytes] = set()
    value_frames: set[bytes] = set()
    key_frame = value_frame = b"\0"  # the last one: most are like the one before
    looked_at_headers = False
    position = 0
    try:
        for _ in range(count):
            size = payload[position]
            position += 1
            if size > 0x7F:
                size += (payload[position] << 7) - 0x80
                position += 1
                if size > 0x3FFF:
                    size, position = _large(payload, position - 2)
            end = position + (size >> 1)
            if size & 1:
                raise _invalid("record length")
            position += 1  # attributes
            while payload[position] > 0x7F:  # timestamp
                position += 1
            position += 1
            while payload[position] > 0x7F:  # offset
                position += 1
            position += 1
            size = payload[position]
            position += 1
            if size > 0x7F:
                size += (payload[position] << 7) - 0x80
                position += 1
                if size > 0x3FFF:
                    size, position = _large(payload, position - 2)
            if not size & 1:
                if keys and (payload[position : position + ID_SIZE] != key_frame or size < FRAMED):
                    key_frame = _added(key_frames, payload, position, size >> 1)
                position += size >> 1
            size = payload[position]
            position += 1
            if size > 0x7F:
                size += (payload[position] << 7) - 0x80
                position += 1
                if size > 0x3FFF:
                    size, position = _large(payload, position - 2)
            if not size & 1:
                if values and (
                    payload[position : position + ID_SIZE] != value_frame or size < FRAMED
                ):
                    value_frame = _added(value_frames, payload, position, size >> 1)
                position += size >> 1
            if payload[position] and not looked_at_headers:
                if HEADER_END in payload:
                    return None
                looked_at_headers = True
            if position >= end:
                raise _invalid("record size")
            position = end
    except IndexError:
        raise _invalid("a record is cut off") from None
    if position != len(payload):
        raise _invalid("bytes after the last record")
    return key_frames, value_frames


def frames_of(record: Record) -> tuple[bytes | None, bytes | None]:
    """The frames of one record's key and value, its headers' first."""
    key = None if record.key is None else _frame(record.key, 0, len(record.key))
    value = None if record.value is None else _frame(record.value, 0, len(record.value))
    for name, data in record.headers:
        if data is not None and name == KEY_HEADER and key is not None:
            key = _frame(data, 0, len(data))
        elif data is not None and name == VALUE_HEADER and value is not None:
            value = _frame(data, 0, len(data))
    return key, value


def _frame(data: bytes, position: int, size: int) -> bytes:
    wanted = GUID_SIZE if size and data[position] == GUID_MAGIC else ID_SIZE
    return data[position : position + min(size, wanted)]


def _added(frames: set[bytes], payload: bytes, position: int, size: int) -> bytes:
    """The frame that is now in the set. A GUID's differs from all that five bytes can be."""
    frame = _frame(payload, position, size)
    frames.add(frame)
    return frame if len(frame) == ID_SIZE and not frame[0] else b"\0"


def _large(payload: bytes, position: int) -> tuple[int, int]:
    """A varint of three bytes or more, as it was before zig-zag: the lowest bit is its sign."""
    number, position = read_varint(payload, position)
    return (number << 1) ^ (number >> 31), position


def _invalid(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"malformed records: {what}")
