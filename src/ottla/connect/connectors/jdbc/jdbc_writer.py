"""Writes records to tables. One `put` is one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from ottla.connect.connectors.jdbc.database import Database, TableId, qualified
from ottla.connect.connectors.jdbc.shapes import Shape, check, shape_of
from ottla.connect.connectors.jdbc.sink_config import INSERT, RECORD_KEY, UPSERT
from ottla.connect.connectors.jdbc.target_tables import TargetTables
from ottla.connect.data import SinkRecord
from ottla.connect.errors import ConnectException

TOPIC: Final = "${topic}"
SHAPES_MAX: Final = 1000

Row = tuple[Any, ...]


class JdbcWriter:
    """Uses one connection."""

    def __init__(self, database: Database, settings: Mapping[str, Any]) -> None:
        self._database = database
        self._settings = settings
        self._targets = TargetTables(database, settings)
        self._shapes: dict[tuple[Any, ...], Shape] = {}

    def write(self, records: Sequence[SinkRecord]) -> None:
        """All records or none: after an error the caller rolls the transaction back."""
        by_table: dict[TableId, list[SinkRecord]] = {}
        for record in records:
            by_table.setdefault(self._table(record.topic), []).append(record)
        for table, found in by_table.items():
            size = self._settings["batch.size"]
            for first in range(0, len(found), size):
                self._write(table, found[first : first + size])
        self._database.commit()

    def _table(self, topic: str) -> TableId:
        name = self._settings["table.name.format"].replace(TOPIC, topic)
        return self._database.table_of(name)

    def _write(self, table: TableId, records: Sequence[SinkRecord]) -> None:
        if self._settings["insert.mode"] == UPSERT:
            records = list(self._last_of_each_key(records))
        for (shape, deletes), run in groupby(records, key=self._kind):
            if deletes:
                self._delete(table, shape, list(run))
                continue
            self._targets.prepare(table, shape)
            rows = [shape.key(record) + shape.rest(record) for record in run]
            if self._settings["insert.mode"] == INSERT:
                self._database.insert(table, shape.columns, rows)
            elif self._settings["insert.mode"] == UPSERT:
                self._database.upsert(table, shape.keys, shape.others, rows)
            else:
                self._update(table, shape, rows)

    def _last_of_each_key(self, records: Sequence[SinkRecord]) -> Iterator[SinkRecord]:
        """Only the last record of each key: an upsert statement must not contain a key twice."""
        last: dict[Row, SinkRecord] = {}
        for record in records:
            key = self._kind(record)[0].key(record)
            last.pop(key, None)  # so that the key moves to the end
            last[key] = record
        yield from last.values()

    def _kind(self, record: SinkRecord) -> tuple[Shape, bool]:
        """Consecutive records of one kind are written with one statement."""
        deletes = record.value is None
        if deletes:
            check(record, self._settings)
        key = (record.key_schema, record.value_schema, deletes)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            shape = self._shapes[key] = shape_of(record, self._settings, self._database)
        elif self._settings["pk.mode"] == RECORD_KEY and record.key is None:
            check(record, self._settings)
        return shape, deletes

    def _update(self, table: TableId, shape: Shape, rows: Sequence[Row]) -> None:
        if not shape.others:
            raise ConnectException("insert.mode=update: the record has no fields but the key's")
        mark, quote = self._database.placeholder, self._database.quote
        sets = ", ".join(f"{quote(name)} = {mark}" for name in shape.others)
        count = len(shape.keys)
        self._database.execute_many(
            f"UPDATE {qualified(self._database, table)} SET {sets} WHERE {self._where(shape)}",
            [row[count:] + row[:count] for row in rows],
        )

    def _delete(self, table: TableId, shape: Shape, records: Sequence[SinkRecord]) -> None:
        if not self._database.columns(table):
            return  # the table was never created, so there is no row
        self._database.execute_many(
            f"DELETE FROM {qualified(self._database, table)} WHERE {self._where(shape)}",
            [shape.key(record) for record in records],
        )

    def _where(self, shape: Shape) -> str:
        mark, quote = self._database.placeholder, self._database.quote
        return " AND ".join(f"{quote(name)} = {mark}" for name in shape.keys)
