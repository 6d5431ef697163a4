"""What a converter is. `configure` comes first; then it may be called from one thread at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema
from ottla.connect.validators import one_of

SchemaAndValue = tuple[Schema | None, Any]
NULL: SchemaAndValue = (None, None)


def converter_config() -> ConfigDef:
    """`converter.type` is set by the runtime: key, value or header."""
    return ConfigDef().define(
        "converter.type",
        ConfigType.STRING,
        importance=Importance.LOW,
        doc="What is converted: the key, the value or a header.",
        validator=one_of("key", "value", "header"),
    )


class HeaderConverter:
    """Values of headers <-> bytes."""

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, props: Mapping[str, Any]) -> None:
        pass

    def from_connect_header(
        self, topic: str, name: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        raise NotImplementedError

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        raise NotImplementedError

    def version(self) -> str:
        return "undefined"

    def close(self) -> None:
        pass


class Converter(HeaderConverter):
    """Keys and values <-> bytes; each converter of ours does headers too."""

    reads_schema_headers = False
    """Whether a header of the record may have what names the schema, instead of the data."""

    def config_def(self) -> ConfigDef:
        return converter_config()

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        raise NotImplementedError

    def from_connect_header(
        self, topic: str, name: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect(topic, data)
