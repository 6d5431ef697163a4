"""StringConverter: text in any encoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance, Width
from ottla.connect.converters.converter import Converter, SchemaAndValue, converter_config
from ottla.connect.data import OPTIONAL_STRING_SCHEMA, Schema
from ottla.connect.errors import DataException
from ottla.rows.java.text import java_text


class StringConverter(Converter):
    """Text in `converter.encoding`; other values are written as Java's toString."""

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
        # Like Java, replace bytes that are invalid in the encoding rather than fail.
        text = None if data is None else str(data, self._encoding, "replace")
        return OPTIONAL_STRING_SCHEMA, text
