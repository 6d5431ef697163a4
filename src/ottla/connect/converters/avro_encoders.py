"""Connect values -> plain values for avro_binary; compiled once per pair of schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.connect.converters.avro_binary import AvroBinary
from ottla.connect.converters.avro_decoders import plain_default
from ottla.connect.converters.avro_settings import AvroSettings, is_union
from ottla.connect.converters.connect_from_avro import branch_field, is_map_entry
from ottla.connect.data import Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.logical_types import LOGICAL_TYPE_ENCODERS
from ottla.connect.schema import INTEGER_BITS, LOGICAL_TYPES
from ottla.schemas.avro.node import AvroNode

Convert = Callable[[Any], Any]
ACCEPTED: Final[dict[Type, tuple[type, ...]]] = {
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
}
# Connect type -> the Avro types that its values can be written as.
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
        """A value of a union: the branch that it matches, or null."""
        fitting = [branch for branch in node.branches if self._fits(schema, branch)]
        if not fitting:
            raise DataException(
                f"{schema!r} is none of the types of the union {_branches_text(node)}"
            )
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
            name = self._binary.name(branch)  # so fastavro need not search for a matching branch
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
            if branch is None:  # a schema written by hand, or with other settings
                found = (b for b in node.branches if self._fits(field.schema, b))
                branch = next(found, None)
            if branch is None:
                raise DataException(
                    f"{field.name} is none of the types of the union {_branches_text(node)}"
                )
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
            convert_item = self.of(schema.value_schema, node.element)
            return lambda value: [
                convert_item(item) for item in _checked(schema, value, (list, tuple))
            ]
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
        kind, encode = LOGICAL_TYPES[schema.name], LOGICAL_TYPE_ENCODERS[schema.name]
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


def _branches_text(union: AvroNode) -> str:
    return f"[{', '.join(branch.key for branch in union.branches)}]"
