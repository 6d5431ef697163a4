"""PRINT: the formats with schemas in a registry, as text.

Bytes are in such a format if they start with the id of a registered schema of that type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from ottla.errors import KafkaError
from ottla.rows.formats.json_values import json_text, parse_exact
from ottla.schemas import framing

Show = Callable[[bytes], str]
"""Raises ValueError for bytes of another format."""

KINDS: Final = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON_SR": "JSON"}


def schema_formats(registry: SchemaRegistry) -> dict[str, Show]:
    """By format, the function that shows its bytes."""
    return {name: _SchemaFormat(registry, kind) for name, kind in KINDS.items()}


class _SchemaFormat:
    def __init__(self, registry: SchemaRegistry, kind: str) -> None:
        self._registry = registry
        self._kind = kind
        self._shows: dict[framing.RecordSchemaId, Show | None] = {}

    def __call__(self, data: bytes) -> str:
        name, start = framing.split_frame(data)
        if name not in self._shows:
            self._shows[name] = self._show(name)
        show = self._shows[name]
        if show is None:
            raise ValueError(f"{name} is not a schema of type {self._kind}")
        try:
            return show(data[start:])
        except (ValueError, LookupError, TypeError, EOFError) as error:
            raise ValueError(f"{name}: {error}") from None

    def _show(self, name: framing.RecordSchemaId) -> Show | None:
        try:
            if name.guid:
                schema = self._registry.by_guid(name.guid)
            else:
                schema = self._registry.by_id(name.id)
        except (SchemaRegistryError, KafkaError):
            return None
        if schema.kind != self._kind:
            return None
        return _SHOWS[schema.kind](self._registry, schema)


def _avro(registry: SchemaRegistry, schema: RegisteredSchema) -> Show:
    from ottla.schemas.avro.codec import AvroCodec

    codec = AvroCodec(registry.parsed(schema))
    return lambda payload: json.dumps(codec.decode(payload), default=_text, ensure_ascii=False)


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _protobuf(registry: SchemaRegistry, schema: RegisteredSchema) -> Show:
    from google.protobuf import text_format

    from ottla.schemas.protobuf.message_types import MessageTypes

    types = MessageTypes(registry.parsed(schema))

    def show(payload: bytes) -> str:
        indexes, start = framing.read_indexes(payload, 0)
        message = types.by_indexes(indexes).FromString(payload[start:])
        found: str = text_format.MessageToString(message, as_one_line=True, as_utf8=True)
        return found

    return show


def _json(registry: SchemaRegistry, schema: RegisteredSchema) -> Show:
    return lambda payload: json_text(parse_exact(payload))


_SHOWS: Final[dict[str, Callable[[SchemaRegistry, RegisteredSchema], Show]]] = {
    "AVRO": _avro,
    "PROTOBUF": _protobuf,
    "JSON": _json,
}
