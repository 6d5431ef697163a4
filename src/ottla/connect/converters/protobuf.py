"""ProtobufConverter: Protobuf with a schema registry, in Confluent's mapping of types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.config import ConfigDef
from ottla.connect.converters.connect_from_protobuf import ConnectFromProtobuf
from ottla.connect.converters.protobuf_decoders import ProtobufDecoders
from ottla.connect.converters.protobuf_encoders import ProtobufEncoders
from ottla.connect.converters.protobuf_from_connect import protobuf_text
from ottla.connect.converters.protobuf_settings import ProtobufSettings
from ottla.connect.converters.registry_config import define_flags, flags_of
from ottla.connect.converters.registry_converter import Encode, Read, RegistryConverter, SchemaText
from ottla.connect.data import Schema
from ottla.connect.errors import DataException
from ottla.schemas.framing import indexes_bytes, read_indexes
from ottla.schemas.protobuf.message_types import MessageTypes, message_indexes, message_name
from ottla.schemas.schema_types import ParsedSchema

FLAGS = {
    "enhanced.protobuf.schema.support": ("enhanced", "Whether names include their packages."),
    "scrub.invalid.names": ("scrub", "Whether to replace illegal characters in names."),
    "int.for.enums": ("integer_enums", "Whether enums become numbers in Connect."),
    "optional.for.nullables": (
        "optional_nullables",
        "Whether optional fields have the label optional, and only these are optional.",
    ),
    "wrapper.for.nullables": (
        "wrapped_nullables",
        "Whether optional fields use Google's wrapper types.",
    ),
    "wrapper.for.raw.primitives": (
        "wrapped_primitives",
        "Whether a wrapper as the whole value stands for the primitive in it.",
    ),
    "generate.index.for.unions": (
        "indexed_unions",
        "Whether to append a number to the name of a oneof's field.",
    ),
    "flatten.unions": (
        "flatten_unions",
        "Whether the fields of a oneof become fields of the struct.",
    ),
    "generalized.sum.type.support": (
        "generalized",
        "Whether to represent enums and unions as the Avro and JSON Schema converters do.",
    ),
    "ignore.default.for.nullables": (
        "ignore_defaults",
        "Whether a null field stays null even if it has a default.",
    ),
}


class ProtobufConverter(RegistryConverter):
    kind: ClassVar[str] = "PROTOBUF"
    language: ClassVar[str] = "Protobuf"

    def language_config(self, config: ConfigDef) -> ConfigDef:
        return define_flags(config, FLAGS, ProtobufSettings._field_defaults)

    def set_up(self, settings: Mapping[str, Any]) -> None:
        self._settings = ProtobufSettings(**flags_of(settings, FLAGS))

    def schema_text(self, schema: Schema | None) -> SchemaText:
        if schema is None:
            raise DataException("ProtobufConverter needs a schema: the value has none")
        return SchemaText(*protobuf_text(schema, self._settings))

    def encoder(self, schema: Schema | None, written: ParsedSchema) -> Encode:
        assert schema is not None, "schema_text refuses values without one"
        _, name = protobuf_text(schema, self._settings)
        prefix = indexes_bytes(message_indexes(written.body.file, name))
        message_class = MessageTypes(written).by_name(name)
        encode = ProtobufEncoders(self._settings).root(schema, message_class)
        return lambda value: prefix + encode(value)

    def reader(self, parsed: ParsedSchema, version: int | None) -> Read:
        types = MessageTypes(parsed)
        found: dict[tuple[int, ...], tuple[Schema, Any, Any]] = {}

        def read(data: bytes, position: int) -> tuple[Schema, Any]:
            indexes, begin = read_indexes(data, position)
            known = found.get(indexes)
            if known is None:
                known = found[indexes] = self._of_message(
                    types.by_indexes(indexes), parsed, version
                )
            schema, message_class, decode = known
            return schema, decode(message_class.FromString(data[begin:]))

        return read

    def _of_message(
        self, message_class: Any, parsed: ParsedSchema, version: int | None
    ) -> tuple[Schema, Any, Any]:
        descriptor = message_class.DESCRIPTOR
        schema = ConnectFromProtobuf(self._settings, parsed.body).of(descriptor, version)
        decode = ProtobufDecoders(self._settings).root(schema, descriptor)
        return schema, message_class, decode

    def record_name(self, parsed: ParsedSchema) -> str | None:
        return message_name(parsed.body.file, (0,))
