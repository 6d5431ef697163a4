"""A change of a table as bytes, on its way through a repartition topic; Kafka's own format.

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


class Changed(Serde[Change[Any]]):
    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> Changed:
        return Changed(self.inner.configured(settings, is_key=is_key))

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
        raise SerializationError("a change from nothing to nothing")

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
        raise SerializationError(f"a change of kind {kind}")


def write_varint(number: int) -> bytes:
    """Zigzag, seven bits a byte, least ones first."""
    left = (number << 1) ^ (number >> 63)
    data = bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)


def read_varint(data: bytes) -> tuple[int, int]:
    """The number, and how many bytes it took."""
    found = 0
    for place, byte in enumerate(data):
        found |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return (found >> 1) ^ -(found & 1), place + 1
    raise SerializationError("a number that does not end")
