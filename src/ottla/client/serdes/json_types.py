"""From JSON values to a dataclass: one conversion for each type, built once."""

from __future__ import annotations

import datetime
import types
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

Make = Callable[[Any], Any]

FROM_TEXT: Final[dict[Any, Make]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
}


def json_maker(wanted: Any, known: dict[Any, Make] | None = None) -> Make | None:
    """None if JSON's own value is what is wanted, or if the type says too little."""
    known = {} if known is None else known
    if wanted in known:
        return known[wanted]
    if isinstance(wanted, type) and is_dataclass(wanted):
        return _dataclass(wanted, known)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return wanted
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        return _one_of(parts, known)
    if origin is dict and len(parts) == 2:
        return _values(json_maker(parts[1], known))
    if origin in (list, tuple, set, frozenset) and parts:
        return _entries(origin, json_maker(parts[0], known))
    return FROM_TEXT.get(wanted)


def _dataclass(class_: type, known: dict[Any, Make]) -> Make:
    makers: dict[str, Make | None] = {}

    def make(value: dict[str, Any]) -> Any:
        arguments = {}
        for name, item in value.items():
            if name in makers:
                inner = makers[name]
                arguments[name] = item if inner is None or item is None else inner(item)
        return class_(**arguments)

    known[class_] = make  # a type may contain itself
    hints = get_type_hints(class_)
    makers.update({field.name: json_maker(hints[field.name], known) for field in fields(class_)})
    return make


def _one_of(parts: tuple[Any, ...], known: dict[Any, Make]) -> Make | None:
    """`X | None` is an X; a union of two other types is ambiguous."""
    some = [part for part in parts if part is not type(None)]
    return json_maker(some[0], known) if len(some) == 1 else None


def _values(inner: Make | None) -> Make | None:
    if inner is None:
        return None
    make = inner
    return lambda value: {key: None if item is None else make(item) for key, item in value.items()}


def _entries(kind: Any, inner: Make | None) -> Make | None:
    if inner is None:
        return None if kind is list else lambda value: kind(value)
    make = inner
    return lambda value: kind(None if item is None else make(item) for item in value)
