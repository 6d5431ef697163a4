"""How keys and values become bytes. The formats are those of Kafka's own Serdes.

A serde is given the topic's name as well, as in Kafka: one that asks a schema registry needs it
(Avro, JsonSchema and Protobuf of ottla.client). None is Kafka's null in both directions.
"""

from __future__ import annotations

import json
import pickle
import struct
import uuid
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Final, TypeVar, cast

import orjson

from ottla.client.serde import Callables as Callables
from ottla.client.serde import SerializationError as SerializationError
from ottla.client.serde import TopicSerde
from ottla.engine.json_types import maker
from ottla.engine.records import Window, Windowed

T = TypeVar("T")

Serde = TopicSerde

LONG: Final = struct.Struct(">q")
INT: Final = struct.Struct(">i")
BOUNDS: Final = struct.Struct(">qq")
WINDOW_MS_MAX: Final = 2**63 - 1


class Bytes(Serde[bytes]):
    def serialize(self, topic: str, value: bytes | None) -> bytes | None:
        return value

    def deserialize(self, topic: str, data: bytes | None) -> bytes | None:
        return data


class String(Serde[str]):
    def serialize(self, topic: str, value: str | None) -> bytes | None:
        if value is None:
            return None
        try:
            return value.encode()
        except AttributeError:
            raise SerializationError(f"String() was given {value!r}, for {topic}") from None

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


class Number(Serde[T]):
    form: struct.Struct

    def __init_subclass__(cls) -> None:
        cls.fixed_bytes = cls.form.size

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        if value is None:
            return None
        try:
            return self.form.pack(value)
        except struct.error as error:
            raise SerializationError(f"{value!r} does not fit: {error}") from None

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        if data is None:
            return None
        if len(data) != self.form.size:
            raise SerializationError(f"{len(data)} bytes where {self.form.size} were expected")
        return cast(T, self.form.unpack(data)[0])


class Short(Number[int]):
    form = struct.Struct(">h")


class Int(Number[int]):
    form = INT


class Long(Number[int]):
    form = LONG


class Float(Number[float]):
    form = struct.Struct(">f")


class Double(Number[float]):
    form = struct.Struct(">d")


class Boolean(Serde[bool]):
    fixed_bytes = None  # Kafka's list format does not count it among the fixed ones

    def serialize(self, topic: str, value: bool | None) -> bytes | None:
        return None if value is None else b"\x01" if value else b"\x00"

    def deserialize(self, topic: str, data: bytes | None) -> bool | None:
        if data is None:
            return None
        if data not in (b"\x00", b"\x01"):
            raise SerializationError(f"a boolean is one byte, 0 or 1, not {data!r}")
        return data == b"\x01"


class Uuid(Serde[uuid.UUID]):
    fixed_bytes = 36

    def serialize(self, topic: str, value: uuid.UUID | None) -> bytes | None:
        return None if value is None else str(value).encode()

    def deserialize(self, topic: str, data: bytes | None) -> uuid.UUID | None:
        return None if data is None else uuid.UUID(data.decode())


class Json(Serde[T]):
    """JSON text. With a dataclass: its fields; names that it does not have are passed over.

    Fields may be dataclasses themselves, lists and dicts of them, times, UUIDs and enums.
    """

    def __init__(self, of: type[T] | None = None) -> None:
        self.type = of
        self._make = None if of is None else maker(of)

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        if value is None:
            return None
        try:
            data: bytes = orjson.dumps(value, _plain, orjson.OPT_NON_STR_KEYS)
            return data
        except TypeError:  # a number of more than 64 bits, or something that JSON has no word for
            plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        try:
            return json.dumps(
                plain, ensure_ascii=False, separators=(",", ":"), default=_plain
            ).encode()
        except TypeError as error:
            raise SerializationError(f"{error}, for {topic}") from None

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        if data is None:
            return None
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:  # NaN and Infinity are Python's own
            value = json.loads(data)
        return cast(T, value) if self._make is None or value is None else cast(T, self._make(value))


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"JSON has no word for {value!r}")


class Pickle(Serde[T]):
    """Any Python value, for stores and internal topics. Never read it from a topic of others."""

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        return None if value is None else pickle.dumps(value, protocol=5)

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        return None if data is None else cast(T, pickle.loads(data))


class List(Serde[list[Any]]):
    """Kafka's ListSerde.

    byte 0  fixed size: count and places of the nulls, count of entries, the entries but nulls
    byte 1  else: count of entries, each behind its size, which is -1 for null
    """

    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> List:
        return List(self.inner.configured(settings, is_key=is_key))

    def serialize(self, topic: str, value: list[Any] | None) -> bytes | None:
        if value is None:
            return None
        entries = [self.inner.serialize(topic, each) for each in value]
        if self.inner.fixed_bytes is not None:
            nulls = [place for place, each in enumerate(entries) if each is None]
            places = b"".join(INT.pack(place) for place in nulls)
            present = b"".join(each for each in entries if each is not None)
            return b"\x00" + INT.pack(len(nulls)) + places + INT.pack(len(entries)) + present
        sized = (INT.pack(-1) if each is None else INT.pack(len(each)) + each for each in entries)
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
        nulls = {INT.unpack_from(data, 5 + 4 * each)[0] for each in range(count)}
        at = 5 + 4 * count
        (entries,) = INT.unpack_from(data, at)
        at += 4
        found: list[Any] = []
        for place in range(entries):
            if place in nulls:
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


class TimeWindowed(Serde[Windowed[Any]]):
    """The key of a windowed table in a topic: the key, then the window's start."""

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
            raise SerializationError(f"{len(data)} bytes are no key with a window")
        (start,) = LONG.unpack_from(data, len(data) - LONG.size)
        end = min(start + self.window_ms, WINDOW_MS_MAX)
        key = self.inner.deserialize(topic, data[: -LONG.size])
        return Windowed(key, Window(start, end))


class SessionWindowed(Serde[Windowed[Any]]):
    """The key of a table of sessions: the key, then the session's end and its start."""

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
            raise SerializationError(f"{len(data)} bytes are no key with a session")
        end, start = BOUNDS.unpack_from(data, len(data) - BOUNDS.size)
        key = self.inner.deserialize(topic, data[: -BOUNDS.size])
        return Windowed(key, Window(start, end))
