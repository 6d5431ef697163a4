"""JsonSchemaConverter: JSON with a schema registry, in Confluent's mapping of types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.converters.connect_from_json_schema import ConnectFromJsonSchema
from ottla.connect.converters.json import dumped, dumped_schemaless, exactly, loaded
from ottla.connect.converters.json_decoders import decimals_in
from ottla.connect.converters.json_schema_decoders import JsonSchemaDecoders
from ottla.connect.converters.json_schema_encoders import JsonSchemaEncoders
from ottla.connect.converters.json_schema_from_connect import JsonSchemaFromConnect
from ottla.connect.converters.json_schema_settings import JsonSchemaSettings
from ottla.connect.converters.registry_config import define_flags, flags_of
from ottla.connect.converters.registry_converter import Encode, Read, RegistryConverter, SchemaText
from ottla.connect.data import Schema
from ottla.connect.validators import one_of_any_case
from ottla.schemas.json_text import write_json
from ottla.schemas.schema_types import ParsedSchema

FLAGS = {
    "object.additional.properties": (
        "additional_properties",
        "Whether objects may have properties that their schema does not declare.",
    ),
    "use.optional.for.nonrequired": (
        "optional_if_not_required",
        "Whether properties that are not required become optional fields.",
    ),
    "flatten.singleton.unions": (
        "flatten_singletons",
        "Whether to read a union of one type as that type.",
    ),
    "generalized.sum.type.support": (
        "generalized",
        "Whether to represent enums and unions as the Avro and Protobuf converters do.",
    ),
    "ignore.default.for.nullables": (
        "ignore_defaults",
        "Whether a null field stays null even if it has a default.",
    ),
}


class JsonSchemaConverter(RegistryConverter):
    kind: ClassVar[str] = "JSON"
    language: ClassVar[str] = "JSON"

    def language_config(self, config: ConfigDef) -> ConfigDef:
        return define_flags(config, FLAGS, JsonSchemaSettings._field_defaults).define(
            "decimal.format",
            ConfigType.STRING,
            "BASE64",
            Importance.LOW,
            "How decimals are written: BASE64 (exact) or NUMERIC (as JSON numbers).",
            validator=one_of_any_case("NUMERIC", "BASE64"),
        )

    def set_up(self, settings: Mapping[str, Any]) -> None:
        self._settings = JsonSchemaSettings(
            numeric_decimals=settings["decimal.format"].upper() == "NUMERIC",
            **flags_of(settings, FLAGS),
        )
        with_defaults = not self._settings.ignore_defaults
        self._encoders = JsonSchemaEncoders(self._settings.numeric_decimals, with_defaults)
        self._decoders = JsonSchemaDecoders(with_defaults)

    def schema_text(self, schema: Schema | None) -> SchemaText:
        if schema is None:
            return SchemaText("{}")
        from_connect = JsonSchemaFromConnect(self._settings, self._json_default)
        return SchemaText(write_json(from_connect.of(schema)), schema.name)

    def _json_default(self, schema: Schema, default: Any) -> Any:
        return loaded(dumped(self._encoders.of(schema)(default), self._settings.numeric_decimals))

    def encoder(self, schema: Schema | None, written: ParsedSchema) -> Encode:
        if schema is None:
            return dumped_schemaless
        encode, numeric = self._encoders.of(schema), self._settings.numeric_decimals
        return lambda value: dumped(encode(value), numeric)

    def reader(self, parsed: ParsedSchema, version: int | None) -> Read:
        root = parsed.body.root
        if root.accepts_everything:
            return lambda data, position: (None, loaded(data[position:]))
        to_connect = ConnectFromJsonSchema(
            self._settings, lambda inner, default: self._decoders.of(inner)(default)
        )
        schema = to_connect.of(root, version=version)
        decode = self._decoders.of(schema)
        load = exactly if decimals_in(schema) else loaded
        return lambda data, position: (schema, decode(load(data[position:])))

    def record_name(self, parsed: ParsedSchema) -> str | None:
        title = parsed.body.root.get("title")
        return title if isinstance(title, str) else None
