"""Schemas of keys and values: Kafka Connect's types, with names, versions, defaults.

A value in Python, by its type:

    INT8 to INT64 int     FLOAT32, FLOAT64 float     BOOLEAN bool     STRING str     BYTES bytes
    ARRAY list            MAP dict                   STRUCT Struct
    Decimal decimal.Decimal    Date datetime.date    Time datetime.time
    Timestamp datetime.datetime with a time zone (UTC if the framework created it)

Schemas are immutable, so that converters can cache what they compile for one.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

from ottla.connect.errors import DataException, SchemaBuilderException

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"


class Type(Enum):
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    # The enum's name, as Kafka's toString(); the value is getName().
    def __str__(self) -> str:
        return self.name

    __hash__ = object.__hash__  # Enum's own hashes the name, which is slow on the record path


PRIMITIVE: Final = frozenset(
    {
        Type.INT8,
        Type.INT16,
        Type.INT32,
        Type.INT64,
        Type.FLOAT32,
        Type.FLOAT64,
        Type.BOOLEAN,
        Type.STRING,
        Type.BYTES,
    }
)


class Field:
    """One field of a struct: its name, index and schema."""

    __slots__ = ("index", "name", "schema")

    def __init__(self, name: str, index: int, schema: Schema) -> None:
        self.name = name
        self.index = index
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Field):
            return NotImplemented
        mine = (self.name, self.index, self.schema)
        return self is other or mine == (other.name, other.index, other.schema)

    def __hash__(self) -> int:
        return hash((self.name, self.index, self.schema))

    def __repr__(self) -> str:
        return f"Field(name={self.name}, index={self.index}, schema={self.schema!r})"


class Schema:
    """The type of a value, whether it is optional, and its metadata."""

    __slots__ = (
        "_by_name",
        "_fields",
        "_hash",
        "_key_schema",
        "_value_schema",
        "default",
        "doc",
        "name",
        "optional",
        "parameters",
        "type",
        "version",
    )

    def __init__(
        self,
        type: Type,
        *,
        optional: bool = False,
        default: Any = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: Mapping[str, Schema] | Iterable[tuple[str, Schema]] = (),
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        self.type = type
        self.optional = optional
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters = dict(parameters) if parameters is not None else None
        self._key_schema = key_schema
        self._value_schema = value_schema
        self._hash: int | None = None
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        self._fields = tuple(Field(field, i, schema) for i, (field, schema) in enumerate(pairs))
        self._by_name: dict[str, Field] = {}
        for field in self._fields:
            if field.name in self._by_name:
                raise SchemaBuilderException(
                    f"Cannot create field because of field name duplication {field.name}"
                )
            self._by_name[field.name] = field
        self.default: Any = None
        if default is not None:
            check_default(self, default)
            self.default = default

    @property
    def fields(self) -> tuple[Field, ...]:
        if self.type is not Type.STRUCT:
            raise DataException("Cannot list fields on non-struct type")
        return self._fields

    def field(self, name: str) -> Field | None:
        if self.type is not Type.STRUCT:
            raise DataException("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    @property
    def key_schema(self) -> Schema:
        if self.type is not Type.MAP:
            raise DataException("Cannot look up key schema on non-map type")
        assert self._key_schema is not None, "a map without a key schema"
        return self._key_schema

    @property
    def value_schema(self) -> Schema:
        if self.type is not Type.MAP and self.type is not Type.ARRAY:
            raise DataException("Cannot look up value schema on non-array and non-map type")
        assert self._value_schema is not None, "an array or map without a value schema"
        return self._value_schema

    def replace(self, **changes: Any) -> Schema:
        """A copy with some parts changed; names as in the constructor."""
        parts: dict[str, Any] = {
            "type": self.type,
            "optional": self.optional,
            "default": self.default,
            "name": self.name,
            "version": self.version,
            "doc": self.doc,
            "parameters": self.parameters,
            "fields": [(field.name, field.schema) for field in self._fields],
            "key_schema": self._key_schema,
            "value_schema": self._value_schema,
        }
        return Schema(**(parts | changes))

    def as_optional(self) -> Schema:
        return self if self.optional else self.replace(optional=True)

    def validate(self, value: Any) -> None:
        """Raises DataException unless the value fits."""
        validate_value(self, value)

    def _parts(self) -> tuple[Any, ...]:
        parameters = tuple(sorted(self.parameters.items())) if self.parameters else None
        return (
            self.type,
            self.optional,
            self.version,
            self.name,
            self.doc,
            parameters,
            self._fields,
            self._key_schema,
            self._value_schema,
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        if hash(self) != hash(other):
            return False
        return self._parts() == other._parts() and bool(self.default == other.default)

    # Computed once per schema, without the default, which may be an unhashable list.
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._parts())
        return self._hash

    def __repr__(self) -> str:
        return f"Schema{{{self.name}:{self.type}}}" if self.name else f"Schema{{{self.type}}}"

    def __reduce__(self) -> tuple[Any, ...]:  # without the hash, which differs between processes
        return _restored, (
            self.type,
            self.optional,
            self.default,
            self.name,
            self.version,
            self.doc,
            self.parameters,
            [(field.name, field.schema) for field in self._fields],
            self._key_schema,
            self._value_schema,
        )


def _restored(*parts: Any) -> Schema:
    names = ("type", "optional", "default", "name", "version", "doc", "parameters", "fields")
    return Schema(**dict(zip((*names, "key_schema", "value_schema"), parts, strict=True)))


# Values against schemas.

PYTHON_TYPES: Final[dict[Type, tuple[type, ...]]] = {
    Type.INT8: (int,),
    Type.INT16: (int,),
    Type.INT32: (int,),
    Type.INT64: (int,),
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (dict,),
}
LOGICAL_TYPES: Final[dict[str, type]] = {
    DECIMAL: decimal.Decimal,
    DATE: datetime.date,
    TIME: datetime.time,
    TIMESTAMP: datetime.datetime,
}
NUMBERS: Final = frozenset(
    {Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64}
)
INTEGER_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def validate_value(schema: Schema, value: Any, where: str = "value") -> None:
    """Raises DataException, in Kafka's words, unless the value fits its schema."""
    if value is None:
        if schema.optional:
            return
        raise DataException(
            f"Invalid value: null used for required {where}, schema type: {schema.type}"
        )
    if not _is_of(schema, value):
        named = f' "{schema.name}"' if schema.name is not None else ""
        raise DataException(
            f"Invalid Python object for schema{named} with type {schema.type}: "
            f"{type(value).__name__} for {where}"
        )
    within = _WITHIN.get(schema.type)
    if within is not None:
        within(schema, value, where)


def _is_of(schema: Schema, value: Any) -> bool:
    logical = LOGICAL_TYPES.get(schema.name) if schema.name is not None else None
    if logical is not None:
        # A datetime is a date too, but it isn't a day.
        return isinstance(value, logical) and not (
            logical is datetime.date and isinstance(value, datetime.datetime)
        )
    if schema.type is Type.STRUCT:
        return hasattr(value, "schema") and hasattr(value, "validate")
    if not isinstance(value, PYTHON_TYPES[schema.type]):
        return False
    return not (isinstance(value, bool) and schema.type in NUMBERS)


def _integer(schema: Schema, value: Any, where: str) -> None:
    if schema.name in LOGICAL_TYPES:
        return
    bits = INTEGER_BITS[schema.type]
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise DataException(f"Invalid value: {value} is out of range of {schema.type} for {where}")


def _struct(schema: Schema, value: Any, where: str) -> None:
    if value.schema is not schema and value.schema != schema:
        raise DataException("Struct schemas do not match.")
    value.validate()


def _array(schema: Schema, value: Any, where: str) -> None:
    inner, place = schema.value_schema, f"element of array {where}"
    for item in value:
        validate_value(inner, item, place)


def _map(schema: Schema, value: Any, where: str) -> None:
    keys, values = schema.key_schema, schema.value_schema
    for key, item in value.items():
        validate_value(keys, key, f"key of map {where}")
        validate_value(values, item, f"value of map {where}")


_WITHIN: Final[dict[Type, Callable[[Schema, Any, str], None]]] = {
    Type.INT8: _integer,
    Type.INT16: _integer,
    Type.INT32: _integer,
    Type.INT64: _integer,
    Type.STRUCT: _struct,
    Type.ARRAY: _array,
    Type.MAP: _map,
}


def check_default(schema: Schema, default: Any) -> None:
    try:
        validate_value(schema, default)
    except DataException as error:
        raise SchemaBuilderException("Invalid default value") from error


# Schemas by short names.

INT8_SCHEMA: Final = Schema(Type.INT8)
INT16_SCHEMA: Final = Schema(Type.INT16)
INT32_SCHEMA: Final = Schema(Type.INT32)
INT64_SCHEMA: Final = Schema(Type.INT64)
FLOAT32_SCHEMA: Final = Schema(Type.FLOAT32)
FLOAT64_SCHEMA: Final = Schema(Type.FLOAT64)
BOOLEAN_SCHEMA: Final = Schema(Type.BOOLEAN)
STRING_SCHEMA: Final = Schema(Type.STRING)
BYTES_SCHEMA: Final = Schema(Type.BYTES)

OPTIONAL_INT8_SCHEMA: Final = Schema(Type.INT8, optional=True)
OPTIONAL_INT16_SCHEMA: Final = Schema(Type.INT16, optional=True)
OPTIONAL_INT32_SCHEMA: Final = Schema(Type.INT32, optional=True)
OPTIONAL_INT64_SCHEMA: Final = Schema(Type.INT64, optional=True)
OPTIONAL_FLOAT32_SCHEMA: Final = Schema(Type.FLOAT32, optional=True)
OPTIONAL_FLOAT64_SCHEMA: Final = Schema(Type.FLOAT64, optional=True)
OPTIONAL_BOOLEAN_SCHEMA: Final = Schema(Type.BOOLEAN, optional=True)
OPTIONAL_STRING_SCHEMA: Final = Schema(Type.STRING, optional=True)
OPTIONAL_BYTES_SCHEMA: Final = Schema(Type.BYTES, optional=True)


def struct_schema(
    fields: Mapping[str, Schema] | Iterable[tuple[str, Schema]], **described: Any
) -> Schema:
    return Schema(Type.STRUCT, fields=fields, **described)


def array_schema(values: Schema, **described: Any) -> Schema:
    return Schema(Type.ARRAY, value_schema=values, **described)


def map_schema(keys: Schema, values: Schema, **described: Any) -> Schema:
    return Schema(Type.MAP, key_schema=keys, value_schema=values, **described)


def decimal_schema(scale: int, **described: Any) -> Schema:
    parameters = {SCALE: str(scale)} | described.pop("parameters", {})
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters, **described)


def date_schema(**described: Any) -> Schema:
    return Schema(Type.INT32, name=DATE, version=1, **described)


def time_schema(**described: Any) -> Schema:
    return Schema(Type.INT32, name=TIME, version=1, **described)


def timestamp_schema(**described: Any) -> Schema:
    return Schema(Type.INT64, name=TIMESTAMP, version=1, **described)
