"""Where a record goes: RegexRouter, TimestampRouter, and ValueToKey for its partition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct, struct_schema
from ottla.connect.errors import DataException, IllegalArgumentException
from ottla.connect.logical import from_millis
from ottla.connect.schema_cache import Cache
from ottla.connect.transforms.transform import (
    R,
    Transform,
    replace_null_config,
    require_map,
    require_struct,
)
from ottla.connect.validators import regex, some_distinct
from ottla.rows.java.date_format import DateFormat
from ottla.rows.java.regular_expressions import compile_java, replace_first


class RegexRouter(Transform):
    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("regex", ConfigType.STRING, importance=Importance.HIGH,
                    doc="An expression that must match the whole name of the topic.",
                    validator=regex)
            .define("replacement", ConfigType.STRING, importance=Importance.HIGH,
                    doc="The new name; $1 and so on are groups of the expression.")
        )  # fmt: skip

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._pattern = compile_java(settings["regex"])
        self._replacement = str(settings["replacement"])
        self._routes: dict[str, str] = {}  # a connector's topics are few

    def apply(self, record: R) -> R | None:
        topic = record.topic
        routed = self._routes.get(topic)
        if routed is None:
            routed = self._routed(topic)
            if len(self._routes) < 10_000:
                self._routes[topic] = routed
        return record if routed == topic else record.replace(topic=routed)

    def _routed(self, topic: str) -> str:
        if self._pattern.fullmatch(topic) is None:
            return topic
        try:
            return replace_first(self._pattern, self._replacement, topic)
        except re.error as error:
            raise IllegalArgumentException(str(error)) from None


class TimestampRouter(Transform):
    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("topic.format", ConfigType.STRING, "${topic}-${timestamp}", Importance.HIGH,
                    "The new name, with ${topic} and ${timestamp} in it.")
            .define("timestamp.format", ConfigType.STRING, "yyyyMMdd", Importance.HIGH,
                    "How the timestamp is written, in UTC: a pattern of Java's SimpleDateFormat.")
        )  # fmt: skip

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._topic_format = str(settings["topic.format"])
        try:
            self._date_format = DateFormat(settings["timestamp.format"])
        except ValueError as error:
            raise IllegalArgumentException(str(error)) from None

    def apply(self, record: R) -> R | None:
        if record.timestamp is None:
            raise DataException(f"Timestamp missing on record: {record}")
        timestamp = self._date_format.format(from_millis(record.timestamp))
        with_topic = self._topic_format.replace("${topic}", record.topic)
        return record.replace(topic=with_topic.replace("${timestamp}", timestamp))


class ValueToKey(Transform):
    def config_def(self) -> ConfigDef:
        config = ConfigDef().define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="Fields of the value that make the key.",
            validator=some_distinct,
        )
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._fields: list[str] = settings["fields"]
        self._fill = bool(settings["replace.null.with.default"])
        self._schemas: Cache[Schema] = Cache()

    def apply(self, record: R) -> R | None:
        purpose = "copying fields from value to key"
        if record.value_schema is None:
            mapping = require_map(record.value, purpose)
            key: Any = {name: mapping.get(name) for name in self._fields}
            return record.replace(key_schema=None, key=key)
        struct = require_struct(record.value, purpose)
        schema = self._schemas.get(struct.schema) or self._schemas.put(
            struct.schema, self._key_schema(struct.schema)
        )
        get = struct.__getitem__ if self._fill else struct.get_without_default
        values = [get(name) for name in self._fields]
        return record.replace(key_schema=schema, key=Struct.of(schema, values))

    def _key_schema(self, schema: Schema) -> Schema:
        fields = {}
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            fields[name] = field.schema
        return struct_schema(fields)
