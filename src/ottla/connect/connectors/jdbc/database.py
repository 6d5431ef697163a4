"""The interface to a database that source and sink use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.connect.data import Schema

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class TableId:
    name: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of a table or of a query's result; `type` is the database's name for the type."""

    name: str
    type: str
    precision: int | None = None
    scale: int | None = None
    nullable: bool = True
    key_position: int = 0  # position in the primary key, from 1; 0: not part of it
    autoincrement: bool = False
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class ColumnConversion:
    """The settings that determine how columns become fields."""

    numeric: str = "none"
    timezone: str = "UTC"
    granularity: str = "connect_logical"


class ResultRows(Protocol):
    """The rows of a query, fetched in chunks."""

    columns: Sequence[ColumnDefinition]

    def fetch(self, count: int) -> list[Any]:
        """The next rows as tuples, at most `count`; empty at the end."""

    def close(self) -> None: ...


class Database(Protocol):
    """One connection. Methods raise DatabaseError."""

    placeholder: str  # for a parameter

    # Reading

    def tables(self, types: Iterable[str], schema: str | None) -> list[TableId]: ...

    def columns(self, table: TableId) -> list[ColumnDefinition]:
        """The columns in order; empty if there is no such table."""

    def query_columns(self, query: str) -> list[ColumnDefinition]: ...

    def rows(self, sql: str, parameters: Sequence[Any], size: int) -> ResultRows:
        """Run a query, with about `size` rows in memory at a time."""

    def now_micros(self) -> int: ...

    def end_reading(self) -> None: ...

    def field(
        self, column: ColumnDefinition, mapping: ColumnConversion
    ) -> tuple[Schema, Convert | None] | None:
        """The field's schema, and the conversion of its values; None if it cannot be copied."""

    def timestamp_sql(self, expression: str) -> str:
        """The expression over a timestamp column, in a form comparable to `timestamp_value`."""

    def timestamp_value(self, micros: int, column: ColumnDefinition, timezone: str) -> Any: ...

    def timestamp_micros(self, value: Any, timezone: str) -> int:
        """A value of a timestamp column, in microseconds since the epoch."""

    # Writing

    def table_of(self, name: str) -> TableId: ...

    def column_type(self, schema: Schema) -> str: ...

    def binder(self, schema: Schema, timezone: str) -> Convert | None: ...

    def execute(self, sql: str) -> None: ...

    def insert(self, table: TableId, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, in the fastest way."""

    def upsert(
        self,
        table: TableId,
        keys: Sequence[str],
        others: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        """Each row has the keys first, then the others. Keys must be unique within `rows`."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    # Both

    def quote(self, name: str) -> str: ...

    def close(self) -> None: ...


class DatabaseError(Exception):
    """An error of the database or its driver; `passing`: it is transient."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def qualified(database: Database, table: TableId) -> str:
    """The table's name, quoted for a statement."""
    quoted = database.quote(table.name)
    return quoted if table.schema is None else f"{database.quote(table.schema)}.{quoted}"
