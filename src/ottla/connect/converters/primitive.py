"""Converters for one type each: strings, bytes, numbers, booleans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.client.serde import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    Serde,
    SerializationError,
)
from ottla.connect.config import ConfigDef, ConfigType, Importance, Width
from ottla.connect.converters.converter import Converter, SchemaAndValue, converter_config
from ottla.connect.data import (
    OPTIONAL_BOOLEAN_SCHEMA,
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_FLOAT32_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT16_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    Schema,
    Type,
)
from ottla.connect.errors import DataException
from ottla.rows.java.text import float32, java_text


class StringConverter(Converter):
    """Text in `converter.encoding`; what is no text is written as Java's toString."""

    def config_def(self) -> ConfigDef:
        return converter_config().define(
            "converter.encoding",
            ConfigType.STRING,
            "UTF-8",
            Importance.HIGH,
            "The character encoding of the bytes.",
            width=Width.MEDIUM,
            display_name="Encoding",
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._encoding = str(self.config_def().parse(props)["converter.encoding"])
        try:
            "".encode(self._encoding)
        except LookupError:
            raise DataException(f"Failed to serialize to a string: {self._encoding}") from None

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        text = value if type(value) is str else java_text(value)
        return text.encode(self._encoding, "replace")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        # Java replaces what is no text of the encoding; it never fails.
        text = None if data is None else str(data, self._encoding, "replace")
        return OPTIONAL_STRING_SCHEMA, text


class ByteArrayConverter(Converter):
    """Bytes as they are."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataException(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytearray | memoryview | bytes):
            return bytes(value)
        raise DataException(
            f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}"
        )

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return OPTIONAL_BYTES_SCHEMA, data


class BooleanConverter(Converter):
    """One byte: 0 or 1."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataException(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataException(
                f"BooleanConverter is not compatible with objects of type {type(value).__name__}"
            )
        return BOOLEAN.to_bytes(value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return OPTIONAL_BOOLEAN_SCHEMA, None
        try:
            return OPTIONAL_BOOLEAN_SCHEMA, BOOLEAN.from_bytes(data)
        except SerializationError as error:
            raise DataException("Failed to deserialize boolean: ") from error


class NumberConverter(Converter):
    """A number of a fixed width, big endian, as Kafka's serializers write it."""

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
