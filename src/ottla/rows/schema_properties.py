"""The properties of a WITH clause about schemas, as properties of a format.

{"SUBJECT": "orders-value", "SCHEMA_FULL_NAME": "com.acme.Order"}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.rows.errors import SqlError

Properties = Mapping[str, str | int | float | bool]
"""A WITH clause by upper-case names."""

SUBJECT: Final = "SUBJECT"
SCHEMA_ID: Final = "SCHEMA_ID"
FULL_NAME: Final = "SCHEMA_FULL_NAME"
NULLABLE: Final = "PROTOBUF_NULLABLE_REPRESENTATION"
NULLABLES: Final = ("OPTIONAL", "WRAPPER")
AVRO_NAME: Final = "VALUE_AVRO_SCHEMA_FULL_NAME"
KEY_NAMESPACE: Final = "io.confluent.ksql.avro_schemas"

INFERRED: Final = frozenset({"AVRO", "JSON_SR", "PROTOBUF"})
"""Formats that infer columns from a schema registry and register their schemas there."""
INHERITED: Final = ("DELIMITER", NULLABLE)
"""What a query's result inherits from its source, if the format is the same."""

SUPPORTED: Final[Mapping[str, frozenset[str]]] = {
    "AVRO": frozenset({FULL_NAME, SCHEMA_ID}),
    "JSON_SR": frozenset({SCHEMA_ID}),
    "PROTOBUF": frozenset({FULL_NAME, SCHEMA_ID, NULLABLE}),
    "PROTOBUF_NOSR": frozenset({NULLABLE}),
}
CONFIGS: Final[Mapping[str, str]] = {
    FULL_NAME: "fullSchemaName",
    SCHEMA_ID: "schemaId",
    NULLABLE: "nullableRepresentation",
}
"""ksqlDB's names for them in messages."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A topic and its stream or table."""

    topic: str
    source: str


def schema_properties(
    properties: Properties, part: str, format_name: str, owner: Owner
) -> dict[str, str]:
    """`part` is KEY or VALUE."""
    found = {
        name: str(properties[f"{part}_{name}"])
        for name in (FULL_NAME, SCHEMA_ID, NULLABLE)
        if f"{part}_{name}" in properties
    }
    if part == "VALUE" and AVRO_NAME in properties:
        if FULL_NAME in found:
            raise SqlError(
                f"Cannot supply both '{AVRO_NAME}' and 'VALUE_SCHEMA_FULL_NAME' properties.",
                remedy="Use VALUE_SCHEMA_FULL_NAME alone.",
            )
        found[FULL_NAME] = str(properties[AVRO_NAME])
    _check(found, part, format_name)
    if format_name in INFERRED:
        found[SUBJECT] = f"{owner.topic}-{part.lower()}"
    if format_name == "AVRO" and part == "KEY":
        found.setdefault(FULL_NAME, key_name(owner.source))
    return found


def key_name(source: str) -> str:
    """The name of a key's record: `...FooBarKey` of FOO_BAR."""
    camel = "".join(word.capitalize() for word in source.split("_"))
    return f"{KEY_NAMESPACE}.{camel}Key"


def _check(found: Mapping[str, str], part: str, format_name: str) -> None:
    wrong = sorted(set(found) - SUPPORTED.get(format_name, frozenset()))
    if SCHEMA_ID in wrong:
        raise SqlError(
            f"{part}_FORMAT should support schema inference when {part}_SCHEMA_ID is provided."
            f" Current format is {format_name}.",
            remedy=f"Leave it out, or use {part}_FORMAT='AVRO', 'JSON_SR' or 'PROTOBUF'.",
        )
    if wrong:
        configs = ", ".join(CONFIGS[name] for name in wrong)
        raise SqlError(
            f"{format_name} does not support the following configs: [{configs}]",
            remedy=f"Leave out {part}_{wrong[0]}.",
        )
    if SCHEMA_ID in found and not found[SCHEMA_ID].isdigit():
        raise SqlError(
            f"Invalid value {found[SCHEMA_ID]} for property {part}_SCHEMA_ID: Not a number.",
            remedy=f"{part}_SCHEMA_ID=1, for example.",
        )
    if FULL_NAME in found and not found[FULL_NAME].strip():
        raise SqlError(
            "Schema name cannot be empty.", remedy=f"Leave out {part}_{FULL_NAME}, or set a name."
        )
    if NULLABLE in found and found[NULLABLE].upper() not in NULLABLES:
        raise SqlError(
            f"Invalid value {found[NULLABLE]} for property {part}_{NULLABLE}: String must be one"
            f" of: {', '.join(NULLABLES)}, null",
            remedy=f"{part}_{NULLABLE}='OPTIONAL', for example.",
        )
