"""Values of Connect <-> what avro_binary writes and reads; each pair of schemas compiled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.schemas.avro.node import AvroNode
from ottla.spark.connect.converters.avro_binary import AvroBinary
from ottla.spark.connect.converters.avro_names import AvroSettings, is_union
from ottla.spark.connect.converters.avro_to_connect import branch_field, is_map_entry
from ottla.spark.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type
from ottla.spark.connect.errors import DataException
from ottla.spark.connect.java_text import float32
from ottla.spark.connect.logical import (
    ENCODERS,
    decimal_from_bytes,
    from_days,
    from_millis,
    from_time_millis,
)
from ottla.spark.connect.schema import INTEGER_BITS, LOGICAL_TYPES

Convert = Callable[[Any], Any]
ACCEPTED: Final[dict[Type, tuple[type, ...]]] = {
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
}
# Which types of Avro a value of a Connect type can be written to.
WRITABLE: Final = {
    Type.INT8: ("int", "long"),
    Type.INT16: ("int", "long"),
    Type.INT32: ("int", "long"),
    Type.INT64: ("long",),
    Type.FLOAT32: ("float", "double"),
    Type.FLOAT64: ("double",),
    Type.BOOLEAN: ("boolean",),
    Type.STRING: ("string", "enum"),
    Type.BYTES: ("bytes", "fixed"),
    Type.ARRAY: ("array",),
    Type.MAP: ("map", "array"),
    Type.STRUCT: ("record", "error"),
}
NULL_FOUND: Final = "Found null value for non-optional schema"


class AvroEncoders:
    def __init__(self, binary: AvroBinary, settings: AvroSettings) -> None:
        self._binary, self._settings = binary, settings

    def of(self, schema: Schema, node: AvroNode) -> Convert:
        if node.kind == "union":
            if is_union(schema):
                return self._union(schema, node)
            return self._nullable(schema, node)
        encode = self._value(schema, node)

        def required(value: Any) -> Any:
            if value is None:
                raise DataException(NULL_FOUND)
            return encode(value)

        return required

    def _nullable(self, schema: Schema, node: AvroNode) -> Convert:
        """A value in a union: the branch that it fits, or null."""
        fitting = [branch for branch in node.branches if self._fits(schema, branch)]
        if not fitting:
            raise DataException(f"{schema!r} is none of the types of the union {_told(node)}")
        branch = next((b for b in fitting if b.name and b.name == schema.name), fitting[0])
        encode = self._value(schema, branch)
        tag = self._tag(node, branch)
        has_null = any(branch.kind == "null" for branch in node.branches)

        def nullable(value: Any) -> Any:
            if value is None:
                if has_null:
                    return None
                raise DataException(NULL_FOUND)
            return tag(encode(value))

        return nullable

    def _tag(self, union: AvroNode, branch: AvroNode) -> Convert:
        names = self._binary.branches(union)
        if names is not None:
            name = names[union.branches.index(branch)]
            return lambda value: (name, {"v": value})
        if branch.kind == "record":
            name = self._binary.name(branch)  # spares fastavro to look whether the value fits
            return lambda value: (name, value)
        return lambda value: value

    def _fits(self, schema: Schema, node: AvroNode) -> bool:
        if node.kind not in WRITABLE[schema.type]:
            return False
        if schema.type is Type.MAP:
            return (node.kind == "map") is self._settings.has_string_keys(schema)
        return schema.type is not Type.ARRAY or not is_map_entry(node.element)

    def _union(self, schema: Schema, node: AvroNode) -> Convert:
        by_field = {
            branch_field(branch, index, self._settings): branch
            for index, branch in enumerate(node.branches)
        }
        choices: list[tuple[int, Convert]] = []
        for field in schema.fields:
            branch = by_field.get(self._settings.full_name(field.name))
            if branch is None:  # it was made by hand, or with other settings
                found = (b for b in node.branches if self._fits(field.schema, b))
                branch = next(found, None)
            if branch is None:
                raise DataException(f"{field.name} is none of the types of the union {_told(node)}")
            tag, encode = self._tag(node, branch), self._value(field.schema, branch)
            choices.append((field.index, _chained(encode, tag)))
        has_null = any(branch.kind == "null" for branch in node.branches)

        def union(value: Any) -> Any:
            if value is None:
                if has_null:
                    return None
                raise DataException(NULL_FOUND)
            values = _struct_values(schema, value)
            for index, encode in choices:
                if values[index] is not None:
                    return encode(values[index])
            if has_null:
                return None
            raise DataException("No field of the union is set")

        return union

    def _value(self, schema: Schema, node: AvroNode) -> Convert:
        if not self._fits(schema, node):
            raise DataException(f"{schema!r} can't be written as Avro's {node.key}")
        if schema.name in LOGICAL_TYPES:
            return self._logical(schema, node)
        if schema.type is Type.STRUCT:
            return self._record(schema, node)
        if schema.type is Type.ARRAY:
            each = self.of(schema.value_schema, node.element)
            return lambda value: [each(item) for item in _checked(schema, value, (list, tuple))]
        if schema.type is Type.MAP:
            return self._map(schema, node)
        if schema.type in INTEGER_BITS:
            return _integer(schema)
        accepted = ACCEPTED[schema.type]
        if schema.type is Type.BYTES:
            return lambda value: bytes(_checked(schema, value, accepted))
        return lambda value: _checked(schema, value, accepted)

    def _logical(self, schema: Schema, node: AvroNode) -> Convert:
        assert schema.name is not None
        kind, encode = LOGICAL_TYPES[schema.name], ENCODERS[schema.name]
        size = node.size if node.kind == "fixed" else 0

        def logical(value: Any) -> Any:
            raw = encode(schema, _checked(schema, value, (kind,)))
            if not size or not isinstance(raw, bytes):
                return raw
            if len(raw) > size:
                raise DataException(f"{value} needs {len(raw)} bytes, and {node.name} has {size}")
            return (b"\xff" if raw[0] & 0x80 else b"\0") * (size - len(raw)) + raw

        return logical

    def _map(self, schema: Schema, node: AvroNode) -> Convert:
        if node.kind == "map":
            values = self.of(schema.value_schema, node.element)
            return lambda value: {
                _checked_key(key): values(item)
                for key, item in _checked(schema, value, (dict,)).items()
            }
        types = {field.name: field.type for field in node.element.fields}
        keys = self.of(schema.key_schema, types["key"])
        values = self.of(schema.value_schema, types["value"])
        return lambda value: [
            {"key": keys(key), "value": values(item)}
            for key, item in _checked(schema, value, (dict,)).items()
        ]

    def _record(self, schema: Schema, node: AvroNode) -> Convert:
        by_name = {self._settings.scrubbed(field.name): field for field in schema.fields}
        plan: list[tuple[str, int, Any, Convert]] = []
        fixed: dict[str, Any] = {}
        for avro in node.fields:
            field = by_name.get(avro.name)
            if field is not None:
                default = None if self._settings.ignore_defaults else field.schema.default
                plan.append((avro.name, field.index, default, self.of(field.schema, avro.type)))
            elif avro.has_default:
                fixed[avro.name] = plain_default(avro.type, avro.default, self._binary)
            else:
                raise DataException(
                    f"{node.name} has a field {avro.name} without a default, and the record has not"
                )

        def record(value: Any) -> Any:
            values = _struct_values(schema, value)
            made = dict(fixed)
            for name, index, default, encode in plan:
                found = values[index]
                try:
                    made[name] = encode(default if found is None else found)
                except DataException as error:
                    raise DataException(f"{name}: {error}") from error
            return made

        return record


class AvroDecoders:
    def __init__(self, binary: AvroBinary, settings: AvroSettings) -> None:
        self._binary, self._settings = binary, settings

    def of(self, schema: Schema, node: AvroNode) -> Convert | None:
        """None: the value is what Connect has already."""
        if node.kind == "union":
            return self._in_union(schema, node)
        if schema.name in LOGICAL_TYPES:
            return _logical_decoder(schema)
        if schema.type is Type.STRUCT:
            return self._struct(schema, node)
        if schema.type is Type.ARRAY:
            each = self.of(schema.value_schema, node.element)
            return None if each is None else lambda value: [each(item) for item in value]
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
    """A default of an Avro field, as avro_binary reads it."""
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


def _integer(schema: Schema) -> Convert:
    half = 1 << INTEGER_BITS[schema.type] - 1

    def integer(value: Any) -> Any:
        if type(value) is int and -half <= value < half:
            return value
        raise DataException(f"Invalid value for {schema.type}: {value!r}")

    return integer


def _checked(schema: Schema, value: Any, accepted: tuple[type, ...]) -> Any:
    if isinstance(value, accepted) and (not isinstance(value, bool) or schema.type is Type.BOOLEAN):
        return value
    raise DataException(f"Invalid type for {schema.type}: {type(value).__name__}")


def _checked_key(value: Any) -> Any:
    if type(value) is str:
        return value
    raise DataException(f"Invalid type for the key of a map: {type(value).__name__}")


def _struct_values(schema: Schema, value: Any) -> list[Any]:
    if type(value) is not Struct:
        raise DataException(f"Invalid type for STRUCT: {type(value).__name__}")
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching struct schema")
    return value._values


def _chained(first: Convert, second: Convert) -> Convert:
    return lambda value: second(first(value))


def _same(value: Any) -> Any:
    return value


def _told(union: AvroNode) -> str:
    return f"[{', '.join(branch.key for branch in union.branches)}]"
