"""BooleanConverter: one byte, 0 or 1."""

from __future__ import annotations

from typing import Any

from ottla.client.serde import BOOLEAN, SerializationError
from ottla.connect.converters.converter import Converter, SchemaAndValue
from ottla.connect.data import OPTIONAL_BOOLEAN_SCHEMA, Schema, Type
from ottla.connect.errors import DataException


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
