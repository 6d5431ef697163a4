"""The Avro schema of a model.

int is a long, float a double, an enum its names; datetime is timestamp-micros, date, time-micros,
decimal and uuid are Avro's logical types. `X | None` is a union with null, which stands first if
None is the default.
"""

from __future__ import annotations

import json
import re
import uuid
from enum import Enum
from typing import Any

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.models.python_type import MISSING, ModelField, PythonType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LEAVES: dict[str, Any] = {
    "bool": "boolean",
    "int": "long",
    "float": "double",
    "str": "string",
    "bytes": "bytes",
    "none": "null",
    "datetime": {"type": "long", "logicalType": "timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
}


def avro_text(of: PythonType, namespace: str = "") -> str:
    written = _AvroSchemaWriter().write(of)
    if namespace and isinstance(written, dict) and "name" in written:
        written = {"type": written.pop("type"), "name": written.pop("name")} | {
            "namespace": namespace,
            **written,
        }
    return json.dumps(written)


class _AvroSchemaWriter:
    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def write(self, of: PythonType) -> Any:
        if of.kind in _LEAVES:
            return _LEAVES[of.kind]
        if of.kind == "decimal":
            if of.digits is None:
                raise InvalidSchema(
                    "a Decimal in Avro has a size: Annotated[Decimal, Digits(9, 2)], or "
                    "Field(max_digits=9, decimal_places=2)"
                )
            most, scale = of.digits
            return {"type": "bytes", "logicalType": "decimal", "precision": most, "scale": scale}
        if of.kind == "list":
            return {"type": "array", "items": self.write(of.parts[0])}
        if of.kind == "map":
            return {"type": "map", "values": self.write(of.parts[0])}
        if of.kind == "union":
            return [self.write(part) for part in of.parts]
        if of.kind in ("enum", "model"):
            return self.named(of)
        raise InvalidSchema(f"Avro has no type for {of.kind}: give the schema as text")

    def named(self, of: PythonType) -> Any:
        if of.name in self.known:
            if self.known[of.name] is not of.type:
                raise InvalidSchema(f"two types are called {of.name}: a schema has one")
            return of.name
        self.known[of.name] = of.type
        if of.kind == "enum":
            symbols = [member.name for member in of.type]
            return {"type": "enum", "name": of.name, "symbols": symbols}
        fields = [self.field(field) for field in of.fields]
        return {"type": "record", "name": of.name, "fields": fields}

    def field(self, field: ModelField) -> dict[str, Any]:
        if not _NAME.match(field.name):
            raise InvalidSchema(f"{field.name} is not a name in Avro: letters, digits and _")
        kind = field.type
        if kind.kind == "union":
            kind = PythonType("union", parts=_in_order(kind, field.default))
        written = {"name": field.name, "type": self.write(kind)}
        if field.default is not MISSING:
            default = _default(field.default)
            if default is not MISSING:
                written["default"] = default
        return written


def _in_order(of: PythonType, default: Any) -> list[PythonType]:
    """A default in Avro belongs to the first branch, so null is first if None is the default."""
    nulls = [part for part in of.parts if part.kind == "none"]
    others = of.some
    if default is MISSING or default is None:
        return [*nulls, *others]
    first = [part for part in others if part.type is type(default)]
    return [*first, *(part for part in others if part not in first), *nulls]


def _default(value: Any) -> Any:
    """In Avro's JSON; MISSING where that would be a guess."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset | dict) and not value:
        return {} if isinstance(value, dict) else []
    return MISSING
