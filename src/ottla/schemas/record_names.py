"""What a schema calls the records that it describes: what subjects may be named after."""

from __future__ import annotations

from ottla.schemas.schema_types import ParsedSchema


def record_names(schema: ParsedSchema) -> set[str]:
    """The full name of an Avro type, the title of a JSON Schema, every message of a .proto file.

    Empty for a schema without a name, such as Avro's "string".
    """
    if schema.kind == "AVRO":
        name = schema.body.root.name
        return {name} if name else set()
    if schema.kind == "JSON":
        raw = schema.body.root.raw
        title = raw.get("title") if isinstance(raw, dict) else None
        return {title} if isinstance(title, str) and title else set()
    return {name for name, found in schema.body.own_types().items() if not found.is_enum}
