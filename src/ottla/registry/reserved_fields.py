"""Reserved fields: names that a schema promises not to use (confluent:reserved, validateFields)."""

from __future__ import annotations

import json
from typing import Final

from ottla.registry.stored_schema import AVRO, JSON, StoredSchema
from ottla.schemas.protobuf.proto_file import ProtoMessage
from ottla.schemas.schema_types import ParsedSchema

RESERVED: Final = "confluent:reserved"


def reserved_field_messages(
    new: StoredSchema, parsed: ParsedSchema, latest: StoredSchema | None
) -> list[str]:
    """A reserved name stays reserved, and no field may have it."""
    reserved = reserved_field_names(new)
    before = [] if latest is None else reserved_field_names(latest)
    gone = [name for name in before if name not in reserved]
    fields = field_names(parsed)
    removed = [
        f"{{errorType:'RESERVED_FIELD_REMOVED', description:'The new schema has reserved field"
        f" {name} removed from its metadata which is present in the old schema's metadata.'}}"
        for name in gone
    ]
    taken = [
        "{errorType:'FIELD_CONFLICTS_WITH_RESERVED_FIELD', description:'The new schema has field"
        f" that conflicts with the reserved field {name}.'}}"
        for name in reserved
        if name in fields
    ]
    return [*removed, *taken]


def reserved_field_names(schema: StoredSchema) -> list[str]:
    properties = (schema.metadata or {}).get("properties") or {}
    names = str(properties.get(RESERVED) or "").split(",")
    return [name.strip() for name in names if name.strip()]


def field_names(parsed: ParsedSchema) -> set[str]:
    """The fields of the record, the object or the first message."""
    if parsed.kind in (AVRO, JSON):
        root = json.loads(parsed.canonical)
        if not isinstance(root, dict):
            return set()
        if parsed.kind == JSON:
            return set(root.get("properties") or ())
        return {field["name"] for field in root.get("fields") or ()}
    messages = [message for message in parsed.body.file.types if isinstance(message, ProtoMessage)]
    return {field.name for field in messages[0].all_fields()} if messages else set()
