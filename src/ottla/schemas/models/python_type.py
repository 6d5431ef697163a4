"""Annotations as data: the fields of dataclasses and Pydantic models, and their types.

This never imports Pydantic: a model is recognized by its attributes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import types
import typing
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from ottla.schemas.invalid_schema import InvalidSchema

LEAVES: dict[Any, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    datetime.datetime: "datetime",
    datetime.date: "date",
    datetime.time: "time",
    datetime.timedelta: "timedelta",
    decimal.Decimal: "decimal",
    uuid.UUID: "uuid",
    type(None): "none",
    Any: "any",
}
MISSING = dataclasses.MISSING


class Digits(NamedTuple):
    """The size of a Decimal: `Annotated[Decimal, Digits(9, 2)]` goes up to 9999999.99."""

    max_digits: int
    decimal_places: int = 0


@dataclass(eq=False, slots=True)
class PythonType:
    """`kind` is one of LEAVES, or enum, list, map, model, union. A model is one object."""

    kind: str
    type: Any = None
    parts: list[PythonType] = field(default_factory=list)
    fields: list[ModelField] = field(default_factory=list)
    digits: Digits | None = None

    @property
    def some(self) -> list[PythonType]:
        """The branches of a union without None; of any other type, the type itself."""
        if self.kind != "union":
            return [self]
        return [part for part in self.parts if part.kind != "none"]

    @property
    def is_optional(self) -> bool:
        return any(part.kind == "none" for part in self.parts) if self.kind == "union" else False

    @property
    def name(self) -> str:
        return str(self.type.__name__)


@dataclass(eq=False, slots=True)
class ModelField:
    name: str  # in the schema
    attribute: str
    type: PythonType
    default: Any  # MISSING if there is none
    number: int | None = None  # of a Protobuf field


def is_model(of: Any) -> bool:
    return isinstance(of, type) and (dataclasses.is_dataclass(of) or is_pydantic(of))


def is_pydantic(of: Any) -> bool:
    return isinstance(of, type) and hasattr(of, "model_fields") and hasattr(of, "model_validate")


def describe(of: Any) -> PythonType:
    """InvalidSchema for an annotation that no schema can express."""
    return _AnnotationReader().read(of, ())


class _AnnotationReader:
    def __init__(self) -> None:
        self.models: dict[Any, PythonType] = {}

    def read(self, of: Any, extras: tuple[Any, ...]) -> PythonType:
        origin, parts = get_origin(of), get_args(of)
        if origin is Annotated:
            return self.read(parts[0], (*extras, *parts[1:]))
        if of is None:
            return PythonType("none")
        if of in LEAVES if isinstance(of, type) else of is Any:
            digits = _digits(extras) if of is decimal.Decimal else None
            return PythonType(LEAVES[of], of, digits=digits)
        if hasattr(of, "__supertype__"):  # NewType
            return self.read(of.__supertype__, extras)
        if origin in (Union, types.UnionType):
            return PythonType("union", parts=[self.read(part, extras) for part in parts])
        if origin is Literal:
            return self.read(type(parts[0]), extras)
        if origin in (list, set, frozenset, tuple) and parts:
            if origin is tuple and parts[1:] != (...,):
                raise InvalidSchema(f"{of}: a tuple in a schema is tuple[X, ...]")
            return PythonType("list", origin, [self.read(parts[0], extras)])
        if origin is dict and len(parts) == 2:
            if parts[0] is not str:
                raise InvalidSchema(f"{of}: the keys of a map are str")
            return PythonType("map", dict, [self.read(parts[1], extras)])
        if isinstance(of, type) and issubclass(of, Enum):
            return PythonType("enum", of)
        if is_model(of):
            return self.models[of] if of in self.models else self._model(of)
        raise InvalidSchema(f"no schema for {of!r}: give the schema as text")

    def _model(self, of: Any) -> PythonType:
        node = self.models[of] = PythonType("model", of)
        make = self._pydantic_fields if is_pydantic(of) else self._dataclass_fields
        node.fields += make(of)
        return node

    def _dataclass_fields(self, of: Any) -> list[ModelField]:
        hints = typing.get_type_hints(of, include_extras=True)
        found = []
        for declared in dataclasses.fields(of):
            default: Any = MISSING if _is_missing(declared.default) else declared.default
            make: Any = declared.default_factory
            if not _is_missing(make):
                default = make()
            number = declared.metadata.get("number")
            kind = self.read(hints[declared.name], ())
            found.append(ModelField(declared.name, declared.name, kind, default, number))
        return found

    def _pydantic_fields(self, of: Any) -> list[ModelField]:
        found = []
        for name, field_info in of.model_fields.items():
            default = (
                MISSING
                if field_info.is_required()
                else field_info.get_default(call_default_factory=True)
            )
            extra = field_info.json_schema_extra
            number = extra.get("number") if isinstance(extra, dict) else None
            kind = self.read(field_info.annotation, tuple(field_info.metadata))
            found.append(ModelField(field_info.alias or name, name, kind, default, number))
        return found


def _is_missing(default: Any) -> bool:
    """Spark's workers get a class of a job's own file by value, with a copy of MISSING."""
    return isinstance(default, type(MISSING))


def _digits(extras: tuple[Any, ...]) -> Digits | None:
    """From Digits, or from Pydantic's Field(max_digits=..., decimal_places=...)."""
    for extra in extras:
        most = getattr(extra, "max_digits", None)
        if most is not None:
            return Digits(most, getattr(extra, "decimal_places", None) or 0)
    return None
