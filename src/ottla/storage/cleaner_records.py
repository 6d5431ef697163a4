"""The cleaner's look into batches: keys into a table, and which records are still wanted. HOT.

Every record of a log that is cleaned passes here twice. Nothing is made for a record but its key:
what is kept of a batch is kept as ranges of its payload, since offsets, deltas and headers of the
records that stay do not change.
"""

from __future__ import annotations

from hashlib import blake2b

from ottla.errors import ErrorCode, KafkaError

# Keys up to this size are held as they are; of longer ones a hash that is one byte longer, so that
# it never is another record's key. It is a cryptographic one: nobody can make two keys of one hash,
# which with MD5 they could, and have one record deleted by writing another.
KEY_SIZE_MAX = 32
HASH_SIZE = KEY_SIZE_MAX + 1

# What a key costs in the table, at most and by measurement (tests/storage/test_cleaner_records.py):
# the key's bytes object, the offset's int, and its share of a dict that is at its fullest or has
# just grown.
ENTRY_SIZE = 200

NO_DELTA = -(1 << 63)
_VARINT_SHIFT_MAX = 63


class Kept:
    """What of a batch's payload is still wanted."""

    __slots__ = ("count", "keyless", "max_timestamp_delta", "ranges", "tombstones")

    def __init__(self) -> None:
        self.count = 0  # records
        self.keyless = 0  # records that were dropped because they have no key
        self.tombstones = False  # among those that are kept
        self.max_timestamp_delta = NO_DELTA  # of those that are kept
        self.ranges: list[tuple[int, int]] = []  # start and end in the payload; neighbours joined

    def note(self, timestamp_delta: int) -> None:
        """One more, with its timestamp as it is written."""
        self.count += 1
        delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
        if delta > self.max_timestamp_delta:
            self.max_timestamp_delta = delta


def stored_key(key: bytes) -> bytes:
    """What stands for a key in the table."""
    return key if len(key) <= KEY_SIZE_MAX else blake2b(key, digest_size=HASH_SIZE).digest()


def index_keys(
    payload: bytes, count: int, base_offset: int, start_offset: int, offsets: dict[bytes, int]
) -> None:
    """Note the offset of each key's last record; records before `start_offset` do not count."""
    payload_size = len(payload)
    position = 0
    try:
        for _ in range(count):
            length = payload[position]
            position += 1
            if length > 0x7F:
                length, position = _long_varint(payload, position, length)
            end = position + (length >> 1)
            if length & 1 or end > payload_size:
                raise _malformed("record length")
            position += 1  # attributes
            while payload[position] > 0x7F:  # the timestamp delta is of no interest here
                position += 1
            delta = payload[position + 1]
            position += 2
            if delta > 0x7F:
                delta, position = _long_varint(payload, position, delta)
            size = payload[position]
            position += 1
            if size > 0x7F:
                size, position = _long_varint(payload, position, size)
            if not size & 1:
                key_end = position + (size >> 1)
                if key_end > end:
                    raise _malformed("key length")
                offset = base_offset + (delta >> 1)
                if offset >= start_offset:
                    key = payload[position:key_end]
                    if key_end - position > KEY_SIZE_MAX:
                        key = stored_key(key)
                    offsets[key] = offset
            position = end
    except IndexError:
        raise _malformed("a record is cut off") from None
    if position != payload_size:
        raise _malformed("bytes after the last record")


def filter_records(
    payload: bytes,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    latest_offset: int,
    drop_tombstones: bool,
) -> Kept:
    """The records that are the last of their key, as far as the table knows.

    It knows nothing of what is behind `latest_offset`, and all of that stays.
    """
    kept = Kept()
    kept_start = 0  # of the range that is growing
    payload_size = len(payload)
    position = 0
    try:
        for _ in range(count):
            start = position
            length = payload[position]
            position += 1
            if length > 0x7F:
                length, position = _long_varint(payload, position, length)
            end = position + (length >> 1)
            if length & 1 or end > payload_size:
                raise _malformed("record length")
            timestamp_delta = payload[position + 1]  # after the attributes
            position += 2
            if timestamp_delta > 0x7F:
                timestamp_delta, position = _long_varint(payload, position, timestamp_delta)
            delta = payload[position]
            position += 1
            if delta > 0x7F:
                delta, position = _long_varint(payload, position, delta)
            offset = base_offset + (delta >> 1)
            size = payload[position]
            position += 1
            if size > 0x7F:
                size, position = _long_varint(payload, position, size)
            key_end = position if size & 1 else position + (size >> 1)
            if key_end > end:
                raise _malformed("key length")
            wanted = offset > latest_offset
            if size & 1:
                kept.keyless += not wanted
            elif not wanted:
                key = payload[position:key_end]
                if key_end - position > KEY_SIZE_MAX:
                    key = stored_key(key)
                wanted = offset >= offsets.get(key, -1)
            if wanted and payload[key_end] & 1:  # a value of length -1: a tombstone
                wanted = offset > latest_offset or not drop_tombstones
                kept.tombstones |= wanted
            if wanted:
                kept.note(timestamp_delta)
            else:
                if kept_start < start:
                    kept.ranges.append((kept_start, start))
                kept_start = end
            position = end
    except IndexError:
        raise _malformed("a record is cut off") from None
    if position != payload_size:
        raise _malformed("bytes after the last record")
    if kept_start < position:
        kept.ranges.append((kept_start, position))
    return kept


def _long_varint(data: bytes, position: int, number: int) -> tuple[int, int]:
    """The rest of an unsigned varint or varlong whose first byte says that there is more."""
    number &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise _malformed("a varint of more than ten bytes")


def _malformed(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"malformed records: {what}")
