"""Serdes for windowed keys, in Kafka's layouts, and for any Python value in stores."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from ottla.client.serde import Serde, SerializationError
from ottla.engine.records import Window, Windowed

T = TypeVar("T")

LONG: Final = struct.Struct(">q")
BOUNDS: Final = struct.Struct(">qq")
WINDOW_MS_MAX: Final = 2**63 - 1


class Pickle(Serde[T]):
    """Any Python value, for stores and internal topics. Never unpickle records of foreign topics:
    that runs their code."""

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        return None if value is None else pickle.dumps(value, protocol=5)

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        return None if data is None else cast(T, pickle.loads(data))


class TimeWindowed(Serde[Windowed[Any]]):
    """The key of a windowed table: the key, then the window's start."""

    def __init__(self, inner: Serde[Any], window_ms: int = WINDOW_MS_MAX) -> None:
        self.inner = inner
        self.window_ms = window_ms

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> TimeWindowed:
        return TimeWindowed(self.inner.configured(settings, is_key=is_key), self.window_ms)

    def serialize(self, topic: str, value: Windowed[Any] | None) -> bytes | None:
        if value is None:
            return None
        return (self.inner.serialize(topic, value.key) or b"") + LONG.pack(value.window.start)

    def deserialize(self, topic: str, data: bytes | None) -> Windowed[Any] | None:
        if data is None:
            return None
        if len(data) < LONG.size:
            raise SerializationError(f"{len(data)} bytes are too short for a windowed key")
        (start,) = LONG.unpack_from(data, len(data) - LONG.size)
        end = min(start + self.window_ms, WINDOW_MS_MAX)
        key = self.inner.deserialize(topic, data[: -LONG.size])
        return Windowed(key, Window(start, end))


class SessionWindowed(Serde[Windowed[Any]]):
    """The key of a session-windowed table: the key, then the session's end and start."""

    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> SessionWindowed:
        return SessionWindowed(self.inner.configured(settings, is_key=is_key))

    def serialize(self, topic: str, value: Windowed[Any] | None) -> bytes | None:
        if value is None:
            return None
        start, end = value.window
        return (self.inner.serialize(topic, value.key) or b"") + BOUNDS.pack(end, start)

    def deserialize(self, topic: str, data: bytes | None) -> Windowed[Any] | None:
        if data is None:
            return None
        if len(data) < BOUNDS.size:
            raise SerializationError(f"{len(data)} bytes are too short for a session key")
        end, start = BOUNDS.unpack_from(data, len(data) - BOUNDS.size)
        key = self.inner.deserialize(topic, data[: -BOUNDS.size])
        return Windowed(key, Window(start, end))
