"""Converts instances of models to dicts, lists and a codec's types, and back.

Conversions are built once for a type; None means "unchanged".
"""

from __future__ import annotations

import base64
import datetime
import decimal
import operator
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.schemas.models.python_type import MISSING, PythonType, is_pydantic

Convert = Callable[[Any], Any]
Leaf = tuple[Convert, Convert]

_TEXT: dict[str, Leaf] = {
    "date": (datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time.isoformat, datetime.time.fromisoformat),
    "decimal": (str, decimal.Decimal),
    "uuid": (str, uuid.UUID),
}


@dataclass(frozen=True, slots=True)
class Language:
    """The types that a codec uses in place of Python's own."""

    leaves: dict[str, Leaf]
    enum_names: bool  # an enum is written by name, otherwise by value
    named_unions: bool = False  # a record in a union of several is (full name, dict)


AVRO = Language({}, enum_names=True, named_unions=True)
PROTOBUF = Language(_TEXT, enum_names=True)
JSON = Language(
    {
        **_TEXT,
        "datetime": (datetime.datetime.isoformat, datetime.datetime.fromisoformat),
        "bytes": (lambda data: base64.b64encode(data).decode(), base64.b64decode),
    },
    enum_names=False,
)


class ModelValues:
    """Converts instances of a type to plain values, and plain values to instances."""

    def __init__(self, of: PythonType, language: Language, full_name: Callable[[str], str]) -> None:
        self._language = language
        self._full_name = full_name
        self._to_models: dict[Any, Convert] = {}
        self._from_models: dict[Any, Convert] = {}
        self.to_plain: Convert = self._to(of) or _same
        self.from_plain: Convert = self._from(of) or _same
        self.has_named_unions = bool(language.named_unions and _has_union(of, set()))

    # To plain values

    def _to(self, of: PythonType) -> Convert | None:
        if of.kind in self._language.leaves:
            return self._language.leaves[of.kind][0]
        if of.kind == "enum":
            return operator.attrgetter("name" if self._language.enum_names else "value")
        if of.kind == "list":
            convert = self._to(of.parts[0])
            if convert is None:
                return None if of.type is list else list
            return lambda items: [None if item is None else convert(item) for item in items]
        if of.kind == "map":
            of_value = self._to(of.parts[0])
            return None if of_value is None else _of_values(of_value)
        if of.kind == "model":
            return self._to_models.get(of.type) or self._to_model(of)
        if of.kind == "union":
            return self._to_union(of)
        return None

    def _to_model(self, of: PythonType) -> Convert:
        parts: list[tuple[str, str, Convert | None]] = []

        def convert(model: Any) -> dict[str, Any]:
            found = {}
            for name, attribute, change in parts:
                value = getattr(model, attribute)
                found[name] = value if change is None or value is None else change(value)
            return found

        self._to_models[of.type] = convert  # a model may contain itself
        parts += [(field.name, field.attribute, self._to(field.type)) for field in of.fields]
        unchanged = all(name == at and change is None for name, at, change in parts)
        if unchanged and (is_pydantic(of.type) or not hasattr(of.type, "__slots__")):
            self._to_models[of.type] = vars  # encoders only read, and pick the names they know
        return self._to_models[of.type]

    def _to_union(self, of: PythonType) -> Convert | None:
        some = of.some
        if len(some) == 1:
            return self._to(some[0])
        by_type: dict[Any, Convert | None] = {}
        for part in some:
            convert = self._to(part)
            if part.kind == "model" and self._language.named_unions:
                convert = _named(self._full_name(part.name), convert or _same)
            by_type[part.type] = convert

        def choose(value: Any) -> Any:
            convert = by_type.get(type(value))
            return value if convert is None else convert(value)

        return choose

    # From plain values

    def _from(self, of: PythonType) -> Convert | None:
        if of.kind in self._language.leaves:
            return self._language.leaves[of.kind][1]
        if of.kind == "enum":
            return _by_name(of.type) if self._language.enum_names else _made_by(of.type)
        if of.kind == "list":
            convert = self._from(of.parts[0])
            if convert is None:
                return None if of.type is list else _made_by(of.type)
            return lambda items: of.type(None if item is None else convert(item) for item in items)
        if of.kind == "map":
            of_value = self._from(of.parts[0])
            return None if of_value is None else _of_values(of_value)
        if of.kind == "model":
            return self._from_models.get(of.type) or self._from_model(of)
        if of.kind == "union":
            return self._from_union(of)
        return None

    def _from_model(self, of: PythonType) -> Convert:
        make = of.type
        parts: list[tuple[str, bool, Convert | None]] = []

        def convert(plain: Any) -> Any:
            arguments = {}
            for name, is_optional, change in parts:
                if name in plain:
                    value = plain[name]
                    if value is not None:
                        arguments[name] = value if change is None else change(value)
                    elif is_optional:
                        arguments[name] = None
            return make(**arguments)

        self._from_models[of.type] = convert
        for field in of.fields:
            may_be_none = field.type.is_optional or field.type.kind in ("none", "any")
            parts.append((field.name, may_be_none, self._from(field.type)))
        return convert

    def _from_union(self, of: PythonType) -> Convert | None:
        some = of.some
        if len(some) == 1:
            return self._from(some[0])
        models = [part for part in some if part.kind == "model"]
        if self._language.named_unions and len(models) > 1:
            named = {self._full_name(part.name): self._from(part) or _same for part in models}
            return lambda value: named[value[0]](value[1]) if isinstance(value, tuple) else value
        if not models:
            return None
        fits = [(_required(part), _names(part), self._from(part) or _same) for part in models]

        def first_that_fits(value: Any) -> Any:
            if isinstance(value, dict):
                for required, names, make in fits:
                    if required <= value.keys() <= names:
                        return make(value)
            return value

        return first_that_fits


def _same(value: Any) -> Any:
    return value


def _named(name: str, convert: Convert) -> Convert:
    return lambda value: (name, convert(value))


def _by_name(of: Any) -> Convert:
    return lambda name: of[name]


def _made_by(of: Convert) -> Convert:
    return of


def _of_values(convert: Convert) -> Convert:
    return lambda entries: {
        key: None if value is None else convert(value) for key, value in entries.items()
    }


def _required(of: PythonType) -> frozenset[str]:
    return frozenset(field.name for field in of.fields if field.default is MISSING)


def _names(of: PythonType) -> frozenset[str]:
    return frozenset(field.name for field in of.fields)


def _has_union(of: PythonType, seen: set[int]) -> bool:
    """True if there is a union of several models."""
    if id(of) in seen:
        return False
    seen.add(id(of))
    if of.kind == "union" and sum(part.kind == "model" for part in of.parts) > 1:
        return True
    below = [*of.parts, *(field.type for field in of.fields)]
    return any(_has_union(part, seen) for part in below)
