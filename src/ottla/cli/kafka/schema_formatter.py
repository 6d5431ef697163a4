"""Records with schemas as lines of JSON: Confluent's message formatters of the console consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.cli.kafka.formatters import DefaultFormatter
from ottla.cli.kafka.schema_json import SchemaJsons, explained, is_true
from ottla.client.record import Record
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER, NotFramed, SchemaName, split

SCHEMA_DESERIALIZERS: Final = (
    "KafkaAvroDeserializer",
    "KafkaJsonSchemaDeserializer",
    "KafkaProtobufDeserializer",
)


class SchemaFormatter(DefaultFormatter):
    """Keys and values as their schemas say. One with another deserializer is printed by that."""

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

    def key_part(self, record: Record) -> bytes:
        if "key" in self._plain:
            return super().key_part(record)
        return self._part(record, "key", record.key, KEY_HEADER)

    def value_part(self, record: Record) -> bytes:
        if "value" in self._plain:
            return super().value_part(record)
        return self._part(record, "value", record.value, VALUE_HEADER)

    def _part(self, record: Record, side: str, data: bytes | None, header: str) -> bytes:
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

    def _text(self, name: SchemaName, rest: bytes) -> str:
        registry = self._schemas.registry
        schema = registry.by_guid(name.guid) if name.guid else registry.by_id(name.id)
        return self._schemas.of(schema).text_of(rest, 0)


def _split(data: bytes, in_header: bytes | None) -> tuple[SchemaName, bytes]:
    """Behind the id in a header stand the indexes of a Protobuf message, if it is one."""
    if in_header is not None:
        name, position = split(in_header)
        return name, in_header[position:] + data
    try:
        name, position = split(data)
    except NotFramed as error:
        raise ValueError(f"Unknown magic byte! {error}") from None
    return name, data[position:]


def _id(name: SchemaName) -> bytes:
    return (name.guid or str(name.id)).encode()
