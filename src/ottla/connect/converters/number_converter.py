"""Converters for numbers of one type: Short, Integer, Long, Float, Double."""

from __future__ import annotations

from typing import Any, ClassVar

from ottla.client.serde import DOUBLE, FLOAT, INTEGER, LONG, SHORT, Serde, SerializationError
from ottla.connect.converters.converter import Converter, SchemaAndValue
from ottla.connect.data import (
    OPTIONAL_FLOAT32_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT16_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    Schema,
)
from ottla.connect.errors import DataException
from ottla.rows.java.text import float32


class NumberConverter(Converter):
    """A number of fixed width, big endian, as Kafka's serializers write it."""

    serde: ClassVar[Serde[Any]]
    type_name: ClassVar[str]
    schema: ClassVar[Schema]
    kinds: ClassVar[tuple[type, ...]] = (int,)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is not None and schema.type is not self.schema.type:
            raise DataException(f"Failed to serialize to {self.type_name} (was {schema.type}): ")
        if not isinstance(value, self.kinds) or isinstance(value, bool):
            raise DataException(
                f"Failed to serialize to {self.type_name} (was {type(value).__name__}): "
            )
        try:
            return self.serde.to_bytes(value)
        except SerializationError as error:
            raise DataException(f"Failed to serialize to {self.type_name}: ") from error

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return self.schema, None
        try:
            return self.schema, self.serde.from_bytes(data)
        except SerializationError as error:
            raise DataException(f"Failed to deserialize {self.type_name}: ") from error


class ShortConverter(NumberConverter):
    serde = SHORT
    type_name = "short"
    schema = OPTIONAL_INT16_SCHEMA


class IntegerConverter(NumberConverter):
    serde = INTEGER
    type_name = "integer"
    schema = OPTIONAL_INT32_SCHEMA


class LongConverter(NumberConverter):
    serde = LONG
    type_name = "long"
    schema = OPTIONAL_INT64_SCHEMA


class FloatConverter(NumberConverter):
    serde = FLOAT
    type_name = "float"
    schema = OPTIONAL_FLOAT32_SCHEMA
    kinds = (float, int)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        schema, value = super().to_connect(topic, data)
        return schema, None if value is None else float32(value)


class DoubleConverter(NumberConverter):
    serde = DOUBLE
    type_name = "double"
    schema = OPTIONAL_FLOAT64_SCHEMA
    kinds = (float, int)
