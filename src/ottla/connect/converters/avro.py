"""AvroConverter: Avro with a schema registry, in Confluent's mapping of types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.config import ConfigDef
from ottla.connect.converters.anything import anything_decoded, anything_encoded
from ottla.connect.converters.avro_binary import AvroBinary
from ottla.connect.converters.avro_decoders import AvroDecoders, plain_default
from ottla.connect.converters.avro_encoders import AvroEncoders
from ottla.connect.converters.avro_from_connect import avro_text
from ottla.connect.converters.avro_settings import ANYTHING, AvroSettings
from ottla.connect.converters.connect_from_avro import ConnectFromAvro
from ottla.connect.converters.registry_config import define_flags, flags_of
from ottla.connect.converters.registry_converter import Encode, Read, RegistryConverter, SchemaText
from ottla.connect.data import Schema
from ottla.schemas.avro.node import AvroNode
from ottla.schemas.schema_types import ParsedSchema

FLAGS = {
    "enhanced.avro.schema.support": (
        "enhanced",
        "Whether enums stay enums, and the fields of unions have full names.",
    ),
    "connect.meta.data": (
        "meta_data",
        "Whether to keep names, docs, versions and parameters of Connect schemas in Avro.",
    ),
    "scrub.invalid.names": ("scrub", "Whether to replace illegal characters in names."),
    "allow.optional.map.keys": (
        "optional_keys",
        "Whether to write a map with optional string keys as an Avro map.",
    ),
    "flatten.singleton.unions": (
        "flatten_singletons",
        "Whether to read a union of one type as that type.",
    ),
    "generalized.sum.type.support": (
        "generalized",
        "Whether to represent enums and unions as the JSON Schema and Protobuf converters do.",
    ),
    "ignore.default.for.nullables": (
        "ignore_defaults",
        "Whether a null field stays null even if it has a default.",
    ),
}


class AvroConverter(RegistryConverter):
    kind: ClassVar[str] = "AVRO"
    language: ClassVar[str] = "Avro"

    def language_config(self, config: ConfigDef) -> ConfigDef:
        return define_flags(config, FLAGS, AvroSettings._field_defaults)

    def set_up(self, settings: Mapping[str, Any]) -> None:
        self._settings = AvroSettings(**flags_of(settings, FLAGS))

    def schema_text(self, schema: Schema | None) -> SchemaText:
        return SchemaText(*avro_text(schema, self._settings))

    def encoder(self, schema: Schema | None, written: ParsedSchema) -> Encode:
        root: AvroNode = written.body.root
        binary = AvroBinary(root)
        if schema is None:
            return lambda value: binary.write(anything_encoded(value))
        encode = AvroEncoders(binary, self._settings).of(schema, root)
        return lambda value: binary.write(encode(value))

    def reader(self, parsed: ParsedSchema, version: int | None) -> Read:
        root: AvroNode = parsed.body.root
        binary = AvroBinary(root)
        read = binary.read
        if root.name == ANYTHING:
            return lambda data, position: (None, anything_decoded(read(data, position)))

        def default(schema: Schema, node: AvroNode, value: Any) -> Any:
            # For a subschema: it has its own binary form, and its own numbering of branches.
            part = AvroBinary(node)
            decode = AvroDecoders(part, self._settings).of(schema, node)
            plain = plain_default(node, value, part)
            return plain if decode is None else decode(plain)

        schema = ConnectFromAvro(self._settings, default).of(root, version=version)
        decode = AvroDecoders(binary, self._settings).of(schema, root)
        if decode is None:
            return lambda data, position: (schema, read(data, position))
        return lambda data, position: (schema, decode(read(data, position)))

    def record_name(self, parsed: ParsedSchema) -> str | None:
        return parsed.body.root.name or None
