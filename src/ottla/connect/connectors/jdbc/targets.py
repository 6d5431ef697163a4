"""Tables that are written to: looked at, made, and given the columns that they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.connectors.jdbc.database import (
    Column,
    Database,
    DatabaseError,
    Table,
    qualified,
)
from ottla.connect.connectors.jdbc.shapes import Shape
from ottla.connect.data import Schema
from ottla.connect.errors import ConnectException


class Targets:
    """What is known of tables, by name: each is looked at once, and again when it did not fit."""

    def __init__(self, database: Database, settings: Mapping[str, Any]) -> None:
        self._database = database
        self._settings = settings
        self._columns: dict[Table, dict[str, Column]] = {}

    def prepare(self, table: Table, shape: Shape) -> None:
        """Make the table fit the shape, or say why it doesn't."""
        columns = self._columns.get(table)
        if columns is not None and all(name in columns for name in shape.columns):
            return
        columns = self._look(table)
        if not columns:
            columns = self._create(table, shape)
        missing = [name for name in shape.columns if name not in columns]
        if missing:
            columns = self._evolve(table, shape, missing, columns)
        self._columns[table] = columns

    def _look(self, table: Table) -> dict[str, Column]:
        return {each.name: each for each in self._database.columns(table)}

    def _create(self, table: Table, shape: Shape) -> dict[str, Column]:
        if not self._settings["auto.create"]:
            raise ConnectException(
                f"the table {table} is not there, and auto.create is off; its columns would be"
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
            return self._made_by_another(table, error)
        self._database.commit()
        return self._look(table)

    def _made_by_another(self, table: Table, error: DatabaseError) -> dict[str, Column]:
        """Two tasks may make a table at once: one of them finds it made."""
        self._database.rollback()
        columns = self._look(table)
        if not columns:
            raise ConnectException(f"the table {table} can't be made: {error}") from error
        return columns

    def _evolve(
        self, table: Table, shape: Shape, missing: Sequence[str], columns: Mapping[str, Column]
    ) -> dict[str, Column]:
        if not self._settings["auto.evolve"]:
            raise ConnectException(
                f"the table {table} has no column {', '.join(missing)}, and auto.evolve is off;"
                f" it has {', '.join(columns)}"
            )
        for name in missing:
            schema = shape.schemas[name]
            if not schema.optional and schema.default is None:
                raise ConnectException(
                    f"the column {name} can't be added to {table}: the field is not optional and"
                    " has no default, and there may be rows already"
                )
        try:
            for name in missing:
                line = self._definition(name, shape.schemas[name], added=True)
                self._database.execute(
                    f"ALTER TABLE {qualified(self._database, table)} ADD COLUMN {line}"
                )
        except DatabaseError as error:
            self._database.rollback()
            found = self._look(table)
            if any(name not in found for name in missing):
                raise ConnectException(f"{table} can't be changed: {error}") from error
            return found
        self._database.commit()
        return self._look(table)

    def _definition(self, name: str, schema: Schema, *, added: bool = False) -> str:
        text = f"{self._database.quote(name)} {self._database.column_type(schema)}"
        required = not schema.optional and schema.default is None
        return f"{text} NOT NULL" if required and not added else text
