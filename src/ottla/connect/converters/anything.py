"""Values without a schema, encoded as records of Confluent's Avro type Anything."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.errors import DataException

FIELDS: Final = (
    *("boolean", "bytes", "double", "float", "int", "long", "string"),
    *("array", "map"),
)
NOTHING: Final = dict.fromkeys(FIELDS)
KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (str, "string"),
    (int, "long"),
    (float, "double"),
    (bytes, "bytes"),
)


def anything_encoded(value: Any) -> dict[str, Any]:
    if value is None:
        return NOTHING
    for kind, field in KINDS:
        if isinstance(value, kind):
            return {**NOTHING, field: value}
    if isinstance(value, list | tuple):
        return {**NOTHING, "array": [anything_encoded(item) for item in value]}
    if isinstance(value, dict):
        entries = [
            {"key": anything_encoded(key), "value": anything_encoded(item)}
            for key, item in value.items()
        ]
        return {**NOTHING, "map": entries}
    raise DataException(f"Unknown type for schemaless data: {type(value).__name__}")


def anything_decoded(record: dict[str, Any]) -> Any:
    for field in FIELDS:
        value = record[field]
        if value is None:
            continue
        if field == "array":
            return [anything_decoded(item) for item in value]
        if field == "map":
            return {
                anything_decoded(entry["key"]): anything_decoded(entry["value"]) for entry in value
            }
        return value
    return None
