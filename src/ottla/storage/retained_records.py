"""Which records of a batch the cleaner retains, by a table of the last place of each key. HOT.

Every record of a dirty segment passes through `index_keys`, which fills the table: key -> place of
the key's last record. The sorted places then say which records of the same batches to retain, often
none or all, without reading a key again. Only segments that were clean before are asked key by key.

A place is twice the offset, and one more for a tombstone.

No object is made for a record but its key. What is retained of a batch is a list of byte ranges of
its payload, because offsets, deltas and headers of the records that stay do not change. Numbers are
i64, which mypyc compiles to machine integers and the interpreter takes for int.
"""

from __future__ import annotations

from hashlib import blake2b

from mypy_extensions import i64

from ottla.errors import ErrorCode, KafkaError

# The table holds keys up to this size as they are, and a hash of longer ones. The hash is one byte
# longer than that, so it never equals another record's key. It is cryptographic: with MD5, which
# Kafka's cleaner uses, a client could write a key that has another key's hash, and so delete that
# key's record.
KEY_SIZE_MAX = 32
HASH_SIZE = KEY_SIZE_MAX + 1

# The most that a key costs in the table, as measured by tests/storage/test_retained_records.py: the
# key's bytes object, the place's int, and its share of a dict that has just grown and of the sorted
# list.
ENTRY_SIZE = 200

TOMBSTONE_BIT = 1
NOWHERE = -1
NO_DELTA = -(1 << 63)
_VARINT_SHIFT_MAX = 63


class RetainedRecords:
    """The records of one batch that a cleaning retains."""

    __slots__ = ("count", "keyless", "max_timestamp_delta", "ranges", "tombstones")

    def __init__(self) -> None:
        self.count = 0  # records
        self.keyless = 0  # records that were removed because they have no key
        self.tombstones = False  # True if there is one among them
        self.max_timestamp_delta = NO_DELTA
        self.ranges: list[tuple[int, int]] = []  # start and end in the payload; neighbours joined

    def note(self, timestamp_delta: i64) -> None:
        """Count one more, with its timestamp delta in zigzag encoding."""
        self.count += 1
        delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
        if delta > self.max_timestamp_delta:
            self.max_timestamp_delta = delta


def stored_key(key: bytes) -> bytes:
    """The table's entry for a key: the key itself, or its hash."""
    return key if len(key) <= KEY_SIZE_MAX else blake2b(key, digest_size=HASH_SIZE).digest()


def index_keys(
    payload: bytes, count: i64, base_offset: i64, start_offset: i64, places: dict[bytes, int]
) -> int:
    """Enter the place of each key's last record, from `start_offset` on.

    Returns how many records have no key.
    """
    payload_size: i64 = len(payload)
    position: i64 = 0
    keyless = 0
    try:
        for _ in range(count):
            length: i64 = payload[position]
            position += 1
            if length > 0x7F:
                length, position = _long_varint(payload, position, length)
            end: i64 = position + (length >> 1)
            if length & 1 or end > payload_size:
                raise _malformed("record length")
            position += 1  # attributes
            while payload[position] > 0x7F:  # skip the timestamp delta
                position += 1
            delta: i64 = payload[position + 1]
            position += 2
            if delta > 0x7F:
                delta, position = _long_varint(payload, position, delta)
            size: i64 = payload[position]
            position += 1
            if size > 0x7F:
                size, position = _long_varint(payload, position, size)
            if size & 1:
                keyless += 1
            else:
                key_end: i64 = position + (size >> 1)
                if key_end >= end:
                    raise _malformed("key length")
                offset: i64 = base_offset + (delta >> 1)
                if offset >= start_offset:
                    key = payload[position:key_end]
                    if key_end - position > KEY_SIZE_MAX:
                        key = stored_key(key)
                    places[key] = (offset << 1) | (payload[key_end] & 1)  # a value of length -1
            position = end
    except IndexError:
        raise _malformed("a record is cut off") from None
    if position != payload_size:
        raise _malformed("bytes after the last record")
    return keyless


def pick_records(
    payload: bytes, count: i64, base_offset: i64, offsets: list[int]
) -> RetainedRecords:
    """Retain the records with these offsets, which are sorted and must all be there."""
    retained = RetainedRecords()
    wanted_count: i64 = len(offsets)
    wanted_slot: i64 = 0
    wanted: i64 = offsets[0]
    kept_start: i64 = 0  # of the range that is growing
    payload_size: i64 = len(payload)
    position: i64 = 0
    try:
        for _ in range(count):
            start: i64 = position
            length: i64 = payload[position]
            position += 1
            if length > 0x7F:
                length, position = _long_varint(payload, position, length)
            end: i64 = position + (length >> 1)
            if length & 1 or end > payload_size:
                raise _malformed("record length")
            timestamp_delta: i64 = payload[position + 1]  # after the attributes
            position += 2
            if timestamp_delta > 0x7F:
                timestamp_delta, position = _long_varint(payload, position, timestamp_delta)
            delta: i64 = payload[position]
            position += 1
            if delta > 0x7F:
                delta, position = _long_varint(payload, position, delta)
            if base_offset + (delta >> 1) == wanted:
                retained.note(timestamp_delta)
                wanted_slot += 1
                wanted = offsets[wanted_slot] if wanted_slot < wanted_count else NOWHERE
            else:
                if kept_start < start:
                    retained.ranges.append((kept_start, start))
                kept_start = end
            position = end
    except IndexError:
        raise _malformed("a record is cut off") from None
    if kept_start < position:
        retained.ranges.append((kept_start, position))
    return retained


def filter_records(
    payload: bytes, count: i64, base_offset: i64, places: dict[bytes, int], drop_tombstones: bool
) -> RetainedRecords:
    """Retain the records whose key has no later place in the table."""
    retained = RetainedRecords()
    kept_start: i64 = 0  # of the range that is growing
    payload_size: i64 = len(payload)
    position: i64 = 0
    try:
        for _ in range(count):
            start: i64 = position
            length: i64 = payload[position]
            position += 1
            if length > 0x7F:
                length, position = _long_varint(payload, position, length)
            end: i64 = position + (length >> 1)
            if length & 1 or end > payload_size:
                raise _malformed("record length")
            timestamp_delta: i64 = payload[position + 1]  # after the attributes
            position += 2
            if timestamp_delta > 0x7F:
                timestamp_delta, position = _long_varint(payload, position, timestamp_delta)
            delta: i64 = payload[position]
            position += 1
            if delta > 0x7F:
                delta, position = _long_varint(payload, position, delta)
            size: i64 = payload[position]
            position += 1
            if size > 0x7F:
                size, position = _long_varint(payload, position, size)
            wanted = False
            if size & 1:
                retained.keyless += 1
            else:
                key_end: i64 = position + (size >> 1)
                if key_end >= end:
                    raise _malformed("key length")
                key = payload[position:key_end]
                if key_end - position > KEY_SIZE_MAX:
                    key = stored_key(key)
                wanted = base_offset + (delta >> 1) >= places.get(key, NOWHERE) >> 1
                if wanted and payload[key_end] & 1:  # a value of length -1: a tombstone
                    wanted = not drop_tombstones
                    retained.tombstones = retained.tombstones or wanted
            if wanted:
                retained.note(timestamp_delta)
            else:
                if kept_start < start:
                    retained.ranges.append((kept_start, start))
                kept_start = end
            position = end
    except IndexError:
        raise _malformed("a record is cut off") from None
    if kept_start < position:
        retained.ranges.append((kept_start, position))
    return retained


def _long_varint(data: bytes, position: i64, number: i64) -> tuple[i64, i64]:
    """The rest of an unsigned varint or varlong whose first byte has the continuation bit."""
    number &= 0x7F
    shift: i64 = 7
    while True:
        byte: i64 = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise _malformed("a varint of more than ten bytes")


def _malformed(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"malformed records: {what}")
