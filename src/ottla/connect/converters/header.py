"""SimpleHeaderConverter, the default: text, whose type is inferred."""

from __future__ import annotations

import logging
from typing import Any

from ottla.connect.converters.converter import NULL, HeaderConverter, SchemaAndValue
from ottla.connect.data import BYTES_SCHEMA, Schema
from ottla.connect.values import parse_string, text_of

log = logging.getLogger("ottla.connect")


class SimpleHeaderConverter(HeaderConverter):
    def from_connect_header(
        self, topic: str, name: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        text = text_of(value)
        return None if text is None else text.encode()

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            return parse_string(str(data, "utf-8", "replace"))
        except Exception:
            message = (
                "Failed to deserialize value for header '%s' on topic '%s', so using byte array"
            )
            log.warning(message, name, topic, exc_info=True)
            return BYTES_SCHEMA, data
