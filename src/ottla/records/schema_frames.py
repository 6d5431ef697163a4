"""The schema ids in the records of a batch, read without building the records.

A frame is the bytes in which a key or a value names its schema (see `ottla.schemas.framing`): the
first five, 17 with a GUID, or those of a header. A null has none. What names no schema is a frame,
too, and of no schema.
"""

from __future__ import annotations

from mypy_extensions import i64

from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import RECORD_SIZE_MIN, Record, read_varint

ID_SIZE = 5
GUID_SIZE = 17
GUID_MAGIC = 1
FRAMED = 2 * ID_SIZE  # the least size of a key or value that has an id, in zigzag
HEADER_END = b"_schema_id"  # of both headers
KEY_HEADER = "__key_schema_id"
VALUE_HEADER = "__value_schema_id"
KEY_NAME = b"__key_schema_id"
VALUE_NAME = b"__value_schema_id"
VARINT_BITS_MAX = 35


def distinct_schema_frames(
    payload: bytes, count: int, *, keys: bool, values: bool
) -> tuple[set[bytes], set[bytes]]:
    """HOT. The distinct frames of the keys and of the values of `count` records.

    Varints are read in place, because a call costs as much as the rest of a record.
    """
    if count < 0 or count * RECORD_SIZE_MIN > len(payload):
        raise _invalid(f"{count} records in {len(payload)} bytes")
    key_frames: set[bytes] = set()
    value_frames: set[bytes] = set()
    key_frame = value_frame = b"\0"  # the last one: most records have the same as the one before
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
                    return _HeadedRecords(payload).frames(count, keys, values)
                looked_at_headers = True
            if position >= end:
                raise _invalid("record size")
            position = end
    except IndexError:
        raise _invalid("a record is cut off") from None
    if position != len(payload):
        raise _invalid("bytes after the last record")
    return key_frames, value_frames


class _HeadedRecords:
    """HOT. The same for records of which some name their schemas in headers."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.position: i64 = 0
        self.key_at: i64 = 0
        self.key_size: i64 = 0
        self.value_at: i64 = 0
        self.value_size: i64 = 0

    def frames(self, count: int, keys: bool, values: bool) -> tuple[set[bytes], set[bytes]]:
        key_frames: set[bytes] = set()
        value_frames: set[bytes] = set()
        last_key = last_value = b""  # most records have the same as the one before
        try:
            for _ in range(count):
                self.next_record()
                if keys and self.key_size >= 0:
                    frame = _frame(self.payload, self.key_at, self.key_size)
                    if frame != last_key or not frame:
                        key_frames.add(frame)
                        last_key = frame
                if values and self.value_size >= 0:
                    frame = _frame(self.payload, self.value_at, self.value_size)
                    if frame != last_value or not frame:
                        value_frames.add(frame)
                        last_value = frame
        except IndexError:
            raise _invalid("a record is cut off") from None
        if self.position != len(self.payload):
            raise _invalid("bytes after the last record")
        return key_frames, value_frames

    def next_record(self) -> None:
        """Find the schema ids of the record's key and value; a null has the size -1."""
        payload = self.payload
        size = self.varint()
        end: i64 = self.position + (size >> 1)
        if size & 1 or end > len(payload):
            raise _invalid("record length")
        position: i64 = self.position + 1  # after the attributes
        for _ in range(2):  # timestamp, offset
            while payload[position] > 0x7F:
                position += 1
            position += 1
        self.position = position
        self.key_size = self.sized()
        self.key_at = self.position - max(0, self.key_size)
        self.value_size = self.sized()
        self.value_at = self.position - max(0, self.value_size)
        count = self.varint()
        if count & 1:
            raise _invalid("header count")
        for _ in range(count >> 1):
            self.read_header()
            if self.position > end:
                raise _invalid("a header ends behind its record")
        if self.position != end:
            raise _invalid("record size")

    def read_header(self) -> None:
        name_size = self.sized()
        name_at: i64 = self.position - name_size
        size = self.sized()
        if name_size < 0:
            raise _invalid("header name")
        at: i64 = self.position - size
        if size < 0:
            return
        if name_size == len(VALUE_NAME) and self.value_size >= 0:
            if self.payload[name_at : name_at + name_size] == VALUE_NAME:
                self.value_at, self.value_size = at, size
        elif (
            name_size == len(KEY_NAME)
            and self.key_size >= 0
            and self.payload[name_at : name_at + name_size] == KEY_NAME
        ):
            self.key_at, self.key_size = at, size

    def sized(self) -> i64:
        """The size of the field at this position, and the position after it; -1 for null."""
        size = self.varint()
        if size & 1:
            return -1
        self.position += size >> 1
        return size >> 1

    def varint(self) -> i64:
        """Undo zigzag: the lowest bit is the sign."""
        number: i64 = self.payload[self.position]
        self.position += 1
        if number < 0x80:
            return number
        number &= 0x7F
        shift: i64 = 7
        while True:
            byte: i64 = self.payload[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift >= VARINT_BITS_MAX:
                raise _invalid("a varint of more than five bytes")


def frames_of(record: Record) -> tuple[bytes | None, bytes | None]:
    """The frames of one record's key and value; headers win over prefixes."""
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
    """Add a frame to the set and return it. A GUID's frame differs from any five bytes."""
    frame = _frame(payload, position, size)
    frames.add(frame)
    return frame if len(frame) == ID_SIZE and not frame[0] else b"\0"


def _large(payload: bytes, position: int) -> tuple[int, int]:
    """A varint of three bytes or more, with zigzag undone: the lowest bit is the sign."""
    number, position = read_varint(payload, position)
    return (number << 1) ^ (number >> 31), position


def _invalid(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"malformed records: {what}")
