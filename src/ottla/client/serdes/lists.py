"""List: Kafka's ListSerde."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.serde import Serde, SerializationError

INT: Final = struct.Struct(">i")


class List(Serde[list[Any]]):
    """A list of another serde's values.

    byte 0  fixed size: count and positions of nulls, count of entries, all entries but nulls
    byte 1  otherwise: count of entries, each with its size in front, which is -1 for null
    """

    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> List:
        return List(self.inner.configured(settings, is_key=is_key))

    def serialize(self, topic: str, value: list[Any] | None) -> bytes | None:
        if value is None:
            return None
        entries = [self.inner.serialize(topic, item) for item in value]
        if self.inner.fixed_bytes is not None:
            nulls = [index for index, entry in enumerate(entries) if entry is None]
            indexes = b"".join(INT.pack(index) for index in nulls)
            present = b"".join(entry for entry in entries if entry is not None)
            return b"\x00" + INT.pack(len(nulls)) + indexes + INT.pack(len(entries)) + present
        sized = (
            INT.pack(-1) if entry is None else INT.pack(len(entry)) + entry for entry in entries
        )
        return b"\x01" + INT.pack(len(entries)) + b"".join(sized)

    def deserialize(self, topic: str, data: bytes | None) -> list[Any] | None:
        if data is None:
            return None
        try:
            if data[0] == 0:
                return self._fixed(topic, data)
            return self._sized(topic, data)
        except (IndexError, struct.error) as error:
            raise SerializationError(f"a list that ends too early: {error}") from None

    def _fixed(self, topic: str, data: bytes) -> list[Any]:
        size = self.inner.fixed_bytes
        if size is None:
            raise SerializationError("a list of entries of one size, for a serde that has none")
        (count,) = INT.unpack_from(data, 1)
        nulls = {INT.unpack_from(data, 5 + 4 * index)[0] for index in range(count)}
        at = 5 + 4 * count
        (entries,) = INT.unpack_from(data, at)
        at += 4
        found: list[Any] = []
        for index in range(entries):
            if index in nulls:
                found.append(None)
            else:
                found.append(self.inner.deserialize(topic, data[at : at + size]))
                at += size
        return found

    def _sized(self, topic: str, data: bytes) -> list[Any]:
        (entries,) = INT.unpack_from(data, 1)
        at = 5
        found: list[Any] = []
        for _ in range(entries):
            (size,) = INT.unpack_from(data, at)
            at += 4
            if size < 0:
                found.append(None)
            else:
                found.append(self.inner.deserialize(topic, data[at : at + size]))
                at += size
        return found
