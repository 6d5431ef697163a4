"""How keys and values become bytes, and bytes keys and values.

The numbers are big-endian, as Java's serializers write them, so that both sides of a topic may be
written in either language. None is Kafka's null: it never reaches a `Serde`. A `TopicSerde` sees
the topic and, if it asks for them, the headers: one with a schema registry needs both.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ottla.client.registry_error import RegistryError
from ottla.errors import KafkaError

T = TypeVar("T")

HeaderList = list[tuple[str, bytes | None]]
HeaderPairs = Iterable[tuple[str, bytes | None]]


def is_infrastructure(error: Exception) -> bool:
    """Did something fail that has nothing to do with the record: a registry, a missing package?

    Who skips records that can't be read must not skip these.
    """
    return isinstance(error, KafkaError | RegistryError | ImportError)


class SerializationError(ValueError):
    """Bytes that are no such value, or a value that has no such bytes.

    `schema` names the schema, if one was named: "schema id 7".
    """

    def __init__(self, message: str, schema: str = "") -> None:
        super().__init__(message)
        self.schema = schema


@dataclass(slots=True, frozen=True)
class Serde(Generic[T]):
    """Two callables. `from_bytes` raises ValueError for bytes which it can't make sense of."""

    to_bytes: Callable[[T], bytes]
    from_bytes: Callable[[bytes], T]


class TopicSerde(Generic[T]):
    """A serde as Kafka has it: bytes may depend on the topic. None is null in both directions.

    Subclass it for a format of your own, or give two callables to `TopicSerde.of`.
    """

    fixed_bytes: int | None = None
    """How many bytes each value has, where that is so."""

    uses_headers: bool = False
    """Are the two methods with headers other than those without?"""

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        raise NotImplementedError

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        raise NotImplementedError

    def serialize_with_headers(
        self, topic: str, headers: HeaderList, value: T | None
    ) -> bytes | None:
        """May change `headers`, which become the record's."""
        return self.serialize(topic, value)

    def deserialize_with_headers(
        self, topic: str, headers: HeaderPairs, data: bytes | None
    ) -> T | None:
        return self.deserialize(topic, data)

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> TopicSerde[T]:
        """For keys or for values, with the settings of the client; what was given before wins."""
        return self

    @staticmethod
    def of(to_bytes: Callable[[T], bytes], from_bytes: Callable[[bytes], T]) -> TopicSerde[T]:
        return Callables(to_bytes, from_bytes)


class Callables(TopicSerde[T]):
    def __init__(self, to_bytes: Callable[[T], bytes], from_bytes: Callable[[bytes], T]) -> None:
        self.to_bytes = to_bytes
        self.from_bytes = from_bytes

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        return None if value is None else self.to_bytes(value)

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        return None if data is None else self.from_bytes(data)


ToBytes = Serde[T] | TopicSerde[T] | type[T] | Callable[[T], bytes]
"""What a producer takes for a serde."""
FromBytes = Serde[T] | TopicSerde[T] | type[T] | Callable[[bytes], T]
"""What a consumer takes for a serde."""


def _same(data: bytes) -> bytes:
    return data


def _read_boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise ValueError(f"a boolean is one byte, 0 or 1, not {data!r}")
    return data == b"\x01"


def _write_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _number(form: str) -> Serde[Any]:
    number = struct.Struct(form)

    def to_bytes(value: Any) -> bytes:
        try:
            return number.pack(value)
        except struct.error as error:
            raise ValueError(f"{value!r} does not fit: {error}") from None

    def from_bytes(data: bytes) -> Any:
        if len(data) != number.size:
            raise ValueError(f"{len(data)} bytes where {number.size} were expected")
        return number.unpack(data)[0]

    return Serde(to_bytes, from_bytes)


BYTES: Final[Serde[bytes]] = Serde(_same, _same)
STRING: Final[Serde[str]] = Serde(str.encode, bytes.decode)
JSON: Final[Serde[Any]] = Serde(_write_json, json.loads)
LONG: Final[Serde[int]] = _number(">q")
INTEGER: Final[Serde[int]] = _number(">i")
SHORT: Final[Serde[int]] = _number(">h")
DOUBLE: Final[Serde[float]] = _number(">d")
FLOAT: Final[Serde[float]] = _number(">f")
BOOLEAN: Final[Serde[bool]] = Serde(lambda value: b"\x01" if value else b"\x00", _read_boolean)
UUID: Final[Serde[uuid.UUID]] = Serde(
    lambda value: str(value).encode(), lambda data: uuid.UUID(data.decode())
)

WORDS: Final[dict[str, Serde[Any]]] = {
    "bytes": BYTES,
    "string": STRING,
    "json": JSON,
    "long": LONG,
    "integer": INTEGER,
    "short": SHORT,
    "double": DOUBLE,
    "float": FLOAT,
    "boolean": BOOLEAN,
    "uuid": UUID,
}
"""By name, for command lines. The names are those of Java's (de)serializers, and json."""

_OF_TYPE: Final[dict[type, Serde[Any]]] = {
    bytes: BYTES,
    str: STRING,
    int: LONG,
    float: DOUBLE,
    bool: BOOLEAN,
    dict: JSON,
    list: JSON,
    uuid.UUID: UUID,
}


def _no_way_back(_: Any) -> Any:
    raise TypeError("this serde was given as one callable, and works in one direction only")


def serializer_of(of: Serde[T] | type[T] | Callable[[T], bytes]) -> Callable[[T], bytes]:
    """What a producer calls: a serde's, a type's, or the callable itself."""
    return _serde_of(of, lambda call: Serde(call, _no_way_back)).to_bytes


def deserializer_of(of: Serde[T] | type[T] | Callable[[bytes], T]) -> Callable[[bytes], T]:
    """What a consumer calls: a serde's, a type's, or the callable itself."""
    return _serde_of(of, lambda call: Serde(_no_way_back, call)).from_bytes


def topic_serdes(
    key: Any, value: Any, settings: Mapping[str, Any], *, reads: bool
) -> tuple[TopicSerde[Any], TopicSerde[Any]] | None:
    """Both as TopicSerdes, if one of them is: else nobody needs to know the topic."""
    if not isinstance(key, TopicSerde) and not isinstance(value, TopicSerde):
        return None
    made: list[TopicSerde[Any]] = []
    for of, is_key in ((key, True), (value, False)):
        if isinstance(of, TopicSerde):
            made.append(of.configured(settings, is_key=is_key))
        elif reads:
            made.append(Callables(_no_way_back, deserializer_of(of)))
        else:
            made.append(Callables(serializer_of(of), _no_way_back))
    return made[0], made[1]


def serialized(
    serdes: tuple[TopicSerde[Any], TopicSerde[Any]],
    topic: str,
    key: Any,
    value: Any,
    headers: HeaderList,
) -> tuple[bytes | None, bytes | None]:
    """Key and value as bytes; `headers` may change."""
    of_key, of_value = serdes
    return (
        of_key.serialize_with_headers(topic, headers, key),
        of_value.serialize_with_headers(topic, headers, value),
    )


def _serde_of(of: Any, from_callable: Callable[[Any], Serde[Any]]) -> Serde[Any]:
    if isinstance(of, Serde):
        return of
    if isinstance(of, type):
        if of not in _OF_TYPE:
            known = ", ".join(each.__name__ for each in _OF_TYPE)
            raise TypeError(f"no serde for {of.__name__}; give one of {known}, or a Serde")
        return _OF_TYPE[of]
    if callable(of):
        return from_callable(of)
    raise TypeError(f"a serde is a Serde, a TopicSerde, a type or a callable, not {of!r}")
