"""What the engine asks of a schema registry: columns, registrations, deletions.

Columns are inferred before a statement is written into the command topic, and are written with it:
whoever reads it later needs no registry to know them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ottla.client.schema_registry import RegisteredSchema, RegistryError, SchemaRegistry
from ottla.errors import KafkaError
from ottla.rows.errors import SqlError
from ottla.rows.formats.half import half_of
from ottla.rows.formats.registered import Registered, no_registry
from ottla.rows.inference import NotInferable, columns_of
from ottla.rows.schema import Column, Format, Role
from ottla.rows.schema_properties import (
    INFERRED,
    SCHEMA_ID,
    SUBJECT,
    Owner,
    schema_properties,
)
from ottla.rows.types import Field
from ottla.sql.catalog import Source, column_text
from ottla.sql.definitions import (
    DEFAULT_KEY_FORMAT,
    DEFAULT_VALUE_FORMAT,
    UNWRAPPED,
    WRAP_SINGLE_VALUES,
    known_format,
    text,
)
from ottla.sql.syntax.statements import CreateSource, Element, SourceKind
from ottla.sql.syntax.writing import format_statement

NOT_FOUND: Final = 404
CONFLICT: Final = 409
HIDDEN: Final = frozenset({401, 403, 404})
KINDS: Final = {"AVRO": "AVRO", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}

log = logging.getLogger("ottla.sql")


class Schemas:
    """`registry` is None where none is configured: statements that need none go on working."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry

    def close(self) -> None:
        if self._registry is not None:
            self._registry.close()

    # Columns

    def inferred(self, statement: CreateSource, defaults: Mapping[str, str]) -> CreateSource:
        """The statement with the columns that its schemas have, if it has none itself."""
        found = [
            *self._elements(statement, defaults, "KEY"),
            *self._elements(statement, defaults, "VALUE"),
        ]
        if not found:
            return statement
        keys = [each for each in found if each.role is Role.KEY]
        rest = [each for each in found if each.role is not Role.KEY]
        own_keys = [each for each in statement.elements if each.role is Role.KEY]
        others = [each for each in statement.elements if each.role is not Role.KEY]
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
        if any(each.role is role for each in statement.elements):
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
                remedy="Give the key columns in the statement.",
            )
        primary = part == "KEY" and statement.kind is SourceKind.TABLE
        return [Element(each.name, each.type, role, primary=primary) for each in fields]

    def _fields(
        self,
        format_name: str,
        properties: Mapping[str, str],
        topic: str,
        part: str,
        *,
        wrapped: bool,
    ) -> list[Field]:
        registry = self._needed(format_name)
        schema = self._schema(registry, format_name, properties, topic, part)
        try:
            return columns_of(registry, schema, properties, part=part, wrapped=wrapped)
        except NotInferable as error:
            raise SqlError(
                f"Unable to verify if the {part.lower()} schema for topic: {topic} is compatible"
                f" with ksqlDB.\nReason: {error}\nSchema:{schema.text}",
                remedy="Give the columns in the statement: those that it names are read.",
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
        except RegistryError as error:
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

    def check(self, source: Source) -> None:
        """CREATE ... AS with the id of a schema: it must have all columns of the query."""
        for part, format_, columns in _halves(source):
            if SCHEMA_ID not in format_.properties or format_.name not in INFERRED:
                continue
            fields = self._fields(
                format_.name, format_.properties, source.topic, part, wrapped=format_.wrapped
            )
            have = [(each.name, each.type) for each in fields]
            want = [(each.name, each.type) for each in columns]
            alone = not format_.wrapped and [each[1] for each in have] == [each[1] for each in want]
            if not alone and have[: len(want)] != want:
                raise SqlError(
                    f"The following {part.lower()} columns are changed, missing or reordered:"
                    f" [{', '.join(column_text(each) for each in columns)}]. Schema from schema"
                    f" registry is [{', '.join(f'`{n}` {t}' for n, t in have)}]",
                    remedy="Select the columns in the order of the schema, with its names in back"
                    " quotes: AS `name`.",
                )

    def register(self, source: Source, *, even_if_there: bool) -> None:
        """The schemas of a stream or table, as the next versions of the topic's subjects."""
        for _, format_, columns in _halves(source):
            if format_.name not in INFERRED or SCHEMA_ID in format_.properties or not columns:
                continue
            registry = self._needed(format_.name)
            half = half_of(format_, columns, of_key=columns[0].role is Role.KEY, registry=registry)
            assert isinstance(half, Registered)
            subject = format_.properties[SUBJECT]
            try:
                if even_if_there or not self._is_there(subject):
                    registry.register(subject, half.kind, half.schema_text())
            except (RegistryError, KafkaError) as error:
                raise SqlError(
                    f"Could not register schema for topic: {error}",
                    remedy=f"The subject is {subject}; its compatibility level says what may"
                    " follow."
                    if isinstance(error, RegistryError) and error.status == CONFLICT
                    else "Is the schema registry running?",
                ) from None

    def delete(self, source: Source) -> None:
        """The subjects of a topic that is deleted; one that is not there is as good."""
        for _, format_, _ in _halves(source):
            if format_.name not in INFERRED or self._registry is None:
                continue
            try:
                self._registry.delete(format_.properties[SUBJECT])
            except RegistryError as error:
                if error.status != NOT_FOUND:
                    log.warning("subject %s is not deleted: %s", format_.properties[SUBJECT], error)
            except KafkaError as error:
                log.warning("subject %s is not deleted: %s", format_.properties[SUBJECT], error)

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
        except RegistryError as error:
            if error.status == NOT_FOUND:
                return False
            raise SqlError(f"Cannot check schema existence: {error}", remedy="Try again.") from None
        except KafkaError as error:
            raise _failed(error) from None
        return True

    def _is_there(self, subject: str) -> bool:
        try:
            self._needed("").version(subject)
        except RegistryError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        return True

    def _needed(self, format_name: str) -> SchemaRegistry:
        if self._registry is None:
            raise no_registry(format_name)
        return self._registry


def _halves(source: Source) -> list[tuple[str, Format, tuple[Column, ...]]]:
    layout = source.layout
    return [
        ("KEY", layout.key_format, layout.schema.key),
        ("VALUE", layout.value_format, layout.schema.value),
    ]


def _wraps(given: Mapping[str, Any], defaults: Mapping[str, str]) -> bool:
    wish = given.get("WRAP_SINGLE_VALUE", defaults.get(WRAP_SINGLE_VALUES, "true"))
    return str(wish).lower() == "true"


def _failed(error: Exception) -> SqlError:
    return SqlError(
        f"The schema registry does not answer: {error}", remedy="Is it running? Try again."
    )


def _missing(
    properties: Mapping[str, str], topic: str, part: str, error: RegistryError
) -> SqlError:
    id_ = properties.get(SCHEMA_ID)
    return SqlError(
        f"Schema for message {part.lower()}s on topic '{topic}' does not exist in the Schema"
        f" Registry.\nSubject: {properties[SUBJECT]}"
        + (f"\nSchema Id: {id_}" if id_ is not None else "")
        + f"\n{error}",
        remedy=f"PRINT '{topic}' FROM BEGINNING; shows how its records are written. Give the"
        " columns in the statement, or produce with a serializer that registers its schema.",
    )
