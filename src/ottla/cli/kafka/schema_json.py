"""The console's side of a schema: a line of JSON on the screen, bytes of its language in a record.

The languages are Avro, JSON Schema and Protobuf; records name their schemas by Confluent's wire
format (schemas/framing.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from ottla.cli.kafka.tool import ToolError
from ottla.client.schema_registry import URL, RegisteredSchema, RegistryError, SchemaRegistry
from ottla.errors import KafkaError
from ottla.schemas import json_text
from ottla.schemas.avro.json_encoding import binary_of, json_text_of
from ottla.schemas.framing import indexes_bytes, read_indexes
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.protobuf.json_encoding import FIRST, ProtobufMessages
from ottla.schemas.schema_types import ParsedSchema

DEFAULT_URL: Final = "http://localhost:8081"
_OLD_PREFIX: Final = "schema.registry."


class SchemaJson(Protocol):
    """Between JSON and what follows the id of a schema in a record."""

    record_name: str
    """What RecordNameStrategy calls the subject."""
    indexes: bytes
    """What stands between the id and the payload when this writes."""

    def payload_of(self, text: str) -> bytes: ...

    def text_of(self, data: bytes, position: int) -> str: ...


class AvroJson:
    indexes = b""

    def __init__(self, schema: ParsedSchema) -> None:
        self._node = schema.body.root
        self.record_name = self._node.key

    def payload_of(self, text: str) -> bytes:
        return binary_of(self._node, text)

    def text_of(self, data: bytes, position: int) -> str:
        return json_text_of(self._node, data, position)


class JsonSchemaJson:
    indexes = b""

    def __init__(self, schema: ParsedSchema) -> None:
        raw = schema.body.root.raw
        self.record_name = str(raw.get("title", "")) if isinstance(raw, dict) else ""

    def payload_of(self, text: str) -> bytes:
        return json_text.write(json.loads(text)).encode()

    def text_of(self, data: bytes, position: int) -> str:
        return json_text.write(json.loads(data[position:]))


class ProtobufJson:
    """Writes the first message of the file, or the one with this name."""

    def __init__(
        self, text: str, references: Mapping[str, str], *, name: str = "", proto_names: bool = False
    ) -> None:
        self._messages = ProtobufMessages(text, references)
        self._indexes = self._messages.indexes_of(name) if name else FIRST
        self._proto_names = proto_names
        self.record_name = self._messages.name_of(self._indexes)
        self.indexes = indexes_bytes(self._indexes)

    def payload_of(self, text: str) -> bytes:
        return self._messages.binary_of(self._indexes, text)

    def text_of(self, data: bytes, position: int) -> str:
        indexes, position = read_indexes(data, position)
        return self._messages.json_text_of(
            indexes, bytes(data[position:]), proto_names=self._proto_names
        )


class SchemaJsons:
    """The registry's schemas, each made once. Settings are properties of Confluent's serializers,
    also by the old names that begin with `schema.registry.`."""

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
        texts = self.registry.referenced_texts(schema.references)
        return ProtobufJson(schema.text, texts, name=name, proto_names=self._proto_names)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """`what` stands before the reason, in one line."""
    try:
        yield
    except RegistryError as error:
        raise ToolError(f"{what}: {error} (error code {error.code})") from None
    except (InvalidSchema, KafkaError, ValueError) as error:
        raise ToolError(f"{what}: {error}") from None


def is_true(properties: Mapping[str, str], name: str, default: str = "false") -> bool:
    return properties.get(name, default).strip().lower() == "true"
