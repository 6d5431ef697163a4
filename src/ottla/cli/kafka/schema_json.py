"""Converts between lines of JSON and records with a schema.

The languages are Avro, JSON Schema and Protobuf; records name their schemas by Confluent's wire
format (schemas/framing.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from ottla.cli.kafka.tool import ToolError
from ottla.client.schema_registry import URL, RegisteredSchema, SchemaRegistry, SchemaRegistryError
from ottla.errors import KafkaError
from ottla.schemas import json_text
from ottla.schemas.avro.bytes_root import is_bytes_root, with_size, without_size
from ottla.schemas.avro.json_encoding import binary_of, json_text_of
from ottla.schemas.framing import indexes_bytes, read_indexes
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.json_schema.validator import JsonValidator
from ottla.schemas.protobuf.json_encoding import binary_of as protobuf_binary_of
from ottla.schemas.protobuf.json_encoding import json_text_of as protobuf_text_of
from ottla.schemas.protobuf.message_types import MessageTypes, message_indexes, message_name
from ottla.schemas.schema_types import ParsedSchema

DEFAULT_URL: Final = "http://localhost:8081"
FIRST: Final = (0,)
_OLD_PREFIX: Final = "schema.registry."


class SchemaJson(Protocol):
    """Converts between JSON and the bytes that follow a schema id in a record."""

    record_name: str
    """The record name for RecordNameStrategy."""
    indexes: bytes
    """The bytes between id and payload."""

    def payload_of(self, text: str) -> bytes: ...

    def text_of(self, data: bytes, position: int) -> str: ...


class AvroJson:
    indexes = b""

    def __init__(self, schema: ParsedSchema) -> None:
        self._node = schema.body.root
        self.record_name = self._node.key

    def payload_of(self, text: str) -> bytes:
        data = binary_of(self._node, text)
        return without_size(data) if is_bytes_root(self._node) else data

    def text_of(self, data: bytes, position: int) -> str:
        if is_bytes_root(self._node):
            return json_text_of(self._node, with_size(bytes(data[position:])))
        return json_text_of(self._node, data, position)


class JsonSchemaJson:
    indexes = b""

    def __init__(self, schema: ParsedSchema) -> None:
        raw = schema.body.root.raw
        self.record_name = str(raw.get("title", "")) if isinstance(raw, dict) else ""
        self._validator = JsonValidator(schema)

    def payload_of(self, text: str) -> bytes:
        return self._checked(text).encode()

    def text_of(self, data: bytes, position: int) -> str:
        return self._checked(data[position:])

    def _checked(self, text: str | bytes) -> str:
        value = json.loads(text)
        self._validator.check(value)
        return json_text.write_json(value)


class ProtobufJson:
    """Writes the first message of the file, or the one with this name."""

    def __init__(self, schema: ParsedSchema, *, name: str = "", proto_names: bool = False) -> None:
        file = schema.body.file
        self._messages = MessageTypes(schema)
        self._proto_names = proto_names
        indexes = message_indexes(file, name) if name else FIRST
        self._written = self._messages.by_indexes(indexes)
        self.record_name = message_name(file, indexes)
        self.indexes = indexes_bytes(indexes)

    def payload_of(self, text: str) -> bytes:
        return protobuf_binary_of(self._written, text)

    def text_of(self, data: bytes, position: int) -> str:
        indexes, position = read_indexes(data, position)
        message_class = self._messages.by_indexes(indexes)
        payload = bytes(data[position:])
        return protobuf_text_of(message_class, payload, proto_names=self._proto_names)


class SchemaJsons:
    """A cache of the registry's schemas. Settings are those of Confluent's serializers, also by the
    old names that begin with `schema.registry.`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        settings = {URL: DEFAULT_URL, **properties}
        for name, value in properties.items():
            if name.startswith((f"{_OLD_PREFIX}basic.", f"{_OLD_PREFIX}bearer.")):
                settings.setdefault(name.removeprefix(_OLD_PREFIX), value)
        self._proto_names = is_true(properties, "preserve.json.field.name")
        self._made: dict[tuple[object, ...], SchemaJson] = {}
        try:
            self.registry = SchemaRegistry(settings=settings)
        except ValueError as error:
            raise ToolError(f"{URL}: {error}") from None

    def of(self, schema: RegisteredSchema, name: str = "") -> SchemaJson:
        """`name` is that of a Protobuf message."""
        key = (schema.kind, schema.text, schema.references, name)
        if key not in self._made:
            self._made[key] = self._make(schema, name)
        return self._made[key]

    def _make(self, schema: RegisteredSchema, name: str) -> SchemaJson:
        parsed = self.registry.parsed(schema)
        if schema.kind == "AVRO":
            return AvroJson(parsed)
        if schema.kind == "JSON":
            return JsonSchemaJson(parsed)
        return ProtobufJson(parsed, name=name, proto_names=self._proto_names)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors into one line, with `what` before the reason."""
    try:
        yield
    except SchemaRegistryError as error:
        raise ToolError(f"{what}: {error} (error code {error.code})") from None
    except (InvalidSchema, KafkaError, ValueError) as error:
        raise ToolError(f"{what}: {error}") from None


def is_true(properties: Mapping[str, str], name: str, default: str = "false") -> bool:
    return properties.get(name, default).strip().lower() == "true"
