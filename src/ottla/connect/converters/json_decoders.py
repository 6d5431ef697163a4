"""Values from orjson -> values with schemas; each schema is compiled once to a function.

As lenient as Kafka's: a number is truncated to the width of its field, text for a number becomes 0.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.logical_types import decimal_from_bytes, from_days, from_millis, from_time_millis
from ottla.connect.schema import LOGICAL_TYPES, validate_value
from ottla.rows.java.text import float32

Decoder = Callable[[Any], Any]
SHAPES_MAX: Final = 64  # cached per struct schema; each combination of nulls is one
PLAIN: Final = {Type.BOOLEAN: bool, Type.STRING: str, Type.FLOAT64: float}


class JsonDecoders:
    """Compiles schemas; `replace_null` is a setting of the converter."""

    def __init__(self, replace_null: bool) -> None:
        self._replace_null = replace_null

    def of(self, schema: Schema) -> Decoder:
        whole = self._of_value(schema)
        default = schema.default if self._replace_null else None

        def decode(value: Any) -> Any:
            if value is not None:
                return whole(value)
            if default is not None:
                return default
            if schema.optional:
                return None
            raise DataException(f"Invalid null value for required {schema.type} field")

        return decode

    def _of_value(self, schema: Schema) -> Decoder:
        if schema.name in LOGICAL_TYPES:
            return _logical(schema)
        if schema.type is Type.STRUCT:
            return self._struct(schema)
        if schema.type is Type.ARRAY:
            return self._array(schema)
        if schema.type is Type.MAP:
            return self._map(schema)
        return _SCALARS[schema.type]

    def _array(self, schema: Schema) -> Decoder:
        convert_item = self.of(schema.value_schema)

        def array(value: Any) -> Any:
            items = value if isinstance(value, list) else []
            if isinstance(value, dict):
                items = list(value.values())  # as Jackson iterates over an object
            return [convert_item(item) for item in items]

        return array

    def _map(self, schema: Schema) -> Decoder:
        of_key, of_value = self.of(schema.key_schema), self.of(schema.value_schema)
        if schema.key_schema.type is Type.STRING:

            def from_object(value: Any) -> Any:
                if not isinstance(value, dict):
                    raise DataException(
                        "Maps with string fields should be encoded as JSON objects, "
                        f"but found {node_type(value)}"
                    )
                return {key: of_value(item) for key, item in value.items()}

            return from_object

        def from_pairs(value: Any) -> Any:
            if not isinstance(value, list):
                raise DataException(
                    "Maps with non-string fields should be encoded as JSON array of tuples, "
                    f"but found {node_type(value)}"
                )
            return dict(_entry(item, of_key, of_value) for item in value)

        return from_pairs

    def _struct(self, schema: Schema) -> Decoder:
        names = [field.name for field in schema.fields]
        decoders = [self.of(field.schema) for field in schema.fields]
        # By the types of the values: the fields that need conversion.
        plans: dict[tuple[type, ...], list[tuple[int, Decoder]]] = {}

        def struct(value: Any) -> Any:
            if type(value) is not dict:
                raise DataException(
                    f"Structs should be encoded as JSON objects, but found {node_type(value)}"
                )
            get = value.get
            values = [get(name) for name in names]
            shape = tuple(map(type, values))
            plan = plans.get(shape)
            if plan is None:
                plan = self._others(schema, values, decoders)
                if len(plans) < SHAPES_MAX:
                    plans[shape] = plan
            for index, decode in plan:
                values[index] = decode(values[index])
            return Struct.of(schema, values)

        return struct

    def _others(
        self, schema: Schema, values: list[Any], decoders: list[Decoder]
    ) -> list[tuple[int, Decoder]]:
        return [
            (field.index, _checked(field, decode))
            for field, value, decode in zip(schema.fields, values, decoders, strict=True)
            if not self._is_plain(field.schema, value)
        ]

    def _is_plain(self, schema: Schema, value: Any) -> bool:
        """True if a JSON value of this type needs no conversion. An integer may be too large."""
        if value is None:
            return schema.optional and (schema.default is None or not self._replace_null)
        kind = PLAIN.get(schema.type) if schema.name not in LOGICAL_TYPES else None
        return type(value) is kind


def _checked(field: Field, decode: Decoder) -> Decoder:
    """A number where text is expected becomes null, which the field may not allow."""

    def checked(value: Any) -> Any:
        decoded = decode(value)
        if decoded is None:
            validate_value(field.schema, decoded, f'field: "{field.name}"')
        return decoded

    return checked if field.schema.type in (Type.STRING, Type.BYTES) else decode


def _entry(entry: Any, of_key: Decoder, of_value: Decoder) -> tuple[Any, Any]:
    if not isinstance(entry, list):
        raise DataException(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
    if len(entry) != 2:
        raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
    return of_key(entry[0]), of_value(entry[1])


# Scalars, as Jackson's intValue(), textValue() and so on convert them.


def _integer(bits: int) -> Decoder:
    half, whole = 1 << bits - 1, 1 << bits

    def integer(value: Any) -> int:
        if type(value) is int and -half <= value < half:  # the usual case, in one step
            return value
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return 0
        return (int(value) + half) % whole - half

    return integer


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return 0.0
    return float(value)


def _binary(value: Any) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, struct.error, ValueError) as error:
        raise DataException("Invalid bytes field") from error


_SCALARS: Final[dict[Type, Decoder]] = {
    Type.BOOLEAN: lambda value: value is True,
    Type.INT8: _integer(8),
    Type.INT16: _integer(16),
    Type.INT32: _integer(32),
    Type.INT64: _integer(64),
    Type.FLOAT32: lambda value: float32(_number(value)),
    Type.FLOAT64: _number,
    Type.STRING: lambda value: value if isinstance(value, str) else None,
    Type.BYTES: _binary,
}


def _logical(schema: Schema) -> Decoder:
    if schema.name == DECIMAL:
        return lambda value: _decimal(schema, value)
    made: Callable[[int], Any] = {DATE: from_days, TIME: from_time_millis, TIMESTAMP: from_millis}[
        schema.name or ""
    ]
    short = (schema.name or "").rpartition(".")[2]
    expected = "integral" if schema.name == TIMESTAMP else "integer"

    def logical(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            raise DataException(
                f"Invalid type for {short}, underlying representation should be {expected} "
                f"but was {node_type(value)}"
            )
        return made(value)

    return logical


def _decimal(schema: Schema, value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    if isinstance(value, str):
        try:
            return decimal_from_bytes(schema, base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError) as error:
            raise DataException("Invalid bytes for Decimal field") from error
    raise DataException(
        "Invalid type for Decimal, underlying representation should be numeric or bytes "
        f"but was {node_type(value)}"
    )


def node_type(value: Any) -> str:
    """Jackson's name for the node's type."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "BOOLEAN"
    for kind, name in ((dict, "OBJECT"), (list, "ARRAY"), (str, "STRING")):
        if isinstance(value, kind):
            return name
    return "NUMBER"


def decimals_in(schema: Schema | None) -> bool:
    """True if numbers must be parsed with all their digits."""
    if schema is None:
        return False
    if schema.name == DECIMAL:
        return True
    if schema.type is Type.STRUCT:
        return any(decimals_in(field.schema) for field in schema.fields)
    if schema.type is Type.ARRAY:
        return decimals_in(schema.value_schema)
    if schema.type is Type.MAP:
        return decimals_in(schema.key_schema) or decimals_in(schema.value_schema)
    return False
