"""Values with schemas -> values for orjson.

Each schema is compiled once to a function. Most fields are plain numbers and strings, which need no
conversion, so a struct checks the types of all its values at once.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.connect.data import DECIMAL, Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.logical_types import LOGICAL_TYPE_ENCODERS
from ottla.connect.schema import INTEGER_BITS, LOGICAL_TYPES
from ottla.rows.java.text import java_double

Encoder = Callable[[Any], Any]
SHAPES_MAX: Final = 64  # cached per struct schema; each combination of nulls is one
EXACT: Final = {
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
} | dict.fromkeys(INTEGER_BITS, int)


class JsonEncoders:
    """Compiles schemas; `numeric_decimals` and `replace_null` are settings of the converter."""

    def __init__(self, numeric_decimals: bool, replace_null: bool) -> None:
        self._numeric = numeric_decimals
        self._replace_null = replace_null

    def of(self, schema: Schema) -> Encoder:
        whole = self._of_value(schema)
        default = self._default(schema)

        def encode(value: Any) -> Any:
            if value is not None:
                return whole(value)
            if default is not None:
                return whole(default)
            if schema.optional:
                return None
            raise DataException(
                "Conversion error: null value for field that is required and has no default value"
            )

        return encode

    def _default(self, schema: Schema) -> Any:
        return schema.default if self._replace_null else None

    def _of_value(self, schema: Schema) -> Encoder:
        if schema.name in LOGICAL_TYPES:
            return self._logical(schema)
        if schema.type is Type.STRUCT:
            return self._struct(schema)
        if schema.type is Type.ARRAY:
            return self._array(schema)
        if schema.type is Type.MAP:
            return self._map(schema)
        if schema.type is Type.BYTES:
            return _bytes
        return _exact(schema)

    def _logical(self, schema: Schema) -> Encoder:
        assert schema.name is not None, "logical types are known by their name"
        kind, encode = LOGICAL_TYPES[schema.name], LOGICAL_TYPE_ENCODERS[schema.name]
        short = schema.name.rpartition(".")[2]
        numeric = self._numeric

        def logical(value: Any) -> Any:
            if not isinstance(value, kind):
                raise DataException(
                    f"Invalid type for {short}, expected {kind.__name__} "
                    f"but was {type(value).__name__}"
                )
            if schema.name != DECIMAL:
                return encode(schema, value)
            return value if numeric else _bytes(encode(schema, value))

        return logical

    def _array(self, schema: Schema) -> Encoder:
        convert_item = self.of(schema.value_schema)

        def array(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                raise _wrong(schema, value)
            return [convert_item(item) for item in value]

        return array

    def _map(self, schema: Schema) -> Encoder:
        """An object if the keys are strings, else a list of pairs."""
        of_key, of_value = self.of(schema.key_schema), self.of(schema.value_schema)
        as_object = schema.key_schema.type is Type.STRING

        def mapping(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _wrong(schema, value)
            pairs = [[of_key(key), of_value(item)] for key, item in value.items()]
            return dict(pairs) if as_object else pairs

        return mapping

    def _struct(self, schema: Schema) -> Encoder:
        names = [field.name for field in schema.fields]
        encoders = [self.of(field.schema) for field in schema.fields]
        # By the types of the values: the fields that need conversion.
        plans: dict[tuple[type, ...], list[tuple[str, Encoder]]] = {}

        def struct(value: Any) -> Any:
            if type(value) is not Struct:
                raise _wrong(schema, value)
            if value.schema is not schema and value.schema != schema:
                raise DataException("Mismatching schema.")
            values = value._values
            shape = tuple(map(type, values))
            plan = plans.get(shape)
            if plan is None:
                plan = self._others(schema, values, encoders)
                if len(plans) < SHAPES_MAX:
                    plans[shape] = plan
            encoded = dict(zip(names, values, strict=True))
            for name, encode in plan:
                encoded[name] = encode(encoded[name])
            return encoded

        return struct

    def _others(
        self, schema: Schema, values: list[Any], encoders: list[Encoder]
    ) -> list[tuple[str, Encoder]]:
        return [
            (field.name, encode)
            for field, value, encode in zip(schema.fields, values, encoders, strict=True)
            if not self._is_plain(field.schema, value)
        ]

    def _is_plain(self, schema: Schema, value: Any) -> bool:
        """True if no value of this type needs conversion. A float may be NaN."""
        if value is None:
            return schema.optional and self._default(schema) is None
        kind = EXACT.get(schema.type) if schema.name not in LOGICAL_TYPES else None
        return type(value) is kind and kind is not float


def _exact(schema: Schema) -> Encoder:
    kind = EXACT[schema.type]
    if kind is float:
        return _floats(schema)

    def exact(value: Any) -> Any:
        if type(value) is not kind:
            raise _wrong(schema, value)
        return value

    return exact


def _floats(schema: Schema) -> Encoder:
    def encode(value: Any) -> Any:
        if type(value) is float and value - value == 0.0:  # the usual case, in one step
            return value
        if type(value) is not float and type(value) is not int:
            raise _wrong(schema, value)
        return float_json(float(value))

    return encode


def float_json(value: float) -> Any:
    """NaN and infinity become strings, as in Kafka's JSON."""
    return value if math.isfinite(value) else java_double(value)


def _bytes(value: Any) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise DataException(f"Invalid type for bytes type: {type(value).__name__}")
    return base64.b64encode(value).decode()


def _wrong(schema: Schema, value: Any) -> DataException:
    return DataException(f"Invalid type for {schema.type}: {type(value).__name__}")


def encode_schemaless(value: Any) -> Any:
    """A value without a schema, where orjson alone would differ from Kafka."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float_json(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(value)
    if isinstance(value, list | tuple):
        return [encode_schemaless(item) for item in value]
    if isinstance(value, dict):
        pairs = [[encode_schemaless(k), encode_schemaless(v)] for k, v in value.items()]
        return dict(pairs) if all(isinstance(key, str) for key in value) else pairs
    if isinstance(value, Struct):
        raise DataException("Mismatching schema.")
    raise DataException(
        f"Python class {type(value).__name__} does not have corresponding schema type."
    )


def has_decimal(value: Any) -> bool:
    """orjson cannot write Decimal: with decimal.format=NUMERIC json does."""
    if isinstance(value, dict):
        return any(has_decimal(item) for item in value.values())
    if isinstance(value, list):
        return any(has_decimal(item) for item in value)
    return isinstance(value, Decimal)
