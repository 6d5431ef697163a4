"""Values of timestamped stores: the timestamp (8 bytes), then the value."""

from __future__ import annotations

from typing import TypeVar, cast

from ottla.client.serde import Serde
from ottla.engine.records import ValueAndTimestamp
from ottla.engine.windowed_serdes import LONG

V = TypeVar("V")


class ValueAndTimestampSerde(Serde[ValueAndTimestamp[V]]):
    def __init__(self, inner: Serde[V]) -> None:
        self.inner = inner

    def serialize(self, topic: str, value: ValueAndTimestamp[V] | None) -> bytes | None:
        if value is None or value.value is None:
            return None
        data = self.inner.serialize(topic, value.value)
        return None if data is None else LONG.pack(value.timestamp) + data

    def deserialize(self, topic: str, data: bytes | None) -> ValueAndTimestamp[V] | None:
        if data is None:
            return None
        value = cast(V, self.inner.deserialize(topic, data[8:]))
        return ValueAndTimestamp(value, LONG.unpack_from(data)[0])


class ValueWithoutTimestampSerde(Serde[V]):
    """Reads what `ValueAndTimestampSerde` writes, without the timestamp."""

    def __init__(self, inner: Serde[V]) -> None:
        self.inner = inner

    def serialize(self, topic: str, value: V | None) -> bytes | None:
        raise NotImplementedError("this view is read-only: a write needs a timestamp")

    def deserialize(self, topic: str, data: bytes | None) -> V | None:
        return None if data is None else self.inner.deserialize(topic, data[LONG.size :])
