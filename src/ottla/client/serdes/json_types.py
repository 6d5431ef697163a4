"""From what JSON has to what a dataclass wants: a function for each type, made once."""

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


def maker(wanted: Any, known: dict[Any, Make] | None = None) -> Make | None:
    """None where JSON's own value is what is wanted, or where nobody can tell."""
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
        return _values(maker(parts[1], known))
    if origin in (list, tuple, set, frozenset) and parts:
        return _entries(origin, maker(parts[0], known))
    return FROM_TEXT.get(wanted)


def _dataclass(wanted: type, known: dict[Any, Make]) -> Make:
    makers: dict[str, Make | None] = {}

    def make(value: dict[str, Any]) -> Any:
        given = {}
        for name, each in value.items():
            if name in makers:
                inner = makers[name]
                given[name] = each if inner is None or each is None else inner(each)
        return wanted(**given)

    known[wanted] = make  # a type may have itself among its fields
    hints = get_type_hints(wanted)
    makers.update({each.name: maker(hints[each.name], known) for each in fields(wanted)})
    return make


def _one_of(parts: tuple[Any, ...], known: dict[Any, Make]) -> Make | None:
    """`X | None` is an X; of two others nobody could tell which one it is."""
    some = [each for each in parts if each is not type(None)]
    return maker(some[0], known) if len(some) == 1 else None


def _values(inner: Make | None) -> Make | None:
    if inner is None:
        return None
    make = inner
    return lambda value: {key: None if each is None else make(each) for key, each in value.items()}


def _entries(kind: Any, inner: Make | None) -> Make | None:
    if inner is None:
        return None if kind is list else lambda value: kind(value)
    make = inner
    return lambda value: kind(None if each is None else make(each) for each in value)
