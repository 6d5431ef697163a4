"""What a client accepts as `key=` and `value=`: a Serde, a type, or one callable."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ottla.client.serde import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    JSON,
    LONG,
    SHORT,
    STRING,
    UUID,
    HeaderList,
    Serde,
)

T = TypeVar("T")

ToBytes = Serde[T] | type[T] | Callable[[T], bytes]
"""What a producer accepts as a serde."""
FromBytes = Serde[T] | type[T] | Callable[[bytes], T]
"""What a consumer accepts as a serde."""

Serializer = Callable[[Any], bytes]
Deserializer = Callable[[bytes], Any]
Serdes = tuple[Serde[Any], Serde[Any]]
"""The serdes of key and value."""

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


def writing_serdes(key: Any, value: Any, settings: Mapping[str, Any]) -> Serdes:
    """A producer's serdes: a callable serializes."""
    return (
        _serde_of(key, _of_serializer).configured(settings, is_key=True),
        _serde_of(value, _of_serializer).configured(settings, is_key=False),
    )


def reading_serdes(key: Any, value: Any, settings: Mapping[str, Any]) -> Serdes:
    """A consumer's serdes: a callable deserializes."""
    return (
        _serde_of(key, _of_deserializer).configured(settings, is_key=True),
        _serde_of(value, _of_deserializer).configured(settings, is_key=False),
    )


def serializers_of(serdes: Serdes) -> tuple[Serializer, Serializer] | None:
    """`to_bytes` of both, for a shorter call; None if one needs the topic."""
    if any(_sees_topic(serde, "to_bytes", "serialize") for serde in serdes):
        return None
    return serdes[0].to_bytes, serdes[1].to_bytes


def deserializers_of(serdes: Serdes) -> tuple[Deserializer, Deserializer] | None:
    """`from_bytes` of both, for a shorter call; None if one needs the topic."""
    if any(_sees_topic(serde, "from_bytes", "deserialize") for serde in serdes):
        return None
    return serdes[0].from_bytes, serdes[1].from_bytes


def serialized(
    serdes: Serdes, topic: str, key: Any, value: Any, headers: HeaderList
) -> tuple[bytes | None, bytes | None]:
    """Key and value as bytes; `headers` may change."""
    of_key, of_value = serdes
    return (
        of_key.serialize_with_headers(topic, headers, key),
        of_value.serialize_with_headers(topic, headers, value),
    )


def not_serializable(
    topic: str, serializers: tuple[Serializer, Serializer], key: Any, value: Any
) -> TypeError:
    """The error for a key or a value that the producer's serdes can't serialize."""
    of_value = serializers[1]
    side, given = ("key", key) if _makes_bytes(of_value, value) else ("value", value)
    kind = type(given)
    serde = kind.__name__ if kind in _OF_TYPE else "Json()"
    return TypeError(
        f"the {side} of a record for {topic} is of type {kind.__name__}, and the producer's serde"
        f" for it makes no bytes of that: give it another one, Producer(..., {side}={serde})"
    )


def _makes_bytes(serialize: Serializer, value: Any) -> bool:
    try:
        data = None if value is None else serialize(value)
    except TypeError:
        return False
    return data is None or isinstance(data, (bytes, str))  # librdkafka takes both


def _sees_topic(serde: Serde[Any], plain: str, method: str) -> bool:
    """Must the serde be called by `method` (or its variant with headers), not by `plain`?

    A subclass of String with its own `serialize` inherits String's `to_bytes`, which must not be
    called in its place. So the first class that defines one of them decides.
    """
    if serde.uses_headers:
        return True
    for names in (vars(serde), *map(vars, type(serde).__mro__)):
        if plain in names:
            return False
        if method in names or f"{method}_with_headers" in names:
            return True
    raise AssertionError("Serde itself has all of them")


def _serde_of(of: Any, from_callable: Callable[[Any], Serde[Any]]) -> Serde[Any]:
    if isinstance(of, Serde):
        return of
    if isinstance(of, type):
        if of not in _OF_TYPE:
            known = ", ".join(known_type.__name__ for known_type in _OF_TYPE)
            raise TypeError(f"no serde for {of.__name__}; give one of {known}, or a Serde")
        return _OF_TYPE[of]
    if callable(of):
        return from_callable(of)
    raise TypeError(f"a serde is a Serde, a type or a callable, not {of!r}")


def _of_serializer(call: Callable[[Any], bytes]) -> Serde[Any]:
    return Serde.of(call, _no_way_back)


def _of_deserializer(call: Callable[[bytes], Any]) -> Serde[Any]:
    return Serde.of(_no_way_back, call)


def _no_way_back(_: Any) -> Any:
    raise TypeError("this serde was given as one callable, and works in one direction only")
