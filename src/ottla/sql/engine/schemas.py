"""The engine's use of a schema registry: inferring columns, registering and deleting schemas.

Columns are inferred before a statement is written to the command topic, and the command contains
them, so that replaying it needs no registry.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from ottla.errors import KafkaError
from ottla.rows.errors import SqlError
from ottla.rows.formats.codec import codec_of
from ottla.rows.formats.registry_format import RegistryFormat, no_registry
from ottla.rows.schema import Column, FormatInfo, Role
from ottla.rows.schema_inference import SchemaInferenceError, infer_columns
from ottla.rows.schema_properties import INFERRED, SCHEMA_ID, SUBJECT, Owner, schema_properties
from ottla.rows.types import SqlField
from ottla.sql.catalog import DataSource, column_text
from ottla.sql.definitions import (
    DEFAULT_KEY_FORMAT,
    DEFAULT_VALUE_FORMAT,
    UNWRAPPED,
    WRAP_SINGLE_VALUES,
    known_format,
    text,
)
from ottla.sql.syntax.statement_format import format_statement
from ottla.sql.syntax.statements import CreateSource, Element, SourceKind

NOT_FOUND: Final = 404
CONFLICT: Final = 409
HIDDEN: Final = frozenset({401, 403, 404})
KINDS: Final = {"AVRO": "AVRO", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}

log = logging.getLogger("ottla.sql")


class Schemas:
    """`registry` is None if none is configured; then only statements that need one fail."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry

    def close(self) -> None:
        if self._registry is not None:
            self._registry.close()

    # Columns

    def inferred(self, statement: CreateSource, defaults: Mapping[str, str]) -> CreateSource:
        """The statement; one without columns gets those of its schemas."""
        found = [
            *self._elements(statement, defaults, "KEY"),
            *self._elements(statement, defaults, "VALUE"),
        ]
        if not found:
            return statement
        keys = [column for column in found if column.role is Role.KEY]
        rest = [column for column in found if column.role is not Role.KEY]
        own_keys = [element for element in statement.elements if element.role is Role.KEY]
        others = [element for element in statement.elements if element.role is not Role.KEY]
        made = replace(statement, elements=(*keys, *own_keys, *rest, *others))
        return replace(made, text=format_statement(made))

    def _elements(
        self, statement: CreateSource, defaults: Mapping[str, str], part: str
    ) -> list[Element]:
        given = statement.properties
        default = DEFAULT_KEY_FORMAT if part == "KEY" else DEFAULT_VALUE_FORMAT
        named = text(given, f"{part}_FORMAT") or text(given, "FORMAT") or defaults.get(default)
        topic = text(given, "KAFKA_TOPIC")
        if not named or topic is None:
            return []
        name = known_format(named)
        properties = schema_properties(given, part, name, Owner(topic, statement.name))
        role = Role.KEY if part == "KEY" else Role.VALUE
        if any(element.role is role for element in statement.elements):
            if SCHEMA_ID in properties:
                raise SqlError(
                    f"Table elements and {part}_SCHEMA_ID cannot both exist for create statement.",
                    remedy=f"Leave out the columns, or {part}_SCHEMA_ID.",
                )
            return []
        if name not in INFERRED:
            return []
        given_name = f"{part}_SCHEMA_FULL_NAME" in given or "VALUE_AVRO_SCHEMA_FULL_NAME" in given
        if not given_name:
            properties.pop("SCHEMA_FULL_NAME", None)
        wraps = _wraps(given, defaults)
        wrapped = name not in UNWRAPPED or (part == "VALUE" and wraps)
        fields = self._fields(name, properties, topic, part, wrapped=wrapped)
        if part == "KEY" and len(fields) > 1:
            raise SqlError(
                f"The key schema for topic: {topic} contains multiple columns, which is not"
                " supported by ksqlDB at this time.",
                remedy="Declare the key columns in the statement.",
            )
        primary = part == "KEY" and statement.kind is SourceKind.TABLE
        return [Element(field.name, field.type, role, primary=primary) for field in fields]

    def _fields(
        self,
        format_name: str,
        properties: Mapping[str, str],
        topic: str,
        part: str,
        *,
        wrapped: bool,
    ) -> list[SqlField]:
        registry = self._needed(format_name)
        schema = self._schema(registry, format_name, properties, topic, part)
        try:
            return infer_columns(registry, schema, properties, part=part, wrapped=wrapped)
        except SchemaInferenceError as error:
            raise SqlError(
                f"Unable to verify if the {part.lower()} schema for topic: {topic} is compatible"
                f" with ksqlDB.\nReason: {error}\nSchema:{schema.text}",
                remedy="Declare columns in the statement: only these are read then.",
            ) from None

    def _schema(
        self,
        registry: SchemaRegistry,
        format_name: str,
        properties: Mapping[str, str],
        topic: str,
        part: str,
    ) -> RegisteredSchema:
        id_ = properties.get(SCHEMA_ID)
        try:
            if id_ is not None:
                schema = registry.by_id(int(id_))
            else:
                schema = registry.version(properties[SUBJECT])
        except SchemaRegistryError as error:
            if error.status not in HIDDEN:
                raise _failed(error) from None
            raise _missing(properties, topic, part, error) from None
        except KafkaError as error:
            raise _failed(error) from None
        if schema.kind != KINDS[format_name]:
            named = next((n for n, kind in KINDS.items() if kind == schema.kind), schema.kind)
            raise SqlError(
                f"{part.capitalize()} schema is not in the expected format. You may want to set"
                f" {part}_FORMAT to '{named}'.\ntopic: {topic}\nexpected format:"
                f" {KINDS[format_name]}\nactual format from Schema Registry: {schema.kind}",
                remedy=f"{part}_FORMAT='{named}'",
            )
        return schema

    # Sinks

    def check(self, source: DataSource) -> None:
        """CREATE ... AS with a schema id: the schema must have the columns of the query."""
        for part, format_, columns in _halves(source):
            if SCHEMA_ID not in format_.properties or format_.name not in INFERRED:
                continue
            fields = self._fields(
                format_.name, format_.properties, source.topic, part, wrapped=format_.wrapped
            )
            have = [(field.name, field.type) for field in fields]
            want = [(column.name, column.type) for column in columns]
            alone = not format_.wrapped and [column[1] for column in have] == [
                column[1] for column in want
            ]
            if not alone and have[: len(want)] != want:
                raise SqlError(
                    f"The following {part.lower()} columns are changed, missing or reordered:"
                    f" [{', '.join(column_text(column) for column in columns)}]. Schema from schema"
                    f" registry is [{', '.join(f'`{n}` {t}' for n, t in have)}]",
                    remedy="Select the columns in the order of the schema, with its names in back"
                    " quotes: AS `name`.",
                )

    def register(self, source: DataSource, *, even_if_there: bool) -> None:
        """Register the schemas of a source as the next versions of the topic's subjects."""
        for _, format_, columns in _halves(source):
            if format_.name not in INFERRED or SCHEMA_ID in format_.properties or not columns:
                continue
            registry = self._needed(format_.name)
            half = codec_of(format_, columns, of_key=columns[0].role is Role.KEY, registry=registry)
            assert isinstance(half, RegistryFormat)
            subject = format_.properties[SUBJECT]
            try:
                if even_if_there or not self._is_there(subject):
                    registry.register(subject, half.kind, half.schema_text())
            except (SchemaRegistryError, KafkaError) as error:
                raise SqlError(
                    f"Could not register schema for topic: {error}",
                    remedy=f"The schema must be compatible with the versions of subject {subject};"
                    " check its compatibility level."
                    if isinstance(error, SchemaRegistryError) and error.status == CONFLICT
                    else "Is the schema registry running?",
                ) from None

    def delete(self, source: DataSource) -> None:
        """Delete the subjects of a deleted topic; missing ones are ignored."""
        for _, format_, _ in _halves(source):
            if format_.name not in INFERRED or self._registry is None:
                continue
            subject = format_.properties[SUBJECT]
            try:
                self._registry.delete(subject)
            except SchemaRegistryError as error:
                if error.status != NOT_FOUND:
                    log.warning("Failed to delete subject %s: %s", subject, error)
            except KafkaError as error:
                log.warning("Failed to delete subject %s: %s", subject, error)

    # ASSERT SCHEMA

    def exists(self, subject: str | None, id_: int | None) -> bool:
        registry = self._needed("of ASSERT SCHEMA")
        try:
            if subject is not None and id_ is not None:
                found: list[Any] = registry.get("schemas", "ids", str(id_), "subjects")
                return subject in found
            if id_ is not None:
                registry.by_id(id_)
            elif subject is not None:
                registry.version(subject)
        except SchemaRegistryError as error:
            if error.status == NOT_FOUND:
                return False
            raise SqlError(f"Cannot check schema existence: {error}", remedy="Try again.") from None
        except KafkaError as error:
            raise _failed(error) from None
        return True

    def _is_there(self, subject: str) -> bool:
        try:
            self._needed("").version(subject)
        except SchemaRegistryError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        return True

    def _needed(self, format_name: str) -> SchemaRegistry:
        if self._registry is None:
            raise no_registry(format_name)
        return self._registry


def _halves(source: DataSource) -> list[tuple[str, FormatInfo, tuple[Column, ...]]]:
    layout = source.layout
    return [
        ("KEY", layout.key_format, layout.schema.key),
        ("VALUE", layout.value_format, layout.schema.value),
    ]


def _wraps(given: Mapping[str, Any], defaults: Mapping[str, str]) -> bool:
    wanted = given.get("WRAP_SINGLE_VALUE", defaults.get(WRAP_SINGLE_VALUES, "true"))
    return str(wanted).lower() == "true"


def _failed(error: Exception) -> SqlError:
    return SqlError(
        f"No response from the schema registry: {error}", remedy="Is it running? Try again."
    )


def _missing(
    properties: Mapping[str, str], topic: str, part: str, error: SchemaRegistryError
) -> SqlError:
    id_ = properties.get(SCHEMA_ID)
    return SqlError(
        f"Schema for message {part.lower()}s on topic '{topic}' does not exist in the Schema"
        f" Registry.\nSubject: {properties[SUBJECT]}"
        + (f"\nSchema Id: {id_}" if id_ is not None else "")
        + f"\n{error}",
        remedy=f"PRINT '{topic}' FROM BEGINNING; shows its format. Declare the"
        " columns in the statement, or produce with a serializer that registers its schema.",
    )
