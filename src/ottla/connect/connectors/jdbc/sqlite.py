"""SQLite with Python's sqlite3. A column's type is its declared type."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from ottla.connect.connectors.jdbc import database as shared
from ottla.connect.connectors.jdbc.database import ColumnDefinition, Convert, DatabaseError, TableId
from ottla.connect.connectors.jdbc.sqlite_types import (
    binder_of,
    field_of,
    micros_of_stored,
    type_of,
)
from ottla.connect.data import Schema

MICROS: Final = "ottla_micros"
BUSY_S_MAX: Final = 30.0
DECLARED: Final = re.compile(r"([^()]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\))?\s*")
VALUE_TYPES: Final[dict[type, str]] = {
    int: "integer",
    float: "real",
    str: "text",
    bytes: "blob",
    type(None): "text",
}
# Transient errors: another connection writes, or the disk fails.
PASSING: Final = ("database is locked", "database table is locked", "disk I/O error")


class Sqlite:
    placeholder = "?"

    def __init__(self, path: str, *, quotes: bool = True) -> None:
        self._quotes = quotes
        with _failures():
            self._connection = sqlite3.connect(
                path,
                timeout=BUSY_S_MAX,
                uri=path.startswith("file:"),
                check_same_thread=False,
                isolation_level=None,
            )
            self._connection.create_function(MICROS, 1, micros_of_stored, deterministic=True)
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    # Reading

    def tables(self, types: Iterable[str], schema: str | None) -> list[TableId]:
        kinds = [
            table_type.lower() for table_type in types if table_type.upper() in ("TABLE", "VIEW")
        ]
        marks = ", ".join("?" for _ in kinds)
        with _failures():
            found = self._connection.execute(
                f"SELECT name FROM sqlite_master WHERE type IN ({marks})"
                " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
                kinds,
            ).fetchall()
        return [TableId(name) for (name,) in found]

    def columns(self, table: TableId) -> list[ColumnDefinition]:
        with _failures():
            found = self._connection.execute(
                f"PRAGMA table_info({self.quote(table.name)})"
            ).fetchall()
        alone = sum(1 for row in found if row[5]) == 1
        return [
            ColumnDefinition(
                name,
                *_declared(declared),
                nullable=not not_null and not key,
                key_position=key,
                autoincrement=bool(key) and alone and declared.upper() == "INTEGER",
                has_default=default is not None,
            )
            for _, name, declared, not_null, default, key in found
        ]

    def rows(self, sql: str, parameters: Sequence[Any], size: int) -> SqliteRows:
        with _failures():
            columns = self._columns_of_query(sql) if not parameters else None
            cursor = self._connection.execute(sql, tuple(parameters))
        if columns is None:
            columns = [
                ColumnDefinition(description[0], "") for description in cursor.description or ()
            ]
        return SqliteRows(cursor, columns)

    def query_columns(self, query: str) -> list[ColumnDefinition]:
        with _failures():
            return self._columns_of_query(query)

    def _columns_of_query(self, sql: str) -> list[ColumnDefinition]:
        """sqlite3 does not report the declared types of a result's columns, but a view does."""
        self._connection.execute("DROP VIEW IF EXISTS temp.ottla_query")
        self._connection.execute(f"CREATE TEMPORARY VIEW ottla_query AS {sql.rstrip().rstrip(';')}")
        found = self._connection.execute("PRAGMA temp.table_info(ottla_query)").fetchall()
        self._connection.execute("DROP VIEW temp.ottla_query")
        return [ColumnDefinition(name, *_declared(declared)) for _, name, declared, *_ in found]

    def now_micros(self) -> int:
        with _failures():
            row = self._connection.execute("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')").fetchone()
        micros = micros_of_stored(row[0])
        assert micros is not None
        return micros

    def end_reading(self) -> None:
        """Nothing to do: reading opens no transaction, and cursors are closed individually."""

    def field(
        self, column: ColumnDefinition, mapping: shared.ColumnConversion
    ) -> tuple[Schema, Convert | None] | None:
        return field_of(column, mapping)

    def timestamp_sql(self, expression: str) -> str:
        """Timestamps may be stored as text or numbers, so compare them by a function."""
        return f"{MICROS}({expression})"

    def timestamp_value(self, micros: int, column: ColumnDefinition, timezone: str) -> Any:
        return micros

    def timestamp_micros(self, value: Any, timezone: str) -> int:
        micros = micros_of_stored(value)
        assert micros is not None
        return micros

    # Writing

    def table_of(self, name: str) -> TableId:
        return TableId(name)

    def column_type(self, schema: Schema) -> str:
        return type_of(schema)

    def binder(self, schema: Schema, timezone: str) -> Convert | None:
        return binder_of(schema)

    def execute(self, sql: str) -> None:
        with _failures():
            self._begin()
            self._connection.execute(sql)

    def insert(self, table: TableId, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.execute_many(self._insert_sql(table, columns), rows)

    def upsert(
        self,
        table: TableId,
        keys: Sequence[str],
        others: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        target = ", ".join(self.quote(key) for key in keys)
        sets = ", ".join(
            f"{self.quote(column)} = excluded.{self.quote(column)}" for column in others
        )
        what = f"UPDATE SET {sets}" if others else "NOTHING"
        insert = self._insert_sql(table, [*keys, *others])
        self.execute_many(f"{insert} ON CONFLICT ({target}) DO {what}", rows)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with _failures():
            self._begin()
            self._connection.executemany(sql, rows)

    def commit(self) -> None:
        with _failures():
            self._connection.commit()

    def rollback(self) -> None:
        with _failures():
            self._connection.rollback()

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")

    def _insert_sql(self, table: TableId, columns: Sequence[str]) -> str:
        names = ", ".join(self.quote(column) for column in columns)
        marks = ", ".join("?" for _ in columns)
        return f"INSERT INTO {shared.qualified(self, table)} ({names}) VALUES ({marks})"

    # Both

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"' if self._quotes else name

    def close(self) -> None:
        self._connection.close()


class SqliteRows:
    """Reads the first row ahead: a column without declared type gets the type of its value."""

    def __init__(self, cursor: sqlite3.Cursor, columns: Sequence[ColumnDefinition]) -> None:
        self._cursor = cursor
        with _failures():
            self._first = cursor.fetchmany(1)
        self.columns = columns
        if self._first:
            self.columns = [
                column if column.type else replace(column, type=VALUE_TYPES[type(value)])
                for column, value in zip(columns, self._first[0], strict=True)
            ]

    def fetch(self, count: int) -> list[Any]:
        if self._first:
            first, self._first = self._first, []
            return first
        with _failures():
            return self._cursor.fetchmany(count)

    def close(self) -> None:
        self._cursor.close()


def _declared(text: str) -> tuple[str, int | None, int | None]:
    """DECIMAL(10, 2) -> decimal, 10, 2."""
    found = DECLARED.fullmatch(text or "")
    if found is None:
        return text.lower(), None, None
    name, precision, scale = found.groups()
    if precision is None:
        return name.strip().lower(), None, None
    return name.strip().lower(), int(precision), int(scale or 0)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        raise DatabaseError(text, passing=text.startswith(PASSING)) from error
