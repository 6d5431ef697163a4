"""Fields that a schema promises not to have: the property confluent:reserved (validateFields)."""

from __future__ import annotations

import json
from typing import Final

from ottla.registry.stored_schema import AVRO, JSON, StoredSchema
from ottla.schemas.protobuf.elements import ProtoMessage
from ottla.schemas.schema_types import ParsedSchema

RESERVED: Final = "confluent:reserved"


def reserved_messages(
    new: StoredSchema, parsed: ParsedSchema, latest: StoredSchema | None
) -> list[str]:
    """A name that is reserved once stays reserved, and no field has it."""
    reserved = reserved_names(new)
    gone = [] if latest is None else [x for x in reserved_names(latest) if x not in reserved]
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


def reserved_names(schema: StoredSchema) -> list[str]:
    properties = (schema.metadata or {}).get("properties") or {}
    names = str(properties.get(RESERVED) or "").split(",")
    return [name.strip() for name in names if name.strip()]


def field_names(parsed: ParsedSchema) -> set[str]:
    """Of the record, the object or the first message that the schema is."""
    if parsed.kind in (AVRO, JSON):
        root = json.loads(parsed.canonical)
        if not isinstance(root, dict):
            return set()
        if parsed.kind == JSON:
            return set(root.get("properties") or ())
        return {each["name"] for each in root.get("fields") or ()}
    messages = [each for each in parsed.body.file.types if isinstance(each, ProtoMessage)]
    return {field.name for field in messages[0].all_fields()} if messages else set()
