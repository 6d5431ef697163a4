"""One table, or one query, that is polled: its rows become records."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.connect.connectors.jdbc.database import (
    ColumnDefinition,
    Convert,
    Database,
    ResultRows,
    TableId,
    qualified,
)
from ottla.connect.connectors.jdbc.row_order import MILLIS, Position, PositionReader, RowOrder
from ottla.connect.connectors.jdbc.source_config import (
    BOTH,
    BULK,
    INCREMENTING,
    TIMESTAMP,
    JdbcSourceConfig,
)
from ottla.connect.data import Schema, SourceRecord, Struct, struct_schema
from ottla.connect.errors import ConnectException, DataException

FETCH_ROWS: Final = 1000  # per fetch of a server-side cursor; or batch.max.rows, if larger
PROTOCOL: Final = "1"
# Key columns whose values survive JSON unchanged, so that an offset can hold them.
PLAIN_TYPES: Final = frozenset(
    {
        *("int2", "int4", "int8", "text", "varchar", "bpchar", "uuid"),
        *("int", "integer", "bigint", "smallint", "char"),
    }
)

log = logging.getLogger("ottla.connect.jdbc")


class TableQuerier:
    """The position in one table or query: `run` runs its query, `next_records` reads the rows.

    The rows of a running query are read to the end before the query runs again.
    """

    def __init__(self, settings: JdbcSourceConfig, table: TableId | None) -> None:
        self.table = table
        self._settings = settings
        self._mode = settings.mode
        self._rows: ResultRows | None = None
        self._next_row: Any = None  # the row after the last record, read ahead: see RowOrder
        self._position = Position()
        self._order: RowOrder | None = None
        self._reader: PositionReader | None = None
        self._count = 0
        self._started_ms = 0
        self._offset: Mapping[str, Any] | None = None
        self._shape: tuple[Schema, list[tuple[int, Convert]], list[int] | None] | None = None

    @property
    def partition(self) -> dict[str, str]:
        if self.table is None:
            return {"query": "query"}
        return {"protocol": PROTOCOL, "table": str(self.table)}

    @property
    def topic(self) -> str:
        prefix: str = self._settings["topic.prefix"]
        return prefix if self.table is None else prefix + self.table.name

    @property
    def is_running(self) -> bool:
        return self._rows is not None

    def resume_from(self, offset: Mapping[str, Any] | None) -> None:
        """Sets the committed offset, before the first query."""
        self._offset = offset

    def due_ms(self) -> int:
        """When a bulk copy is due again; other modes are due at once."""
        offset = self._offset
        if self._mode != BULK or offset is None or not offset.get("complete"):
            return 0
        return int(offset["bulk"]) + int(self._settings["poll.interval.ms"])

    # The query

    def run(self, database: Database, now_ms: int) -> None:
        known = self._known(database)
        end_micros = database.now_micros()
        self._started_ms, self._count, self._next_row, self._shape = now_ms, 0, None, None
        parameters: list[Any] = []
        if self._mode == BULK:
            sql = self._select_all(database)
        else:
            order = self._prepare(known, end_micros)
            sql, parameters = self._select_behind(database, order, end_micros)
        size = max(FETCH_ROWS, int(self._settings["batch.max.rows"]))
        self._rows = rows = database.rows(
            f"{sql} {self._settings['query.suffix']}", parameters, size
        )
        columns = [_described(known.get(column.name), column) for column in rows.columns]
        self._shape = self._shape_of(database, columns)
        if self._order is not None:
            self._reader = self._order.reader(database, [column.name for column in columns])

    def _known(self, database: Database) -> dict[str, ColumnDefinition]:
        if self.table is None:
            if self._mode == BULK:  # run unchanged: two columns may even have the same name
                return {}
            return {column.name: column for column in database.query_columns(self._settings.query)}
        columns = database.columns(self.table)
        if not columns:
            raise ConnectException(f"the table {self.table} does not exist")
        return {column.name: column for column in columns}

    def _prepare(self, known: Mapping[str, ColumnDefinition], now_micros: int) -> RowOrder:
        if self._order is None:
            self._order = row_order_of(self._settings, self.table, known)
            start = _start(self._settings, self._order, now_micros)
            self._position = self._order.position(self._offset, start)
        return self._order

    def _select_all(self, database: Database) -> str:
        if self.table is None:
            return self._settings.query
        return f"SELECT * FROM {self._from(database)}"

    def _select_behind(
        self, database: Database, order: RowOrder, end_micros: int
    ) -> tuple[str, list[Any]]:
        delay = int(self._settings["timestamp.delay.interval.ms"]) * MILLIS
        # Without a key, rows of a timestamp that was read in part are read again.
        self._position = replace(self._position, rows=0)
        clause, parameters = order.where(database, self._position, end_micros - delay)
        return f"SELECT * FROM {self._from(database)}{clause}", parameters

    def _from(self, database: Database) -> str:
        if self.table is None:
            return f"({self._settings.query}) AS ottla_rows"
        return qualified(database, self.table)

    def _shape_of(
        self, database: Database, columns: Sequence[ColumnDefinition]
    ) -> tuple[Schema, list[tuple[int, Convert]], list[int] | None]:
        """The struct's schema, the conversions, and the columns that are copied (None: all)."""
        fields: list[tuple[str, Schema]] = []
        converts: list[tuple[int, Convert]] = []
        copied: list[int] = []
        for index, column in enumerate(columns):
            found = database.field(column, self._settings.mapping)
            if found is None:
                log.warning(
                    "%s: column %s of type %r is skipped: Connect has no type for it",
                    self.table or "query", column.name, column.type,
                )  # fmt: skip
                continue
            schema, convert = found
            if convert is not None:
                converts.append((len(fields), convert))
            fields.append((column.name, schema))
            copied.append(index)
        name = self.table.name if self.table is not None else None
        made = struct_schema(fields, name=name)
        return made, converts, None if len(copied) == len(columns) else copied

    # Its rows

    def next_records(self, count: int) -> list[SourceRecord]:
        assert self._rows is not None, "no query is under way"
        rows = [] if self._next_row is None else [self._next_row]
        while len(rows) <= count:
            more = self._rows.fetch(count + 1 - len(rows))
            if not more:
                break
            rows += more
        self._next_row = rows.pop() if len(rows) > count else None
        records = self._records(rows)
        if self._next_row is None:
            self.end()
        return records

    def end(self) -> None:
        if self._rows is not None:
            self._rows.close()
        self.drop()

    def drop(self) -> None:
        """The query was lost with its connection: the next one resumes from the position."""
        self._rows = self._next_row = None

    def _records(self, rows: list[Any]) -> list[SourceRecord]:
        assert self._shape is not None
        schema, converts, copied = self._shape
        partition, topic = self.partition, self.topic
        records = []
        for row, offset in zip(rows, self._offsets(rows), strict=True):
            values = list(row) if copied is None else [row[index] for index in copied]
            for index, convert in converts:
                if values[index] is not None:
                    values[index] = self._converted(schema, index, convert, values[index])
            struct = Struct.of(schema, values)
            records.append(
                SourceRecord(partition, offset, topic, value_schema=schema, value=struct)
            )
        return records

    def _converted(self, schema: Schema, index: int, convert: Convert, value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise DataException(
                f"{self.table or 'query'}, column {schema.fields[index].name}: {value!r}: {error}"
            ) from error

    def _offsets(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        if self._mode == BULK:
            first, self._count = self._count + 1, self._count + len(rows)
            offsets: list[dict[str, Any]] = [
                {"bulk": self._started_ms, "rows": number}
                for number in range(first, first + len(rows))
            ]
            if offsets and self._next_row is None:
                offsets[-1]["complete"] = True
            return offsets
        assert self._reader is not None
        if not rows:
            return []
        offsets, self._position = self._reader.offsets(self._position, rows, self._next_row)
        return offsets


def _described(known: ColumnDefinition | None, found: ColumnDefinition) -> ColumnDefinition:
    """The catalog's definition of a column or, if that is missing, the result's."""
    return known if known is not None and known.type else found


def row_order_of(
    settings: JdbcSourceConfig, table: TableId | None, known: Mapping[str, ColumnDefinition]
) -> RowOrder:
    """The order of a table's rows, checked by `validate.non.null`."""
    where = table or "query"
    timestamps: list[ColumnDefinition] = []
    if settings.mode in (TIMESTAMP, BOTH):
        timestamps = [_column(where, known, name) for name in settings.timestamps]
        if settings["validate.non.null"] and table is not None:
            _refuse_nullable(where, timestamps)
    ties: list[ColumnDefinition] = []
    if settings.mode in (INCREMENTING, BOTH):
        ties = [_incrementing(where, known, settings.incrementing)]
        if settings["validate.non.null"] and table is not None:
            _refuse_nullable(where, ties)
    else:
        key = sorted((c for c in known.values() if c.key_position), key=lambda c: c.key_position)
        if all(column.type in PLAIN_TYPES for column in key):
            ties = key
    incrementing = settings.mode in (INCREMENTING, BOTH)
    return RowOrder(tuple(timestamps), tuple(ties), incrementing, settings["db.timezone"])


def _column(where: object, known: Mapping[str, ColumnDefinition], name: str) -> ColumnDefinition:
    if not known:  # a query, whose columns are only known after it has run
        return ColumnDefinition(name, "")
    lower = {column_name.lower(): column for column_name, column in known.items()}
    found = known.get(name) or lower.get(name.lower())
    if found is None:
        raise ConnectException(f"{where} has no column {name}; it has {', '.join(known)}")
    return found


def _incrementing(
    where: object, known: Mapping[str, ColumnDefinition], name: str
) -> ColumnDefinition:
    if name:
        return _column(where, known, name)
    found = [column for column in known.values() if column.autoincrement]
    if len(found) == 1:
        return found[0]
    raise ConnectException(
        f"{where} has {len(found) or 'no'} autoincrement columns: name one in"
        " incrementing.column.name"
    )


def _refuse_nullable(where: object, columns: Sequence[ColumnDefinition]) -> None:
    """Of several timestamp columns, one that is NOT NULL is enough."""
    if all(column.nullable for column in columns):
        names = ", ".join(column.name for column in columns)
        raise ConnectException(
            f"{where}: {names} may be NULL, and such rows would never be read;"
            " validate.non.null=false accepts this"
        )


def _start(settings: JdbcSourceConfig, order: RowOrder, now_micros: int) -> Position:
    """The position to start from if there is no offset."""
    micros: int | None = None
    if order.timestamps:
        initial = settings["timestamp.initial"]
        micros = 0 if initial is None else int(initial) * MILLIS
        if initial == -1:
            micros = now_micros
    ties: tuple[Any, ...] | None = None
    if order.incrementing and not order.timestamps:
        ties = (int(settings["incrementing.initial"]),)
    return Position(micros, ties)
