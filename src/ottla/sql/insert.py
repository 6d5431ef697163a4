"""INSERT INTO ... VALUES: turns a row into a record of its topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.client.schema_registry import SchemaRegistry, SchemaRegistryError
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.formats import Encoder
from ottla.rows.schema import DELETED, PSEUDO_COLUMNS, ROWTIME, Role
from ottla.rows.types import BIGINT, SqlType, quoted, spark_name
from ottla.sql.catalog import DataSource
from ottla.sql.expressions import constant
from ottla.sql.expressions.constants import converted
from ottla.sql.syntax.statements import InsertValues

Record = tuple[bytes | None, bytes | None, int]
"""Key, value, timestamp in milliseconds."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Inserts:
    """Makes records of the rows of a source. `now_ms` gives the time of rows without ROWTIME."""

    def __init__(
        self,
        source: DataSource,
        registry: SchemaRegistry | None = None,
        *,
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self._source = source
        self._now_ms = now_ms
        self._check_target()
        self._encoder = Encoder(source.layout, registry)
        schema = source.schema
        self._types: dict[str, SqlType] = {column.name: column.type for column in schema.columns}

    def of_statement(self, statement: InsertValues) -> Record:
        """The record of a statement; SqlError with ksqlDB's messages."""
        names = self._names(statement)
        row = {
            name: constant(value, self._type_of(name))
            for name, value in zip(names, statement.values, strict=True)
        }
        return self.of_row(row)

    def of_row(self, row: Mapping[str, Any]) -> Record:
        """The record of a row: values of the columns' types, by column name; missing ones are
        NULL."""
        source = self._source
        for name in row:
            self._type_of(name)
        if source.is_table:
            missing = [column.name for column in source.schema.key if row.get(column.name) is None]
            if missing:
                raise SqlError(
                    f"Failed to insert values into '{source.name}'. Value for primary key column(s)"
                    f" {', '.join(map(quoted, missing))} is required for tables",
                    remedy="Give a value for each column of the primary key.",
                )
        timestamp_ms = row.get(ROWTIME)
        whole = {**row, ROWTIME: self._now_ms() if timestamp_ms is None else timestamp_ms}
        try:
            key, value, moment = self._encoder.record({**whole, DELETED: False})
        except SchemaRegistryError as error:
            raise SqlError(
                f"Failed to insert values into '{source.name}'. {error}",
                remedy="The schema registry rejects the schema of these columns: see the subject's"
                " versions and its compatibility level.",
            ) from None
        except (ValueError, TypeError) as error:  # TypeError: a map with a NULL key
            raise SqlError(f"Failed to insert values into '{source.name}'. {error}") from None
        assert moment is not None
        if moment < 0:
            raise SqlError(f"ROWTIME must not be negative: {moment}")
        return key, value, moment

    def _names(self, statement: InsertValues) -> Sequence[str]:
        if statement.columns:
            for column in statement.columns:
                self._type_of(column)
            if len(statement.columns) != len(statement.values):
                raise SqlError(
                    "Expected a value for each column."
                    f" Expected Columns: [{', '.join(map(quoted, statement.columns))}]."
                    f" Got {len(statement.values)} values."
                )
            return statement.columns
        # Headers can't be written, so columns for headers get no values.
        schema = self._source.schema
        names = [column.name for column in (*schema.key, *schema.value)]
        if len(names) != len(statement.values):
            raise SqlError(
                "Expected a value for each column."
                f" Expected Columns: [{', '.join(map(quoted, names))}]."
                f" Got {len(statement.values)} values.",
                remedy="Or name the columns of these values: INSERT INTO"
                f" {quoted(self._source.name)} ({', '.join(map(quoted, names[:2]))}) VALUES ...",
            )
        return names

    def _type_of(self, name: str) -> SqlType:
        if name == ROWTIME:
            return BIGINT
        column = self._source.schema.find(name)
        if column is not None and column.role in (Role.HEADER, Role.HEADERS):
            raise SqlError(
                f"Cannot insert into HEADER columns: {quoted(name)}",
                remedy="Leave the column out.",
            )
        if name in PSEUDO_COLUMNS:
            raise SqlError(
                f"Inserting into column {spark_name(name)} is not allowed.",
                remedy="The broker assigns partition and offset.",
            )
        if column is None:
            known = ", ".join(quoted(name) for name in self._types)
            raise SqlError(
                f"Column name {quoted(name)} does not exist.", remedy=f"There are: {known}."
            )
        return column.type

    def _check_target(self) -> None:
        source = self._source
        if source.read_only:
            raise SqlError(
                f"Cannot insert values into read-only {source.kind.value.lower()}: {source.name}"
            )
        if source.is_windowed:
            raise SqlError("Cannot insert values into windowed stream/table!")


def row_of_json(source: DataSource, row: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON row of ksqlDB's REST API as values of the columns' types; names as in a statement."""
    types = {**PSEUDO_COLUMNS, **{column.name: column.type for column in source.schema.columns}}
    values: dict[str, Any] = {}
    for written, value in row.items():
        name = _name(written)
        type_ = types.get(name)
        try:
            values[name] = value if type_ is None else converted(value, type_)
        except (ValueError, TypeError, ArithmeticError):
            raise SqlError(
                f"Can't coerce a field of type {type(value).__name__} ({value}) into type {type_}",
                remedy=f"Column {name} is {type_}.",
                code=SqlCode.BAD_REQUEST,
            ) from None
    return values


def _name(written: str) -> str:
    """As in a statement: case-sensitive in back quotes, else upper case."""
    if len(written) > 1 and written[0] == written[-1] == "`":
        return written[1:-1]
    return written.upper()
