"""Connect schemas -> .proto files, as Confluent's ProtobufConverter writes them."""

from __future__ import annotations

from typing import Any

from ottla.connect.converters.protobuf_settings import (
    DEFAULT_NAME,
    LOGICAL,
    META,
    META_OPTION,
    PRECISION,
    SCALARS,
    TAG,
    TYPE,
    WRAPPER,
    WRAPPERS,
    WRAPPERS_FILE,
    ProtobufSettings,
    enum_parameter,
    is_union,
    union_name,
)
from ottla.connect.data import DECIMAL, Schema, Type
from ottla.connect.errors import DataException
from ottla.connect.schema import SCALE
from ottla.schemas.protobuf.proto_file import (
    ProtoConstant,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoOneof,
    ProtoOption,
)
from ottla.schemas.protobuf.text import proto_text

NUMBERS_RESERVED = range(19_000, 20_000)  # reserved by Protobuf


def protobuf_text(schema: Schema, settings: ProtobufSettings) -> tuple[str, str]:
    """The text of the file, and the full name of its first message."""
    file = _ProtobufFromConnect(settings).file(schema)
    name = f"{file.package}.{file.types[0].name}" if file.package else file.types[0].name
    return proto_text(file), name


class _ProtobufFromConnect:
    def __init__(self, settings: ProtobufSettings) -> None:
        self._settings = settings
        self._unnamed = 0
        self._imports: dict[str, None] = {}  # in the order of first use

    def file(self, schema: Schema) -> ProtoFile:
        if schema.type is not Type.STRUCT or is_union(schema):
            return self._wrapper(schema)
        named = schema.name or self._next_name()
        parts = [self._settings.scrubbed(part) for part in named.split(".")]
        file = ProtoFile(syntax="proto3", package=".".join(parts[:-1]))
        file.types.append(self._message(parts[-1], schema))
        file.imports = [("", name) for name in self._imports]
        return file

    def _wrapper(self, schema: Schema) -> ProtoFile:
        """A value other than a struct: Google's wrapper message for its type."""
        scalar = SCALARS.get(schema.type)
        if scalar is None or schema.name in LOGICAL:
            raise DataException(f"Unsupported root schema of type {schema.type}")
        message = ProtoMessage(WRAPPERS[scalar], [ProtoField("value", 1, scalar)])
        return ProtoFile(syntax="proto3", package="google.protobuf", types=[message])

    def _message(self, name: str, schema: Schema) -> ProtoMessage:
        message = ProtoMessage(name)
        numbers = _Numbers(schema)
        shapes: dict[str, Schema] = {}
        for field in schema.fields:
            inner = field.schema
            if is_union(inner):
                oneof = ProtoOneof(self._settings.scrubbed(union_name(inner)))
                message.oneofs.append(oneof)
                for member in inner.fields:
                    number = numbers.of(member.schema)
                    made = self._field(message, shapes, member.name, member.schema, number, True)
                    oneof.fields.append(made)
            else:
                number = numbers.of(inner)
                made = self._field(message, shapes, field.name, inner, number, False)
                message.fields.append(made)
        return message

    def _field(
        self,
        message: ProtoMessage,
        shapes: dict[str, Schema],
        name: str,
        schema: Schema,
        number: int,
        in_oneof: bool,
    ) -> ProtoField:
        scrubbed = self._settings.scrubbed(name)
        label = self._label(schema, in_oneof)
        inner = schema.value_schema if schema.type is Type.ARRAY else schema
        if inner.type is Type.ARRAY or (inner is not schema and inner.type is Type.MAP):
            raise DataException(f"{name}: arrays of arrays or maps have no form in Protobuf")
        params: dict[str, str] = {}
        kind = self._type(message, shapes, scrubbed, inner, params, in_oneof)
        options = [_meta_option(params)] if params else []
        if params:
            self._imports.setdefault(META)
        return ProtoField(scrubbed, number, kind, label, options=options)

    def _label(self, schema: Schema, in_oneof: bool) -> str:
        if schema.type in (Type.ARRAY, Type.MAP):
            return "repeated"
        nullable = self._settings.optional_nullables and schema.optional and not in_oneof
        return "optional" if nullable else ""

    def _type(
        self,
        message: ProtoMessage,
        shapes: dict[str, Schema],
        field: str,
        schema: Schema,
        params: dict[str, str],
        in_oneof: bool,
    ) -> str:
        if schema.name in LOGICAL:
            kind, path = LOGICAL[schema.name]
            self._imports.setdefault(path)
            params |= _decimal_params(schema) if schema.name == DECIMAL else {}
            return kind
        if enum_parameter(schema) is not None:
            return self._define(message, shapes, schema, self._enum, schema.name)
        if schema.type is Type.STRUCT:
            name = self._simple(schema.name) or self._next_name()
            if name == field:  # a message and a field with the same name would clash
                name = f"{name}Message"
            return self._define(message, shapes, schema, self._message, name)
        if schema.type is Type.MAP:
            name = self._simple(schema.name) or self._next_name()
            return self._define(message, shapes, schema, self._entry, f"{name}Entry")
        if schema.type in (Type.INT8, Type.INT16):
            params["connect.type"] = schema.type.value
        parameters = schema.parameters or {}
        scalar = parameters.get(TYPE, SCALARS[schema.type])
        if not self._settings.wrapped_nullables or not schema.optional:
            return scalar
        if in_oneof and parameters.get(WRAPPER) != "true":
            return scalar  # a oneof itself can be unset
        self._imports.setdefault(WRAPPERS_FILE)
        return f"google.protobuf.{WRAPPERS.get(scalar, 'Int64Value')}"

    def _define(
        self,
        message: ProtoMessage,
        shapes: dict[str, Schema],
        schema: Schema,
        make: Any,
        named: str | None,
    ) -> str:
        """The name of a nested type, which is defined once in the message."""
        name = self._simple(named) or self._next_name()
        before = shapes.get(name)
        bare: dict[str, Any] = {"optional": False, "default": None, "doc": None, "version": None}
        shape = schema.replace(**bare, parameters=None if make != self._enum else schema.parameters)
        if before is None:
            shapes[name] = shape
            message.types.append(make(name, schema))
        elif before != shape and make != self._enum:
            raise DataException(f"Two different schemas have the name {name}")
        return name

    def _entry(self, name: str, schema: Schema) -> ProtoMessage:
        """An entry of a map. Protobuf's maps have the same encoding, but allow fewer key types."""
        entry = ProtoMessage(name)
        shapes: dict[str, Schema] = {}
        for number, part in enumerate(("key", "value"), 1):
            inner = schema.key_schema if number == 1 else schema.value_schema
            entry.fields.append(self._field(entry, shapes, part, inner, number, False))
        return entry

    def _enum(self, name: str, schema: Schema) -> ProtoEnum:
        begin = f"{enum_parameter(schema)}."
        constants = [
            ProtoConstant(key.removeprefix(begin), int(number))
            for key, number in (schema.parameters or {}).items()
            if key.startswith(begin)
        ]
        return ProtoEnum(name, sorted(constants, key=lambda constant: constant.number != 0))

    def _simple(self, name: str | None) -> str:
        return self._settings.scrubbed((name or "").rpartition(".")[2])

    def _next_name(self) -> str:
        self._unnamed += 1
        return f"{DEFAULT_NAME}{self._unnamed}"


class _Numbers:
    """Field numbers of a message: from the schema's tags, and free ones for the other fields."""

    def __init__(self, schema: Schema) -> None:
        members = [
            member
            for field in schema.fields
            for member in (field.schema.fields if is_union(field.schema) else (field,))
        ]
        self._taken = {int(tag) for tag in map(_tag, (member.schema for member in members)) if tag}
        self._next = 1

    def of(self, schema: Schema) -> int:
        tag = _tag(schema)
        if tag is not None:
            return int(tag)
        while self._next in self._taken or self._next in NUMBERS_RESERVED:
            self._next += 1
        self._next += 1
        return self._next - 1


def _tag(schema: Schema) -> str | None:
    return (schema.parameters or {}).get(TAG)


def _decimal_params(schema: Schema) -> dict[str, str]:
    parameters = schema.parameters or {}
    found = {"precision": parameters.get(PRECISION), "scale": parameters.get(SCALE)}
    return {name: text for name, text in found.items() if text is not None}


def _meta_option(params: dict[str, str]) -> ProtoOption:
    entries = [
        ("map", [("key", ("text", name)), ("value", ("text", text))])
        for name, text in params.items()
    ]
    return ProtoOption(META_OPTION, "map", [("params", ("list", entries))])
