"""PostgreSQL by psycopg: server-side cursors to read, COPY to write."""

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
from ottla.connect.connectors.jdbc.database import Column, Convert, DatabaseError, Table
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
# Trouble of the line, of the server's state, of two transactions that met (SQLSTATE classes): the
# same statement may go well later.
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
            self._line = psycopg.connect(make_conninfo(**parameters))
            self._line.execute("SET TIME ZONE 'UTC'")
            self._line.commit()
        for name in TEXT_TYPES:
            if self._line.adapters.types.get(name) is not None:
                self._line.adapters.register_loader(name, TextLoader)
        self._staged: dict[tuple[Table, tuple[str, ...]], str] = {}

    # Reading

    def tables(self, types: Iterable[str], schema: str | None) -> list[Table]:
        kinds = sorted({kind for each in types for kind in KINDS.get(each.upper(), ())})
        pattern = schema or None
        with _failures():
            found = self._line.execute(TABLES, (kinds, pattern, pattern)).fetchall()
        return [Table(name, space) for space, name in found]

    def columns(self, table: Table) -> list[Column]:
        with _failures():
            found = self._line.execute(COLUMNS, (shared.qualified(self, table),)).fetchall()
        return [
            Column(name, *self._type(oid, *_numeric(oid, modifier)), nullable, key, auto, default)
            for name, oid, modifier, nullable, key, auto, default in found
        ]

    def query_columns(self, query: str) -> list[Column]:
        rows = self.rows(f"SELECT * FROM ({query}) AS ottla_rows LIMIT 0", (), 1)
        rows.close()
        return list(rows.columns)

    def rows(self, sql: str, parameters: Sequence[Any], size: int) -> PostgresRows:
        with _failures():
            cursor = self._line.cursor(CURSOR)
            cursor.execute(_text(sql), tuple(parameters) or None)
            described = cursor.description or []
            columns = [
                Column(each.name, *self._type(each.type_code, each.precision, each.scale))
                for each in described
            ]
        return PostgresRows(cursor, columns, max(size, 1))

    def now_micros(self) -> int:
        with _failures():
            row = self._line.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return micros_of(row[0])

    def end_reading(self) -> None:
        with _failures():
            self._line.rollback()

    def field(
        self, column: Column, mapping: shared.Mapping
    ) -> tuple[Schema, Convert | None] | None:
        return field_of(column, mapping)

    def timestamp_sql(self, expression: str) -> str:
        return expression

    def timestamp_value(self, micros: int, column: Column, timezone: str) -> Any:
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
        info = self._line.adapters.types.get(oid)
        if info is None:  # an enum, or a type of an extension: psycopg gives its text
            return "text", None, None
        return info.name + (ARRAY if info.oid != oid else ""), precision, scale

    # Writing

    def table_of(self, name: str) -> Table:
        space, dot, table = name.rpartition(".")
        return Table(table, space) if dot else Table(name)

    def column_type(self, schema: Schema) -> str:
        return type_of(schema)

    def binder(self, schema: Schema, timezone: str) -> Convert | None:
        return binder_of(schema, timezone)

    def execute(self, sql: str) -> None:
        with _failures():
            self._line.execute(_text(sql))

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._copy(shared.qualified(self, table), columns, rows)

    def upsert(
        self,
        table: Table,
        keys: Sequence[str],
        others: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        """COPY into a table of this session, then one statement: as quick as inserts, nearly."""
        columns = [*keys, *others]
        stage = self._stage(table, columns)
        self._copy(stage, columns, rows)
        names = ", ".join(self.quote(each) for each in columns)
        target = ", ".join(self.quote(each) for each in keys)
        sets = ", ".join(f"{self.quote(each)} = EXCLUDED.{self.quote(each)}" for each in others)
        what = f"UPDATE SET {sets}" if others else "NOTHING"
        self.execute(
            f"INSERT INTO {shared.qualified(self, table)} ({names}) SELECT {names} FROM {stage}"
            f" ON CONFLICT ({target}) DO {what}"
        )
        self.execute(f"TRUNCATE {stage}")

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with _failures(), self._line.cursor() as cursor:
            cursor.executemany(_text(sql), rows)

    def commit(self) -> None:
        with _failures():
            self._line.commit()

    def rollback(self) -> None:
        self._staged.clear()  # a stage that was made in this transaction is gone with it
        with _failures():
            self._line.rollback()

    def _copy(self, target: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        names = ", ".join(self.quote(each) for each in columns)
        statement = _text(f"COPY {target} ({names}) FROM STDIN")
        with _failures(), self._line.cursor() as cursor, cursor.copy(statement) as copy:
            write = copy.write_row
            for row in rows:
                write(row)

    def _stage(self, table: Table, columns: Sequence[str]) -> str:
        """The name of a temporary table with these columns of the table."""
        key = (table, tuple(columns))
        if key not in self._staged:
            name = f"{STAGE}_{len(self._staged)}"
            names = ", ".join(self.quote(each) for each in columns)
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
        self._line.close()


class PostgresRows:
    """A server-side cursor: the server holds the result, we hold a piece of it."""

    def __init__(
        self, cursor: psycopg.ServerCursor[Any], columns: Sequence[Column], size: int
    ) -> None:
        self.columns = columns
        self._cursor = cursor
        self._size = size
        self._held: list[Any] = []
        self._at = 0

    def fetch(self, count: int) -> list[Any]:
        if self._at >= len(self._held):
            with _failures():
                self._held, self._at = self._cursor.fetchmany(self._size), 0
        if not self._at and len(self._held) <= count:
            taken, self._held = self._held, []
            return taken
        taken = self._held[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def close(self) -> None:
        with _failures():
            self._cursor.close()


def _numeric(oid: int, modifier: int) -> tuple[int | None, int | None]:
    """Precision and scale of a NUMERIC, as a column's type modifier holds them."""
    if oid not in (1700, 1231) or modifier < 4:
        return None, None
    scale = (modifier - 4) & 0x7FF
    return (modifier - 4) >> 16 & 0xFFFF, scale - 0x800 if scale & 0x400 else scale


def _text(sql: str) -> composed.SQL:
    """psycopg wants to see that no value was put into a statement: ours hold quoted names only."""
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
