"""How keys and values become bytes, and bytes keys and values.

The numbers are big-endian, as Java's serializers write them, so that both sides of a topic may be
written in either language. None is Kafka's null: it never reaches a serde.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Serde(Generic[T]):
    """Two callables. `from_bytes` raises ValueError for bytes which it can't make sense of."""

    to_bytes: Callable[[T], bytes]
    from_bytes: Callable[[bytes], T]


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
    raise TypeError(f"a serde is a Serde, a type or a callable, not {of!r}")
