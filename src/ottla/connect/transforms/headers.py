"""Headers: DropHeaders, InsertHeader, HeaderFrom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Header, Schema
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.struct import Struct
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    Transform,
    defaults_of,
    filled,
    replace_null_config,
    require_map,
    require_struct,
    with_fields,
)
from ottla.connect.validators import non_empty_list, non_null, one_of, some_distinct
from ottla.connect.values import parse_string


class DropHeaders(Transform):
    def config_def(self) -> ConfigDef:
        return ConfigDef().define(
            "headers",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="Names of the headers to drop.",
            validator=some_distinct,
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._names = frozenset(self.config_def().parse(props)["headers"])

    def apply(self, record: R) -> R | None:
        kept = tuple(header for header in record.headers if header.key not in self._names)
        return record.replace(headers=kept)


class InsertHeader(Transform):
    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("header", ConfigType.STRING, importance=Importance.HIGH,
                    doc="The name of the header.", validator=non_null)
            .define("value.literal", ConfigType.STRING, importance=Importance.HIGH,
                    doc="Its value, the same for every record; its type is inferred from the text.",
                    validator=non_null)
        )  # fmt: skip

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        schema, value = parse_string(settings["value.literal"])
        self._header = Header(settings["header"], value, schema)

    def apply(self, record: R) -> R | None:
        return record.replace(headers=(*record.headers, self._header))


class HeaderFrom(KeyOrValueTransform):
    def config_def(self) -> ConfigDef:
        config = (
            ConfigDef()
            .define("fields", ConfigType.LIST, importance=Importance.HIGH,
                    doc="Fields of the key or value that become headers.",
                    validator=non_empty_list)
            .define("headers", ConfigType.LIST, importance=Importance.HIGH,
                    doc="The names of these headers, in the order of the fields.",
                    validator=non_empty_list)
            .define("operation", ConfigType.STRING, importance=Importance.HIGH,
                    doc="move removes the fields from the key or value, copy keeps them.",
                    validator=one_of("move", "copy"))
        )  # fmt: skip
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._fields: list[str] = settings["fields"]
        self._headers: list[str] = settings["headers"]
        if len(self._fields) != len(self._headers):
            raise ConfigException(
                "'fields' config must have the same number of elements as 'headers' config."
            )
        self._move = settings["operation"] == "move"
        self._purpose = f"header {settings['operation']}"
        self._fill = bool(settings["replace.null.with.default"])
        self._plans: SchemaCache[tuple[Schema, list[int]]] = SchemaCache()

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self._schemaless(record, require_map(value, self._purpose))
        struct = require_struct(value, self._purpose)
        values = filled(struct, defaults_of(schema) if self._fill else None)
        headers = list(record.headers)
        for name, header in zip(self._fields, self._headers, strict=True):
            field = schema.field(name)
            if field is None:
                raise DataException(f"Unknown field: {name}")
            headers.append(Header(header, values[field.index], field.schema))
        if self._move:
            schema, kept = self._plans.get(schema) or self._plans.put(schema, self._plan(schema))
            value = Struct.of(schema, [values[index] for index in kept])
        return self._with(record, schema, value, tuple(headers))

    def _plan(self, schema: Schema) -> tuple[Schema, list[int]]:
        kept = [field for field in schema.fields if field.name not in self._fields]
        made = with_fields(schema, [(field.name, field.schema) for field in kept])
        return made, [field.index for field in kept]

    def _schemaless(self, record: R, value: dict[str, Any]) -> R:
        headers = [
            Header(header, value.get(name))
            for name, header in zip(self._fields, self._headers, strict=True)
        ]
        if self._move:
            value = {name: item for name, item in value.items() if name not in self._fields}
        return self._with(record, None, value, (*record.headers, *headers))

    def _with(self, record: R, schema: Schema | None, value: Any, headers: Any) -> R:
        made = self.changed(record, schema, value)
        made.headers = headers
        return made


class HeaderFromKey(HeaderFrom):
    of_key = True
