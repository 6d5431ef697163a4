"""Plain values from avro_binary -> Connect values; compiled once per pair of schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.converters.avro_binary import AvroBinary
from ottla.connect.converters.avro_settings import AvroSettings, is_union
from ottla.connect.converters.connect_from_avro import branch_field
from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type
from ottla.connect.logical_types import decimal_from_bytes, from_days, from_millis, from_time_millis
from ottla.connect.schema import LOGICAL_TYPES
from ottla.rows.java.text import float32
from ottla.schemas.avro.node import AvroNode

Convert = Callable[[Any], Any]


class AvroDecoders:
    def __init__(self, binary: AvroBinary, settings: AvroSettings) -> None:
        self._binary, self._settings = binary, settings

    def of(self, schema: Schema, node: AvroNode) -> Convert | None:
        """None if the value needs no conversion."""
        if node.kind == "union":
            return self._in_union(schema, node)
        if schema.name in LOGICAL_TYPES:
            return _logical_decoder(schema)
        if schema.type is Type.STRUCT:
            return self._struct(schema, node)
        if schema.type is Type.ARRAY:
            convert_item = self.of(schema.value_schema, node.element)
            return (
                None
                if convert_item is None
                else lambda value: [convert_item(item) for item in value]
            )
        if schema.type is Type.MAP:
            return self._map(schema, node)
        return float32 if schema.type is Type.FLOAT32 else None

    def _in_union(self, schema: Schema, node: AvroNode) -> Convert | None:
        names = self._binary.branches(node)
        if names is None and not is_union(schema):
            inner = self.of(schema, next(b for b in node.branches if b.kind != "null"))
            if inner is None:
                return None
            return lambda value: None if value is None else inner(value)
        choices: dict[str, tuple[int, Convert | None]] = {}
        for index, branch in enumerate(node.branches):
            field = schema.field(branch_field(branch, index, self._settings))
            if field is not None:
                tag = names[index] if names is not None else ""
                choices[tag] = (field.index, self.of(field.schema, branch))
        count = len(schema.fields)

        def union(value: Any) -> Any:
            if value is None:
                return None
            tag, inner = (value[0], value[1]["v"]) if names is not None else ("", value)
            index, decode = choices[tag]
            values = [None] * count
            values[index] = inner if decode is None else decode(inner)
            return Struct.of(schema, values)

        return union

    def _map(self, schema: Schema, node: AvroNode) -> Convert | None:
        if node.kind == "map":
            values = self.of(schema.value_schema, node.element)
            if values is None:
                return None
            return lambda value: {key: values(item) for key, item in value.items()}
        types = {field.name: field.type for field in node.element.fields}
        keys = self.of(schema.key_schema, types["key"]) or _same
        items = self.of(schema.value_schema, types["value"]) or _same
        return lambda value: {keys(entry["key"]): items(entry["value"]) for entry in value}

    def _struct(self, schema: Schema, node: AvroNode) -> Convert:
        types = {field.name: field.type for field in node.fields}
        plan = []
        for field in schema.fields:
            decode = self.of(field.schema, types[field.name])
            if decode is not None:
                plan.append((field.index, decode))

        def struct(value: Any) -> Any:
            values = list(value.values())
            for index, decode in plan:
                values[index] = decode(values[index])
            return Struct.of(schema, values)

        return struct


def plain_default(node: AvroNode, value: Any, binary: AvroBinary) -> Any:
    """The default of an Avro field, in the form that avro_binary reads."""
    if node.kind == "union":
        names = binary.branches(node)
        first = node.branches[0]
        if first.kind == "null" or value is None:
            return None
        plain = plain_default(first, value, binary)
        return plain if names is None else (names[0], {"v": plain})
    if node.kind in ("bytes", "fixed"):
        return value.encode("latin-1")
    if node.kind == "array":
        return [plain_default(node.element, item, binary) for item in value]
    if node.kind == "map":
        return {key: plain_default(node.element, item, binary) for key, item in value.items()}
    if node.kind in ("record", "error"):
        return {
            field.name: plain_default(field.type, value.get(field.name, field.default), binary)
            for field in node.fields
        }
    return float(value) if node.kind in ("float", "double") else value


def _logical_decoder(schema: Schema) -> Convert:
    if schema.name == DECIMAL:
        return lambda value: decimal_from_bytes(schema, value)
    return {DATE: from_days, TIME: from_time_millis, TIMESTAMP: from_millis}[schema.name or ""]


def _same(value: Any) -> Any:
    return value
