"""Reads lines of JSON as records with schemas: Confluent's readers for the console producer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.cli.kafka.line_reader import Headers, LineReader
from ottla.cli.kafka.schema_json import SchemaJson, SchemaJsons, explained, is_true
from ottla.cli.kafka.tool import ToolError
from ottla.client.schema_registry import RegisteredSchema
from ottla.client.serde_arguments import WORDS
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER, with_guid, with_id
from ottla.schemas.schema_types import Reference

READERS: Final = {
    "io.confluent.kafka.formatter.AvroMessageReader": "AVRO",
    "io.confluent.kafka.formatter.json.JsonSchemaMessageReader": "JSON",
    "io.confluent.kafka.formatter.protobuf.ProtobufMessageReader": "PROTOBUF",
}
_NAMES: Final = {"AVRO": "Avro", "JSON": "JSON", "PROTOBUF": "Protobuf"}
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_NUMBERS: Final = {"long": int, "integer": int, "short": int, "double": float, "float": float}


class SchemaLineReader(LineReader):
    """Keys and values are JSON, encoded by their schemas."""

    def __init__(self, properties: dict[str, str], topic: str, kind: str) -> None:
        super().__init__(properties)
        self._schemas = schemas = SchemaJsons(properties)
        self._key: SchemaSide | None = None
        self._plain_key = properties.get("key.serializer")
        try:
            self._value = SchemaSide("value", schemas, properties, topic, kind)
            if is_true(properties, "parse.key") and self._plain_key is None:
                self._key = SchemaSide("key", schemas, properties, topic, kind)
        except ToolError:
            self.close()
            raise

    def close(self) -> None:
        self._schemas.registry.close()

    def key_bytes(self, text: str, headers: Headers) -> bytes | None:
        if text == self.null_marker:
            return None
        if self._key is not None:
            return self._key.record_bytes(text, headers, self.line_number)
        return _plain(str(self._plain_key), text)

    def value_bytes(self, text: str, headers: Headers) -> bytes | None:
        if text == self.null_marker:
            return None
        return self._value.record_bytes(text, headers, self.line_number)


class SchemaSide:
    """Keys or values. As in Confluent's tools, the first line registers their schema."""

    def __init__(
        self, side: str, schemas: SchemaJsons, properties: Mapping[str, str], topic: str, kind: str
    ) -> None:
        self._side = side
        self._schemas = schemas
        self._kind = kind
        self._name = properties.get(f"{side}.schema.full.name", "").strip()
        self._normalize = is_true(properties, "normalize.schemas")
        self._latest = is_true(properties, "use.latest.version")
        old_name = properties.get("auto.register", "true")
        self._register = is_true(properties, "auto.register.schemas", old_name)
        serializer = properties.get(f"{side}.schema.id.serializer", "")
        self._in_header = serializer.endswith("HeaderSchemaIdSerializer")
        for unserved in (f"{side}.metadata", f"{side}.rule.set"):
            if unserved in properties:
                raise ToolError(f"{unserved}: register the schema with it first, over REST")
        strategy = _strategy(properties.get(f"{side}.subject.name.strategy", _STRATEGIES[0]))
        with explained(f"The schema of the {side}s"):
            self._given = self._schema(properties)
            self._json: SchemaJson | None = None
            record = "" if self._given is None else schemas.of(self._given, self._name).record_name
        self._subject = _subject(strategy, topic, side, record)
        self._registered: RegisteredSchema | None = None

    def record_bytes(self, text: str, headers: Headers, line_number: int) -> bytes:
        with explained(f"Error registering the schema of subject {self._subject}"):
            codec, schema = self._ready()
        what = f"Error deserializing json {text} to {_NAMES[schema.kind]} on line {line_number}"
        with explained(what):
            payload = codec.payload_of(text)
        if self._in_header:
            name = KEY_HEADER if self._side == "key" else VALUE_HEADER
            headers.append((name, with_guid(schema.guid, codec.indexes)))
            return payload
        return with_id(schema.id, codec.indexes + payload)

    def _ready(self) -> tuple[SchemaJson, RegisteredSchema]:
        if self._json is None or self._registered is None:
            self._registered = self._find()
            self._json = self._schemas.of(self._registered, self._name)
        return self._json, self._registered

    def _find(self) -> RegisteredSchema:
        registry = self._schemas.registry
        if self._given is None or (self._latest and not self._register):
            return registry.version(self._subject)
        ask = registry.register if self._register else registry.look_up
        given = self._given
        return ask(
            self._subject, given.kind, given.text, given.references, normalize=self._normalize
        )

    def _schema(self, properties: Mapping[str, str]) -> RegisteredSchema | None:
        """By id, by the property's text, or by file; None for the latest version."""
        property = f"{self._side}.schema"
        if id := properties.get(f"{property}.id"):
            if not id.isdigit():
                raise ToolError(f"{property}.id={id} is not a number")
            return self._schemas.registry.by_id(int(id))
        text = properties.get(property)
        if text is None and (path := properties.get(f"{property}.file")):
            try:
                text = Path(path).read_text(encoding="utf-8")
            except OSError as error:
                raise ToolError(f"Error reading schema from {path}: {error.strerror}") from None
        if text is None:
            if self._latest and not self._register:
                return None
            raise ToolError(
                f"Must provide the {self._side} schema in either {property}, {property}.id, or"
                f" {property}.file"
            )
        references = _references(properties.get(f"{self._side}.refs", "[]"), self._side)
        return RegisteredSchema(0, self._kind, text, references)


def _references(text: str, side: str) -> tuple[Reference, ...]:
    try:
        found: Any = json.loads(text)
        return tuple(
            Reference(reference["name"], reference["subject"], int(reference["version"]))
            for reference in found
        )
    except (ValueError, KeyError, TypeError):
        form = '[{"name": ..., "subject": ..., "version": ...}]'
        raise ToolError(f"{side}.refs={text}: expected {form}") from None


def _strategy(name: str) -> str:
    found = name.rpartition(".")[2]
    if found not in _STRATEGIES:
        raise ToolError(f"unknown strategy {name}; choose from {', '.join(_STRATEGIES)}")
    return found


def _subject(strategy: str, topic: str, side: str, record: str) -> str:
    if strategy == "TopicNameStrategy":
        return f"{topic}-{side}"
    if not record:
        raise ToolError(f"{strategy}: the schema of the {side}s has no name")
    return record if strategy == "RecordNameStrategy" else f"{topic}-{record}"


def _plain(serializer: str, text: str) -> bytes:
    """A key for one of Java's serializers, which have the names of their types."""
    word = serializer.rpartition(".")[2].removesuffix("Serializer").lower()
    if word in ("bytes", "bytearray"):
        return text.encode(errors="surrogateescape")
    if word not in WORDS:
        raise ToolError(f"unknown serializer {serializer}; choose from {', '.join(WORDS)}")
    try:
        return WORDS[word].to_bytes(_NUMBERS.get(word, str)(text))
    except ValueError as error:
        raise ToolError(f"{serializer}: {error}") from None
