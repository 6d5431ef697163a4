"""Records inside a batch: read where they must be checked, written for the broker's own batches.

    length          varint   of the rest
    attributes      i8       none defined
    timestamp delta varlong  to the batch's base timestamp
    offset delta    varint   to the batch's base offset
    key             varint length, bytes; -1 = null
    value           varint length, bytes; -1 = null
    headers         varint count; each a name (varint length, UTF-8) and a value as above

Varints are zigzag: 0, -1, 1, -2 are written as 0, 1, 2, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.records.checksum import Buffer
from ottla.records.compression import DECOMPRESSED_SIZE_MAX, decompress

if TYPE_CHECKING:
    from ottla.records.batch import BatchHeader

RECORD_SIZE_MIN = 7  # a length, and six fields of one byte each
VARINT_BITS_MAX = 35  # five groups of seven hold 32 bits
VARLONG_BITS_MAX = 70
INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
_PAYLOAD_POSITION = 61  # batch.BATCH_OVERHEAD; batch.py imports this module


class RecordErrors(KafkaError):
    """INVALID_RECORD, with the index and the error of each bad record in the batch (KIP-467)."""

    def __init__(self, records: list[tuple[int, str]]) -> None:
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{len(records)} records were refused, the first because: {records[0][1]}",
        )
        self.records = records


class Record:
    """One record with its absolute offset and timestamp."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int = -1,
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = [] if headers is None else headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    __hash__ = None  # type: ignore[assignment]  # records are mutable

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp},"
            f" key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


def read_records(
    data: Buffer, header: BatchHeader, *, size_max: int = DECOMPRESSED_SIZE_MAX
) -> list[Record]:
    """The records of the batch that `header` was read from, at its position in `data`.

    INVALID_RECORD for records that contradict themselves or the header, CORRUPT_MESSAGE for a
    payload that does not unpack or is not all there, MESSAGE_TOO_LARGE for more than `size_max`.
    """
    return parse_records(read_payload(data, header, size_max=size_max), header)


def parse_records(payload: bytes, header: BatchHeader) -> list[Record]:
    """The records of a batch from its decompressed payload."""
    _check_count(header.record_count, len(payload))
    records = _parse(payload, header.record_count, header.base_offset, header.base_timestamp)
    if records and records[-1].offset > header.last_offset:
        raise _invalid("offset delta beyond the batch's last")
    if header.log_append_time:
        for record in records:
            record.timestamp = header.max_timestamp
    return records


def _parse(payload: bytes, count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    """Reads each varint's first byte in place: most have no second, and a call costs more."""
    payload_size = len(payload)
    delta_last = -1
    records: list[Record] = []
    position = 0
    try:
        for _ in range(count):
            length = payload[position]
            position += 1
            if length > 0x7F:
                length, position = _varint(payload, position, length)
            end = position + (length >> 1)
            if length & 1 or end > payload_size:
                raise _invalid("record length")
            timestamp_delta = payload[position + 1]  # after the attributes
            position += 2
            if timestamp_delta > 0x7F:
                timestamp_delta, position = _varlong(payload, position, timestamp_delta)
            timestamp = base_timestamp + ((timestamp_delta >> 1) ^ -(timestamp_delta & 1))
            if not INT64_MIN <= timestamp <= INT64_MAX:
                timestamp = _wrapped(timestamp)
            delta = payload[position]
            position += 1
            if delta > 0x7F:
                delta, position = _varint(payload, position, delta)
            delta = (delta >> 1) ^ -(delta & 1)
            if delta <= delta_last:
                raise _invalid("offset delta")
            delta_last = delta
            size = payload[position]
            position += 1
            if size > 0x7F:
                size, position = _varint(payload, position, size)
            key: bytes | None = None
            if not size & 1:
                start = position
                position += size >> 1
                key = payload[start:position]
            size = payload[position]
            position += 1
            if size > 0x7F:
                size, position = _varint(payload, position, size)
            value: bytes | None = None
            if not size & 1:
                start = position
                position += size >> 1
                value = payload[start:position]
            headers: list[tuple[str, bytes | None]] = []
            if payload[position]:
                position = _read_headers(payload, position, headers)
            else:
                position += 1
            if position != end:
                raise _invalid("record size")
            records.append(Record(base_offset + delta, timestamp, key, value, headers))
    except IndexError:
        raise _invalid("a record is cut off") from None
    if position != payload_size:
        raise _invalid("bytes after the last record")
    return records


def check_keys(data: Buffer, header: BatchHeader, *, size_max: int = DECOMPRESSED_SIZE_MAX) -> None:
    """A compacted topic refuses records without a key, and so every batch that has one.

    Produce names the records from v8 on: `RecordErrors.records` holds them.
    """
    indexes = records_without_key(data, header, size_max=size_max)
    if indexes:
        raise RecordErrors([(index, "a compacted topic needs a key") for index in indexes])


def records_without_key(
    data: Buffer, header: BatchHeader, *, size_max: int = DECOMPRESSED_SIZE_MAX
) -> list[int]:
    """The indexes, from 0, of a batch's records that have no key."""
    payload = read_payload(data, header, size_max=size_max)
    _check_count(header.record_count, len(payload))
    indexes: list[int] = []
    position = 0
    try:
        for index in range(header.record_count):
            length, position = read_varint(payload, position)
            end = position + length
            if length < 0 or end > len(payload):
                raise _invalid("record length")
            _, position = read_varlong(payload, position + 1)
            _, position = read_varint(payload, position)
            size, position = read_varint(payload, position)
            if size < 0:
                indexes.append(index)
            elif position + size > end:
                raise _invalid("key length")
            position = end
    except IndexError:
        raise _invalid("a record is cut off") from None
    if position != len(payload):
        raise _invalid("bytes after the last record")
    return indexes


def read_payload(
    data: Buffer, header: BatchHeader, *, size_max: int = DECOMPRESSED_SIZE_MAX
) -> bytes:
    """The decompressed records of a batch."""
    start = header.position + _PAYLOAD_POSITION
    end = header.position + header.size
    if end > len(data) or start > end:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch is cut off")
    return decompress(header.compression, memoryview(data)[start:end], size_max=size_max)


def write_records(
    records: Sequence[Record], offset_deltas: Iterable[int], base_timestamp: int
) -> bytes:
    """The payload of a batch, uncompressed: one record after the other."""
    payload = bytearray()
    for record, offset_delta in zip(records, offset_deltas, strict=True):
        body = bytearray(1)  # attributes
        write_varint(body, _wrapped(record.timestamp - base_timestamp))
        write_varint(body, offset_delta)
        _write_bytes(body, record.key)
        _write_bytes(body, record.value)
        write_varint(body, len(record.headers))
        for name, value in record.headers:
            _write_bytes(body, name.encode("utf-8", "surrogateescape"))
            _write_bytes(body, value)
        write_varint(payload, len(body))
        payload += body
    return bytes(payload)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A signed number of at most 32 bits, and the position after it; IndexError past the end."""
    number = data[position]
    position += 1
    if number > 0x7F:
        number, position = _varint(data, position, number)
    return (number >> 1) ^ -(number & 1), position


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """A signed number of at most 64 bits, and the position after it; IndexError past the end."""
    number = data[position]
    position += 1
    if number > 0x7F:
        number, position = _varlong(data, position, number)
    return (number >> 1) ^ -(number & 1), position


def write_varint(out: bytearray, number: int) -> None:
    """Varint and varlong are written the same way."""
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _varint(data: bytes, position: int, number: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, `number`, has the continuation bit."""
    number &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFF, position
        shift += 7
        if shift >= VARINT_BITS_MAX:
            raise _invalid("a varint of more than five bytes")


def _varlong(data: bytes, position: int, number: int) -> tuple[int, int]:
    number &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= VARLONG_BITS_MAX:
            raise _invalid("a varlong of more than ten bytes")


def _read_headers(payload: bytes, position: int, headers: list[tuple[str, bytes | None]]) -> int:
    """Append the headers at `position` to `headers`; returns the position after them.

    A name that is not UTF-8 keeps its bytes as surrogates, so that writing it gives them back.
    """
    count, position = read_varint(payload, position)
    if count < 0 or count > len(payload) - position:
        raise _invalid("header count")
    for _ in range(count):
        size, position = read_varint(payload, position)
        end = position + size
        if size < 0 or end > len(payload):
            raise _invalid("header name")
        name = payload[position:end].decode("utf-8", "surrogateescape")
        size, position = read_varint(payload, end)
        if size < 0:
            headers.append((name, None))
            continue
        end = position + size
        headers.append((name, payload[position:end]))
        position = end
    return position


def _wrapped(number: int) -> int:
    """Wrap to 64 bits: the smallest and the largest timestamp are -1 apart, not 2^64 - 1."""
    return ((number - INT64_MIN) & 0xFFFFFFFFFFFFFFFF) + INT64_MIN


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # -1
        return
    write_varint(out, len(data))
    out += data


def _check_count(count: int, size: int) -> None:
    """Refuse a count that the payload cannot hold, before anything is allocated for it."""
    if count < 0 or count * RECORD_SIZE_MIN > size:
        raise _invalid(f"{count} records in {size} bytes")


def _invalid(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"malformed records: {what}")
