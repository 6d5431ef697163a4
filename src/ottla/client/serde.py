"""Serde: keys and values to bytes and back, with Kafka's own formats.

Numbers are big-endian, as Java's serializers write them, so that a Java program can write a topic
and a Python program read it. Serdes with a schema registry are in `serdes/`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast

from ottla.client.schema_registry_error import SchemaRegistryError
from ottla.client.serdes.json_text import read_json, write_json
from ottla.client.serdes.json_types import json_maker
from ottla.client.serialization_error import SerializationError as SerializationError
from ottla.errors import KafkaError

T = TypeVar("T")

HeaderList = list[tuple[str, bytes | None]]
HeaderPairs = Iterable[tuple[str, bytes | None]]


class Serde(Generic[T]):
    """Kafka's Serializer and Deserializer in one. None is null in both directions.

    For a format of your own give two callables to `Serde.of`, or subclass: with `to_bytes` and
    `from_bytes` if the bytes depend on the value alone, with `serialize` and `deserialize` if they
    depend on the topic as well. A class may have all four, for speed; they must agree.
    """

    fixed_bytes: int | None = None
    """The size of every value in bytes; None if it varies."""

    immutable: bool = False
    """Callers never modify what `deserialize` returns: the same object may go to several."""

    uses_headers: bool = False
    """True if a method with headers is overridden."""

    def __init_subclass__(cls) -> None:
        """With a topic, too, a `to_bytes` of a subclass of String wins."""
        own = vars(cls)
        if "to_bytes" in own and "serialize" not in own:
            cls.serialize = Serde.serialize  # type: ignore[method-assign]
        if "from_bytes" in own and "deserialize" not in own:
            cls.deserialize = Serde.deserialize  # type: ignore[method-assign]

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        return None if value is None else self.to_bytes(value)

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        return None if data is None else self.from_bytes(data)

    def serialize_with_headers(
        self, topic: str, headers: HeaderList, value: T | None
    ) -> bytes | None:
        """May change `headers`, which become the record's."""
        return self.serialize(topic, value)

    def deserialize_with_headers(
        self, topic: str, headers: HeaderPairs, data: bytes | None
    ) -> T | None:
        return self.deserialize(topic, data)

    def deserialize_batch(
        self, topic: str, data: Sequence[bytes | None]
    ) -> Sequence[T | None] | None:
        """`deserialize` for many values, for formats that are faster at it than one by one. None:
        this format is not, or a value can't be read."""
        return None

    def deserialize_each(self, topic: str, data: Sequence[bytes]) -> Sequence[T]:
        """`deserialize` for many values of a store."""
        return [cast(T, self.deserialize(topic, datum)) for datum in data]

    def serialize_batch(self, topic: str, values: Sequence[T | None]) -> Sequence[bytes | None]:
        """`serialize` for many values, for formats that are faster at it than one by one. The
        result may be an array of Arrow's."""
        return [self.serialize(topic, value) for value in values]

    def to_bytes(self, value: T, /) -> bytes:
        """Never called with None. SerializationError for a value that can't be written."""
        raise NotImplementedError(f"{type(self).__name__} has neither to_bytes nor serialize")

    def from_bytes(self, data: bytes, /) -> T:
        """Never called with None. SerializationError, or a ValueError, for other bytes."""
        raise NotImplementedError(f"{type(self).__name__} has neither from_bytes nor deserialize")

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> Serde[T]:
        """This serde for keys or for values, with the client's settings; its own settings win."""
        return self

    @staticmethod
    def of(to_bytes: Callable[[T], bytes], from_bytes: Callable[[bytes], T]) -> Serde[T]:
        return CallableSerde(to_bytes, from_bytes)


class CallableSerde(Serde[T]):
    """The serde that `Serde.of` returns."""

    def __init__(self, to_bytes: Callable[[T], bytes], from_bytes: Callable[[bytes], T]) -> None:
        self.to_bytes = to_bytes  # type: ignore[method-assign]
        self.from_bytes = from_bytes  # type: ignore[method-assign]


def is_infrastructure(error: Exception) -> bool:
    """True if the failure is not the record's: a registry is down, a package is missing.

    A handler that skips records that can't be read must not skip these.
    """
    return isinstance(error, KafkaError | SchemaRegistryError | ImportError)


# The formats of Kafka's Serdes. Bytes and String have all four methods, because half of all serdes
# are one of them, and another call would take as long as what they do.


class Bytes(Serde[bytes]):
    def serialize(self, topic: str, value: bytes | None) -> bytes | None:
        return value

    def deserialize(self, topic: str, data: bytes | None) -> bytes | None:
        return data

    @staticmethod
    def to_bytes(value: bytes) -> bytes:
        return value

    from_bytes = to_bytes


class String(Serde[str]):
    to_bytes = staticmethod(str.encode)
    from_bytes = staticmethod(bytes.decode)

    def serialize(self, topic: str, value: str | None) -> bytes | None:
        if value is None:
            return None
        try:
            return value.encode()
        except AttributeError:
            raise SerializationError(f"String() was given {value!r}, for {topic}") from None

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


class NumberSerde(Serde[T]):
    """`form` is the format, in struct's letters."""

    form: str

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "form" in vars(cls):
            # Closures, because a lookup of the struct by `self` takes as long as packing a number.
            number = struct.Struct(cls.form)
            cls.fixed_bytes = number.size
            cls.to_bytes, cls.from_bytes = _packing(number)  # type: ignore[method-assign]


def _packing(number: struct.Struct) -> tuple[Any, Any]:
    pack, unpack, size = number.pack, number.unpack, number.size

    def to_bytes(value: Any) -> bytes:
        try:
            return pack(value)
        except (struct.error, OverflowError) as error:
            raise SerializationError(f"{value!r} does not fit: {error}") from None

    def from_bytes(data: bytes) -> Any:
        if len(data) != size:
            raise SerializationError(f"{len(data)} bytes where {size} were expected")
        return unpack(data)[0]

    return staticmethod(to_bytes), staticmethod(from_bytes)


class Short(NumberSerde[int]):
    form = ">h"


class Int(NumberSerde[int]):
    form = ">i"


class Long(NumberSerde[int]):
    form = ">q"


class Float(NumberSerde[float]):
    form = ">f"


class Double(NumberSerde[float]):
    form = ">d"


class Boolean(Serde[bool]):
    # One byte, but Kafka's list format does not count it among those of fixed size.

    @staticmethod
    def to_bytes(value: bool) -> bytes:
        return b"\x01" if value else b"\x00"

    @staticmethod
    def from_bytes(data: bytes) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise SerializationError(f"a boolean is one byte, 0 or 1, not {data!r}")
        return data == b"\x01"


class Uuid(Serde[uuid.UUID]):
    fixed_bytes = 36

    @staticmethod
    def to_bytes(value: uuid.UUID) -> bytes:
        return str(value).encode()

    @staticmethod
    def from_bytes(data: bytes) -> uuid.UUID:
        return uuid.UUID(data.decode())


class Json(Serde[T]):
    """JSON text. With a dataclass: its fields; unknown names are skipped.

    Fields may be dataclasses themselves, lists and dicts of them, times, UUIDs and enums. NaN and
    infinity become null, because JSON has no such numbers.
    """

    to_bytes = staticmethod(write_json)

    def __init__(self, of: type[T] | None = None) -> None:
        self.type = of
        self._make = None if of is None else json_maker(of)

    def from_bytes(self, data: bytes, /) -> T:
        value = read_json(data)
        return cast(T, value if self._make is None or value is None else self._make(value))


BYTES: Final = Bytes()
STRING: Final = String()
JSON: Final[Json[Any]] = Json()
LONG: Final = Long()
INTEGER: Final = Int()
SHORT: Final = Short()
DOUBLE: Final = Double()
FLOAT: Final = Float()
BOOLEAN: Final = Boolean()
UUID: Final = Uuid()
