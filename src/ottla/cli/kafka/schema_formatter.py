"""Prints records with schemas as JSON: Confluent's formatters for the console consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.cli.kafka.formatters import DefaultFormatter
from ottla.cli.kafka.schema_json import SchemaJsons, explained, is_true
from ottla.client.record import ConsumerRecord
from ottla.schemas.framing import (
    KEY_HEADER,
    VALUE_HEADER,
    FramingError,
    RecordSchemaId,
    split_frame,
)

SCHEMA_DESERIALIZERS: Final = (
    "KafkaAvroDeserializer",
    "KafkaJsonSchemaDeserializer",
    "KafkaProtobufDeserializer",
)


class SchemaFormatter(DefaultFormatter):
    """Decodes keys and values by their schemas, except where a deserializer is given."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._plain = {
            side
            for side in ("key", "value")
            if not properties.get(f"{side}.deserializer", SCHEMA_DESERIALIZERS[0]).endswith(
                SCHEMA_DESERIALIZERS
            )
        }
        super().__init__(
            {
                name: value
                for name, value in properties.items()
                if not value.endswith(SCHEMA_DESERIALIZERS)
            }
        )
        self._ids = is_true(properties, "print.schema.ids")
        self._id_separator = properties.get("schema.id.separator", "\t").encode()
        self._schemas = SchemaJsons(properties)

    def close(self) -> None:
        self._schemas.registry.close()

    def key_part(self, record: ConsumerRecord) -> bytes:
        if "key" in self._plain:
            return super().key_part(record)
        return self._part(record, "key", record.key, KEY_HEADER)

    def value_part(self, record: ConsumerRecord) -> bytes:
        if "value" in self._plain:
            return super().value_part(record)
        return self._part(record, "value", record.value, VALUE_HEADER)

    def _part(self, record: ConsumerRecord, side: str, data: bytes | None, header: str) -> bytes:
        if data is None:
            return self.null + (self._id_separator + self.null if self._ids else b"")
        where = f"The {side} of {record.topic_partition} at offset {record.offset}"
        in_header = dict(record.headers).get(header)
        with explained(where):
            name, rest = _split(data, in_header)
        with explained(f"{where}, {name}"):
            text = self._text(name, rest)
        shown = text.encode(errors="replace")
        return shown + self._id_separator + _id(name) if self._ids else shown

    def _text(self, name: RecordSchemaId, rest: bytes) -> str:
        registry = self._schemas.registry
        schema = registry.by_guid(name.guid) if name.guid else registry.by_id(name.id)
        return self._schemas.of(schema).text_of(rest, 0)


def _split(data: bytes, in_header: bytes | None) -> tuple[RecordSchemaId, bytes]:
    """With the id in a header, a Protobuf value begins with its message indexes."""
    if in_header is not None:
        name, position = split_frame(in_header)
        return name, in_header[position:] + data
    try:
        name, position = split_frame(data)
    except FramingError as error:
        raise ValueError(f"Unknown magic byte! {error}") from None
    return name, data[position:]


def _id(name: RecordSchemaId) -> bytes:
    return (name.guid or str(name.id)).encode()
