"""PostgreSQL with psycopg: server-side cursors to read, COPY to write."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql as composed
from psycopg.conninfo import make_conninfo
from psycopg.types.string import TextLoader

from ottla.connect.connectors.jdbc import database as shared
from ottla.connect.connectors.jdbc.database import ColumnDefinition, Convert, DatabaseError, TableId
from ottla.connect.connectors.jdbc.postgres_types import (
    ARRAY,
    TEXT_TYPES,
    binder_of,
    field_of,
    type_of,
)
from ottla.connect.connectors.jdbc.times import micros_of, moment_of, zone_of
from ottla.connect.data import Schema

CURSOR: Final = "ottla"
STAGE: Final = "ottla_stage"
KINDS: Final = {
    "TABLE": ("r", "p"),
    "PARTITIONED TABLE": ("p",),
    "VIEW": ("v",),
    "MATERIALIZED VIEW": ("m",),
    "FOREIGN TABLE": ("f",),
}
# Transient SQLSTATE classes: connection errors, the server's state, conflicts between transactions.
PASSING: Final = ("08", "40", "53", "55", "57", "58")

TABLES: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY(%s) AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema$)'
  AND (%s::text IS NULL OR n.nspname LIKE %s)
ORDER BY n.nspname, c.relname"""
COLUMNS: Final = """
SELECT a.attname, a.atttypid, a.atttypmod, NOT a.attnotnull,
  COALESCE(array_position(i.indkey::smallint[], a.attnum) + 1, 0),
  a.attidentity <> '' OR COALESCE(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false),
  a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> ''
FROM pg_attribute a
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""


class Postgres:
    placeholder = "%s"

    def __init__(self, parameters: Mapping[str, str], *, quotes: bool = True) -> None:
        self._quotes = quotes
        with _failures():
            self._connection = psycopg.connect(make_conninfo(**parameters))
            self._connection.execute("SET TIME ZONE 'UTC'")
            self._connection.commit()
        for name in TEXT_TYPES:
            if self._connection.adapters.types.get(name) is not None:
                self._connection.adapters.register_loader(name, TextLoader)
        self._staged: dict[tuple[TableId, tuple[str, ...]], str] = {}

    # Reading

    def tables(self, types: Iterable[str], schema: str | None) -> list[TableId]:
        kinds = sorted({kind for table_type in types for kind in KINDS.get(table_type.upper(), ())})
        pattern = schema or None
        with _failures():
            found = self._connection.execute(TABLES, (kinds, pattern, pattern)).fetchall()
        return [TableId(name, space) for space, name in found]

    def columns(self, table: TableId) -> list[ColumnDefinition]:
        with _failures():
            found = self._connection.execute(COLUMNS, (shared.qualified(self, table),)).fetchall()
        return [
            ColumnDefinition(
                name, *self._type(oid, *_numeric(oid, modifier)), nullable, key, auto, default
            )
            for name, oid, modifier, nullable, key, auto, default in found
        ]

    def query_columns(self, query: str) -> list[ColumnDefinition]:
        rows = self.rows(f"SELECT * FROM ({query}) AS ottla_rows LIMIT 0", (), 1)
        rows.close()
        return list(rows.columns)

    def rows(self, sql: str, parameters: Sequence[Any], size: int) -> PostgresRows:
        with _failures():
            cursor = self._connection.cursor(CURSOR)
            cursor.execute(_text(sql), tuple(parameters) or None)
            described = cursor.description or []
            columns = [
                ColumnDefinition(
                    description.name,
                    *self._type(description.type_code, description.precision, description.scale),
                )
                for description in described
            ]
        return PostgresRows(cursor, columns, max(size, 1))

    def now_micros(self) -> int:
        with _failures():
            row = self._connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return micros_of(row[0])

    def end_reading(self) -> None:
        with _failures():
            self._connection.rollback()

    def field(
        self, column: ColumnDefinition, mapping: shared.ColumnConversion
    ) -> tuple[Schema, Convert | None] | None:
        return field_of(column, mapping)

    def timestamp_sql(self, expression: str) -> str:
        return expression

    def timestamp_value(self, micros: int, column: ColumnDefinition, timezone: str) -> Any:
        moment = moment_of(micros)
        if column.type == "timestamptz":
            return moment
        return moment.astimezone(zone_of(timezone)).replace(tzinfo=None)

    def timestamp_micros(self, value: Any, timezone: str) -> int:
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, datetime.time())
        if value.tzinfo is None:
            value = value.replace(tzinfo=zone_of(timezone))
        return micros_of(value)

    def _type(self, oid: int, precision: int | None, scale: int | None) -> tuple[str, Any, Any]:
        info = self._connection.adapters.types.get(oid)
        if info is None:  # an enum, or an extension's type: psycopg returns its text
            return "text", None, None
        return info.name + (ARRAY if info.oid != oid else ""), precision, scale

    # Writing

    def table_of(self, name: str) -> TableId:
        space, dot, table = name.rpartition(".")
        return TableId(table, space) if dot else TableId(name)

    def column_type(self, schema: Schema) -> str:
        return type_of(schema)

    def binder(self, schema: Schema, timezone: str) -> Convert | None:
        return binder_of(schema, timezone)

    def execute(self, sql: str) -> None:
        with _failures():
            self._connection.execute(_text(sql))

    def insert(self, table: TableId, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._copy(shared.qualified(self, table), columns, rows)

    def upsert(
        self,
        table: TableId,
        keys: Sequence[str],
        others: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        """COPY into a temporary table, then one INSERT ... ON CONFLICT: nearly as fast as COPY."""
        columns = [*keys, *others]
        stage = self._stage(table, columns)
        self._copy(stage, columns, rows)
        names = ", ".join(self.quote(column) for column in columns)
        target = ", ".join(self.quote(key) for key in keys)
        sets = ", ".join(
            f"{self.quote(column)} = EXCLUDED.{self.quote(column)}" for column in others
        )
        what = f"UPDATE SET {sets}" if others else "NOTHING"
        self.execute(
            f"INSERT INTO {shared.qualified(self, table)} ({names}) SELECT {names} FROM {stage}"
            f" ON CONFLICT ({target}) DO {what}"
        )
        self.execute(f"TRUNCATE {stage}")

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with _failures(), self._connection.cursor() as cursor:
            cursor.executemany(_text(sql), rows)

    def commit(self) -> None:
        with _failures():
            self._connection.commit()

    def rollback(self) -> None:
        self._staged.clear()  # temporary tables of this transaction are rolled back, too
        with _failures():
            self._connection.rollback()

    def _copy(self, target: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        names = ", ".join(self.quote(column) for column in columns)
        statement = _text(f"COPY {target} ({names}) FROM STDIN")
        with _failures(), self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            write = copy.write_row
            for row in rows:
                write(row)

    def _stage(self, table: TableId, columns: Sequence[str]) -> str:
        """The name of a temporary table with these columns of the table."""
        key = (table, tuple(columns))
        if key not in self._staged:
            name = f"{STAGE}_{len(self._staged)}"
            names = ", ".join(self.quote(column) for column in columns)
            self.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
            self.execute(
                f"CREATE TEMPORARY TABLE {name} AS"
                f" SELECT {names} FROM {shared.qualified(self, table)} WITH NO DATA"
            )
            self._staged[key] = f"pg_temp.{name}"
        return self._staged[key]

    # Both

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"' if self._quotes else name

    def close(self) -> None:
        self._connection.close()


class PostgresRows:
    """A server-side cursor: the client holds one chunk of the result."""

    def __init__(
        self, cursor: psycopg.ServerCursor[Any], columns: Sequence[ColumnDefinition], size: int
    ) -> None:
        self.columns = columns
        self._cursor = cursor
        self._size = size
        self._chunk: list[Any] = []
        self._at = 0

    def fetch(self, count: int) -> list[Any]:
        if self._at >= len(self._chunk):
            with _failures():
                self._chunk, self._at = self._cursor.fetchmany(self._size), 0
        if not self._at and len(self._chunk) <= count:
            taken, self._chunk = self._chunk, []
            return taken
        taken = self._chunk[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def close(self) -> None:
        with _failures():
            self._cursor.close()


def _numeric(oid: int, modifier: int) -> tuple[int | None, int | None]:
    """Precision and scale of a NUMERIC, decoded from the column's type modifier."""
    if oid not in (1700, 1231) or modifier < 4:
        return None, None
    scale = (modifier - 4) & 0x7FF
    return (modifier - 4) >> 16 & 0xFFFF, scale - 0x800 if scale & 0x400 else scale


def _text(sql: str) -> composed.SQL:
    """psycopg asks for literals, to prevent injection. Our statements contain quoted names only."""
    return composed.SQL(sql)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        broken = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        passing = state.startswith(PASSING) or (broken and not state)
        raise DatabaseError(str(error).strip(), passing=passing) from error
