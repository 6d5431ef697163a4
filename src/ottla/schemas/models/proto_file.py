"""The .proto file of a model, proto3.

Fields are numbered in their order, so new ones belong at the end; `field(metadata={"number": 7})`,
or Pydantic's `Field(json_schema_extra={"number": 7})`, sets a number. int is int64, float double,
datetime Timestamp, timedelta Duration; date, time, Decimal and UUID are strings.
"""

from __future__ import annotations

from typing import Any

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.models.python_type import ModelField, PythonType

_LEAVES = {
    "bool": "bool",
    "int": "int64",
    "float": "double",
    "str": "string",
    "bytes": "bytes",
    "datetime": "google.protobuf.Timestamp",
    "timedelta": "google.protobuf.Duration",
    "date": "string",
    "time": "string",
    "decimal": "string",
    "uuid": "string",
    "any": "google.protobuf.Value",
}
_IMPORTS = {"datetime": "timestamp", "timedelta": "duration", "any": "struct"}


def proto_file(of: PythonType, package: str = "") -> str:
    if of.kind != "model":
        raise InvalidSchema(f"Protobuf has messages only: {of.type!r} is not a dataclass or model")
    writer = _ProtoFileWriter()
    writer.name(of)
    lines = ['syntax = "proto3";']
    if package:
        lines.append(f"package {package};")
    lines += [f'import "google/protobuf/{name}.proto";' for name in sorted(writer.imports)]
    return "\n".join([*lines, *writer.definitions.values()]) + "\n"


class _ProtoFileWriter:
    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.known: dict[str, Any] = {}
        self.definitions: dict[str, str] = {}

    def name(self, of: PythonType) -> str:
        """The type of a field that is neither optional nor repeated."""
        if of.kind in _LEAVES:
            if of.kind in _IMPORTS:
                self.imports.add(_IMPORTS[of.kind])
            return _LEAVES[of.kind]
        if of.kind not in ("enum", "model"):
            raise InvalidSchema(f"Protobuf has no type for {of.kind}: give the schema as text")
        if of.name not in self.known:
            self.known[of.name] = of.type
            self.definitions[of.name] = ""  # keeps the root first
            write = self.enum if of.kind == "enum" else self.message
            self.definitions[of.name] = write(of)
        elif self.known[of.name] is not of.type:
            raise InvalidSchema(f"two types are called {of.name}: a file has one")
        return of.name

    def message(self, of: PythonType) -> str:
        taken = {field.number for field in of.fields if field.number is not None}
        free = (number for number in range(1, 2**16) if number not in taken)
        lines = [f"message {of.name} {{"]
        for field in of.fields:
            number = next(free) if field.number is None else field.number
            lines.append(f"  {self.field(field)} {field.name} = {number};")
        return "\n".join([*lines, "}"])

    def field(self, field: ModelField) -> str:
        some = field.type.some
        if len(some) != 1:
            raise InvalidSchema(f"{field.name}: Protobuf has no union of types; use a oneof")
        kind = some[0]
        if kind.kind == "list":
            return f"repeated {self.single(kind.parts[0], field)}"
        if kind.kind == "map":
            return f"map<string, {self.single(kind.parts[0], field)}>"
        name = self.name(kind)
        is_message = kind.kind == "model" or name.startswith("google.")
        return f"optional {name}" if field.type.is_optional and not is_message else name

    def single(self, of: PythonType, field: ModelField) -> str:
        if of.kind in ("list", "map", "union"):
            raise InvalidSchema(f"{field.name}: Protobuf has no {of.kind} within a list or map")
        return self.name(of)

    def enum(self, of: PythonType) -> str:
        lines = [f"enum {of.name} {{"]
        lines += [f"  {member.name} = {number};" for number, member in enumerate(of.type)]
        return "\n".join([*lines, "}"])
