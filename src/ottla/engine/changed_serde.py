"""A table's Change as bytes in a repartition topic, in Kafka's format (ChangedSerializer).

new value, 1                            only a new value
old value, 0                            only an old one
size (varint), new value, old value, 2  both
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.serde import Serde, SerializationError
from ottla.engine.records import Change

OLD, NEW, BOTH = 0, 1, 2


class ChangedSerde(Serde[Change[Any]]):
    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> ChangedSerde:
        return ChangedSerde(self.inner.configured(settings, is_key=is_key))

    def serialize(self, topic: str, value: Change[Any] | None) -> bytes | None:
        if value is None:
            return None
        new = self.inner.serialize(topic, value.new)
        old = self.inner.serialize(topic, value.old)
        if new is not None and old is not None:
            return write_varint(len(new)) + new + old + bytes((BOTH,))
        if new is not None:
            return new + bytes((NEW,))
        if old is not None:
            return old + bytes((OLD,))
        raise SerializationError("Both old and new values are null in a Change")

    def deserialize(self, topic: str, data: bytes | None) -> Change[Any] | None:
        if data is None:
            return None
        kind, rest = data[-1], data[:-1]
        if kind == NEW:
            return Change(self.inner.deserialize(topic, rest), None)
        if kind == OLD:
            return Change(None, self.inner.deserialize(topic, rest))
        if kind == BOTH:
            size, at = read_varint(rest)
            new = self.inner.deserialize(topic, rest[at : at + size])
            return Change(new, self.inner.deserialize(topic, rest[at + size :]))
        raise SerializationError(f"Unknown kind of Change: {kind}")


def write_varint(number: int) -> bytes:
    """Zigzag, seven bits per byte, least significant first."""
    left = (number << 1) ^ (number >> 63)
    data = bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)


def read_varint(data: bytes) -> tuple[int, int]:
    """The number, and the count of bytes read."""
    found = 0
    for index, byte in enumerate(data):
        found |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return (found >> 1) ^ -(found & 1), index + 1
    raise SerializationError("varint is not terminated")
