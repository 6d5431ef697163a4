"""The base classes. `configure` is called first, then one thread at a time converts."""

from __future__ import annotations

from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.configurable import Configurable
from ottla.connect.data import Schema
from ottla.connect.validators import one_of

SchemaAndValue = tuple[Schema | None, Any]
NULL: SchemaAndValue = (None, None)


def converter_config() -> ConfigDef:
    """The framework sets `converter.type`: key, value or header."""
    return ConfigDef().define(
        "converter.type",
        ConfigType.STRING,
        importance=Importance.LOW,
        doc="What the converter converts: key, value or header.",
        validator=one_of("key", "value", "header"),
    )


class HeaderConverter(Configurable):
    """Header values <-> bytes."""

    def from_connect_header(
        self, topic: str, name: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        raise NotImplementedError

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        raise NotImplementedError


class Converter(HeaderConverter):
    """Keys and values <-> bytes, and header values as well."""

    reads_schema_headers = False
    """True if a record header may hold the schema id, instead of the data's first bytes."""

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
