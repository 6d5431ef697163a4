"""The tables that the sink writes to: inspected, created, and extended by missing columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.connectors.jdbc.database import (
    ColumnDefinition,
    Database,
    DatabaseError,
    TableId,
    qualified,
)
from ottla.connect.connectors.jdbc.shapes import Shape
from ottla.connect.data import Schema
from ottla.connect.errors import ConnectException


class TargetTables:
    """A cache of table definitions: a table is inspected once, and again if a record has columns
    that it lacks."""

    def __init__(self, database: Database, settings: Mapping[str, Any]) -> None:
        self._database = database
        self._settings = settings
        self._columns: dict[TableId, dict[str, ColumnDefinition]] = {}

    def prepare(self, table: TableId, shape: Shape) -> None:
        """Make the table fit the shape, or raise ConnectException."""
        columns = self._columns.get(table)
        if columns is not None and all(name in columns for name in shape.columns):
            return
        columns = self._inspect(table)
        if not columns:
            columns = self._create(table, shape)
        missing = [name for name in shape.columns if name not in columns]
        if missing:
            columns = self._evolve(table, shape, missing, columns)
        self._columns[table] = columns

    def _inspect(self, table: TableId) -> dict[str, ColumnDefinition]:
        return {column.name: column for column in self._database.columns(table)}

    def _create(self, table: TableId, shape: Shape) -> dict[str, ColumnDefinition]:
        if not self._settings["auto.create"]:
            raise ConnectException(
                f"the table {table} does not exist, and auto.create is off; its columns would be"
                f" {', '.join(shape.columns)}"
            )
        quote = self._database.quote
        lines = [self._definition(name, shape.schemas[name]) for name in shape.columns]
        if shape.keys:
            lines.append(f"PRIMARY KEY ({', '.join(quote(name) for name in shape.keys)})")
        try:
            self._database.execute(
                f"CREATE TABLE {qualified(self._database, table)} ({', '.join(lines)})"
            )
        except DatabaseError as error:
            return self._created_concurrently(table, error)
        self._database.commit()
        return self._inspect(table)

    def _created_concurrently(
        self, table: TableId, error: DatabaseError
    ) -> dict[str, ColumnDefinition]:
        """Another task may have created the table at the same time: then use it."""
        self._database.rollback()
        columns = self._inspect(table)
        if not columns:
            raise ConnectException(f"creating the table {table} failed: {error}") from error
        return columns

    def _evolve(
        self,
        table: TableId,
        shape: Shape,
        missing: Sequence[str],
        columns: Mapping[str, ColumnDefinition],
    ) -> dict[str, ColumnDefinition]:
        if not self._settings["auto.evolve"]:
            raise ConnectException(
                f"the table {table} has no column {', '.join(missing)}, and auto.evolve is off;"
                f" it has {', '.join(columns)}"
            )
        for name in missing:
            schema = shape.schemas[name]
            if not schema.optional and schema.default is None:
                raise ConnectException(
                    f"the column {name} cannot be added to {table}: the field is not optional and"
                    " has no default, which existing rows would need"
                )
        try:
            for name in missing:
                line = self._definition(name, shape.schemas[name], added=True)
                self._database.execute(
                    f"ALTER TABLE {qualified(self._database, table)} ADD COLUMN {line}"
                )
        except DatabaseError as error:
            self._database.rollback()
            found = self._inspect(table)
            if any(name not in found for name in missing):
                raise ConnectException(f"altering the table {table} failed: {error}") from error
            return found
        self._database.commit()
        return self._inspect(table)

    def _definition(self, name: str, schema: Schema, *, added: bool = False) -> str:
        text = f"{self._database.quote(name)} {self._database.column_type(schema)}"
        required = not schema.optional and schema.default is None
        return f"{text} NOT NULL" if required and not added else text
