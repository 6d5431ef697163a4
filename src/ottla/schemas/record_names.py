"""The record names in a schema, for subject name strategies."""

from __future__ import annotations

from ottla.schemas.protobuf.map_entries import is_map_entry
from ottla.schemas.schema_types import ParsedSchema


def record_names(schema: ParsedSchema) -> set[str]:
    """The full name of an Avro type, the title of a JSON Schema, every message of a .proto file.

    Empty for a schema without a name, such as Avro's "string".
    """
    if schema.kind == "PROTOBUF":
        types = schema.body.own_types().items()
        return {
            name for name, found in types if not found.is_enum and not is_map_entry(found.element)
        }
    name = record_name(schema)
    return {name} if name else set()


def record_name(schema: ParsedSchema) -> str:
    """The name of a schema that describes one record, in Avro or JSON Schema."""
    if schema.kind == "AVRO":
        name: str = schema.body.root.name
        return name
    raw = schema.body.root.raw
    title = raw.get("title") if isinstance(raw, dict) else None
    return title if isinstance(title, str) else ""
