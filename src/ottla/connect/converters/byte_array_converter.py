"""ByteArrayConverter: bytes, unchanged."""

from __future__ import annotations

from typing import Any

from ottla.connect.converters.converter import Converter, SchemaAndValue
from ottla.connect.data import OPTIONAL_BYTES_SCHEMA, Schema, Type
from ottla.connect.errors import DataException


class ByteArrayConverter(Converter):
    """Bytes, unchanged."""

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
