"""Protobuf messages -> Connect schemas, as Confluent's ProtobufConverter reads them."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.converters.protobuf_settings import (
    LOGICAL_OF,
    META_OPTION,
    PRECISION,
    TAG,
    TYPE,
    UNION,
    WRAPPED,
    WRAPPER,
    ProtobufSettings,
)
from ottla.connect.converters.sum_types import SUM_TYPE_UNION
from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from ottla.connect.errors import DataException
from ottla.connect.schema import SCALE
from ottla.schemas.protobuf.proto_file import ProtoField, ProtoMessage
from ottla.schemas.protobuf.schema import ProtobufSchema

# Keyed by FieldDescriptorProto.Type.
NAMES: Final = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
TYPES: Final = {
    "double": Type.FLOAT64,
    "float": Type.FLOAT32,
    "bool": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Type.INT32),
    **dict.fromkeys(("uint32", "fixed32"), Type.INT64),
    **dict.fromkeys(("int64", "uint64", "sint64", "fixed64", "sfixed64"), Type.INT64),
}
USUAL: Final = ("int32", "int64", "double", "float", "bool", "string", "bytes")
NARROW: Final = {"int8": Type.INT8, "int16": Type.INT16}
UNDERLYING: Final = {
    DECIMAL: Type.BYTES,
    DATE: Type.INT32,
    TIME: Type.INT32,
    TIMESTAMP: Type.INT64,
}


class ConnectFromProtobuf:
    """For one file. Recursive messages raise, because Connect schemas are immutable trees."""

    def __init__(self, settings: ProtobufSettings, schema: ProtobufSchema) -> None:
        self._settings, self._schema = settings, schema
        self._open: list[str] = []

    def of(self, descriptor: Any, version: int | None = None) -> Schema:
        wrapped = WRAPPED.get(descriptor.full_name)
        if wrapped is not None and self._settings.wrapped_primitives:
            return Schema(wrapped, version=version)
        return Schema(**self._message(descriptor), version=version)

    def _message(self, descriptor: Any) -> dict[str, Any]:
        if descriptor.full_name in self._open:
            raise DataException(
                f"The message {descriptor.full_name} contains itself: recursive schemas are not"
                " supported"
            )
        self._open.append(descriptor.full_name)
        fields: list[tuple[str, Schema]] = []
        for index, oneof in enumerate(real_oneofs(descriptor)):
            if self._settings.flatten_unions:
                fields += [(member.name, self._field(member, True)) for member in oneof.fields]
            else:
                fields.append((oneof_field(oneof, index, self._settings), self._union(oneof)))
        for field in descriptor.fields:
            if not in_oneof(field):
                fields.append((field.name, self._field(field, False)))
        self._open.pop()
        return {"type": Type.STRUCT, "name": self._name(descriptor), "fields": fields}

    def _name(self, described: Any) -> str:
        return str(described.full_name if self._settings.enhanced else described.name)

    def _union(self, oneof: Any) -> Schema:
        name, parameters = f"{UNION}.{self._name(oneof)}", None
        if self._settings.generalized:
            name, parameters = oneof.name, {SUM_TYPE_UNION: oneof.name}
        fields = [(member.name, self._field(member, True)) for member in oneof.fields]
        return Schema(Type.STRUCT, name=name, parameters=parameters, fields=fields, optional=True)

    def _field(self, field: Any, is_member: bool) -> Schema:
        parts = self._typed(field)
        if field.is_repeated and parts["type"] is not Type.MAP:
            inner = Schema(**{**parts, "optional": True})
            parts = {"type": Type.ARRAY, "value_schema": inner, "optional": True}
        if is_member:
            parts["optional"] = True
            if self._settings.wrapped_nullables and _is_wrapper(field):
                parts.setdefault("parameters", {})[WRAPPER] = "true"
        elif self._settings.optional_nullables:
            parts["optional"] = parts.get("optional") or field.has_presence
        elif not self._settings.wrapped_nullables:
            parts["optional"] = True
        parts.setdefault("parameters", {})[TAG] = str(field.number)
        return Schema(**parts)

    def _typed(self, field: Any) -> dict[str, Any]:
        if field.message_type is not None:
            return {**self._of_message(field), "optional": True}
        if field.enum_type is not None:
            return {**self._enum(field.enum_type), "optional": True}
        name = NAMES[field.type]
        parts: dict[str, Any] = {"type": TYPES[name]}
        if name not in USUAL:
            parts["parameters"] = {TYPE: name}
        if parts["type"] is Type.INT32:
            narrow = NARROW.get(self._params(field).get("connect.type", ""))
            parts = parts if narrow is None else {"type": narrow}
        return parts

    def _of_message(self, field: Any) -> dict[str, Any]:
        message = field.message_type
        if is_map(field):
            key, value = (message.fields_by_name[part] for part in ("key", "value"))
            return {
                "type": Type.MAP,
                "name": self._name(message).removesuffix("Entry"),
                "key_schema": self._field(key, False),
                "value_schema": self._field(value, False),
            }
        logical = LOGICAL_OF.get(message.full_name)
        if logical is not None:
            parts: dict[str, Any] = {"type": UNDERLYING[logical], "name": logical, "version": 1}
            if logical == DECIMAL:
                params = self._params(field)
                parts["parameters"] = {SCALE: params.get("scale", "0")}
                if "precision" in params:
                    parts["parameters"][PRECISION] = params["precision"]
            return parts
        if self._settings.wrapped_nullables and _is_wrapper(field):
            return {"type": WRAPPED[message.full_name]}
        return self._message(message)

    def _enum(self, enum: Any) -> dict[str, Any]:
        kind = self._settings.enum_parameter
        parameters = {kind: enum.name}
        parameters |= {f"{kind}.{value.name}": str(value.number) for value in enum.values}
        type = Type.INT32 if self._settings.integer_enums else Type.STRING
        return {"type": type, "name": self._name(enum), "parameters": parameters}

    def _params(self, field: Any) -> dict[str, str]:
        """The params of Confluent's field option, parsed from the text: descriptors lack it."""
        owner = self._schema.types.get(field.containing_type.full_name)
        element = owner.element if owner is not None else None
        if not isinstance(element, ProtoMessage):
            return {}
        found = next((known for known in element.all_fields() if known.name == field.name), None)
        return {} if found is None else option_params(found)


def option_params(field: ProtoField) -> dict[str, str]:
    params: dict[str, str] = {}
    for option in field.options:
        if option.name == f"{META_OPTION}.params":
            params |= _entries([(option.kind, option.value)])
        elif option.name == META_OPTION and option.kind == "map":
            params |= _entries([value for key, value in option.value if key == "params"])
    return params


def _entries(values: list[tuple[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, value in values:
        if kind == "list":
            found |= _entries(value)
        elif kind == "map":
            parts = {key: text for key, (_, text) in value}
            if "key" in parts:
                found[str(parts["key"])] = str(parts.get("value", ""))
    return found


def real_oneofs(descriptor: Any) -> list[Any]:
    """The oneofs, without the synthetic ones of proto3's optional fields."""
    return [oneof for oneof in descriptor.oneofs if any(in_oneof(f) for f in oneof.fields)]


def in_oneof(field: Any) -> bool:
    oneof = field.containing_oneof
    if oneof is None:
        return False
    # A synthetic oneof has one field, and its name is that field's behind an underscore.
    return len(oneof.fields) > 1 or oneof.name.lstrip("X") != f"_{field.name}"


def oneof_field(oneof: Any, index: int, settings: ProtobufSettings) -> str:
    return f"{oneof.name}_{index}" if settings.indexed_unions else str(oneof.name)


def is_map(field: Any) -> bool:
    """A Protobuf map, or repeated entries as Connect's converters write them."""
    message = field.message_type
    if message is None or not field.is_repeated:
        return False
    if message.GetOptions().map_entry:
        return True
    names = [field.name for field in message.fields]
    single = not any(field.is_repeated for field in message.fields)
    return message.name.endswith("Entry") and names == ["key", "value"] and single


def _is_wrapper(field: Any) -> bool:
    return field.message_type is not None and field.message_type.full_name in WRAPPED
