"""What source and sink ask of a database, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.connect.data import Schema

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or of a query's result; `type` is the database's own word for it."""

    name: str
    type: str
    precision: int | None = None
    scale: int | None = None
    nullable: bool = True
    key_position: int = 0  # in the primary key, counted from 1; 0: not in it
    autoincrement: bool = False
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """How columns become fields: the settings that have a say in it."""

    numeric: str = "none"
    timezone: str = "UTC"
    granularity: str = "connect_logical"


class Rows(Protocol):
    """The rows of a query, fetched piece by piece."""

    columns: Sequence[Column]

    def fetch(self, count: int) -> list[Any]:
        """The next rows as tuples, at most `count`; none: that was all."""

    def close(self) -> None: ...


class Database(Protocol):
    """One connection. Failures are DatabaseErrors."""

    placeholder: str  # of a parameter

    # Reading

    def tables(self, types: Iterable[str], schema: str | None) -> list[Table]: ...

    def columns(self, table: Table) -> list[Column]:
        """In their order; none: there is no such table."""

    def query_columns(self, query: str) -> list[Column]: ...

    def rows(self, sql: str, parameters: Sequence[Any], size: int) -> Rows:
        """Run a query; about `size` rows are held at a time."""

    def now_micros(self) -> int: ...

    def end_reading(self) -> None: ...

    def field(self, column: Column, mapping: Mapping) -> tuple[Schema, Convert | None] | None:
        """Its schema and what makes a value fit it; None: it can't be copied."""

    def timestamp_sql(self, expression: str) -> str:
        """An expression over a timestamp column that compares and sorts as `timestamp_value`."""

    def timestamp_value(self, micros: int, column: Column, timezone: str) -> Any: ...

    def timestamp_micros(self, value: Any, timezone: str) -> int:
        """A value of a timestamp column, since the epoch in UTC."""

    # Writing

    def table_of(self, name: str) -> Table: ...

    def column_type(self, schema: Schema) -> str: ...

    def binder(self, schema: Schema, timezone: str) -> Convert | None: ...

    def execute(self, sql: str) -> None: ...

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """The quickest way to add rows."""

    def upsert(
        self,
        table: Table,
        keys: Sequence[str],
        others: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        """Rows of keys, then others; no key may be there twice."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    # Both

    def quote(self, name: str) -> str: ...

    def close(self) -> None: ...


class DatabaseError(Exception):
    """What the database or its driver said; `passing`: it may go well the next time."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def qualified(database: Database, table: Table) -> str:
    """A table's name as it stands in a statement."""
    quoted = database.quote(table.name)
    return quoted if table.schema is None else f"{database.quote(table.schema)}.{quoted}"
