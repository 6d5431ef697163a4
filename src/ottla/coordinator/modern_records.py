"""What the records of share groups and of streams groups have in common, byte for byte as Kafka's.

A key opens with its type as int16, and is the group's id, or that and a member's. Values open with
their version, 0, and are flexible. A null value is a tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, Generic, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import (
    READ_ERRORS,
    MalformedError,
    read_string,
    read_tag,
    read_uvarint,
    write_string,
)

_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_TARGET: Final = struct.Struct(">hi")
_TIMESTAMP_TAG: Final = b"\x01\x00\x08"  # one tag: number 0, of 8 bytes

K = TypeVar("K", bound=IntEnum)


class ModernRecordKeys(Generic[K]):
    """The keys of one type of group; records of the types `of_members` name a member as well."""

    def __init__(self, types: type[K], of_members: frozenset[K], record: str) -> None:
        self._types = {int(type_): type_ for type_ in types}
        self._of_members = of_members
        self._record = record

    def write(self, type_: K, group_id: str, member_id: str = "") -> bytes:
        buffer = bytearray(_INT16.pack(type_))
        write_string(buffer, group_id)
        if type_ in self._of_members:
            write_string(buffer, member_id)
        return bytes(buffer)

    def read(self, key: bytes) -> tuple[K, str, str] | None:
        """Type, group and member; None if the record is not of this type of group."""
        type_ = self._types.get(_INT16.unpack_from(key)[0]) if len(key) >= _INT16.size else None
        if type_ is None:
            return None
        with corrupt_if_malformed(self._record):
            group_id, position = read_string(key, _INT16.size)
            member_id = read_string(key, position)[0] if type_ in self._of_members else ""
        return type_, group_id, member_id


def write_target_metadata(assignment_epoch: int, timestamp_ms: int) -> bytes:
    """The epoch of a target assignment; tag 0: when it was made (KIP-1263)."""
    tags = _TIMESTAMP_TAG + _INT64.pack(timestamp_ms) if timestamp_ms else b"\x00"
    return _TARGET.pack(0, assignment_epoch) + tags


def read_target_metadata(value: bytes) -> tuple[int, int]:
    """The epoch of the assignment, and when it was made; 0 if that is not known."""
    timestamp_ms = 0
    check_version(value)
    _, epoch = _TARGET.unpack_from(value)
    count, position = read_uvarint(value, _TARGET.size)
    for _ in range(count):
        tag, position, end = read_tag(value, position)
        if tag == 0:
            (timestamp_ms,) = _INT64.unpack_from(value, position)
        position = end
    return epoch, timestamp_ms


def check_version(value: bytes) -> int:
    """Where the fields begin, if the version is known."""
    if _INT16.unpack_from(value) != (0,):
        raise MalformedError("a version that is not known")
    return _INT16.size


@contextmanager
def corrupt_if_malformed(record: str) -> Iterator[None]:
    """CORRUPT_MESSAGE, with `record` saying whose it is, in place of what reading it raises."""
    try:
        yield
    except (*READ_ERRORS, MalformedError) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{record}: {error}") from error
