"""One table, or one query, read again and again: rows become records."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.connect.connectors.jdbc.database import (
    Column,
    Convert,
    Database,
    Rows,
    Table,
    qualified,
)
from ottla.connect.connectors.jdbc.source_config import (
    BOTH,
    BULK,
    INCREMENTING,
    TIMESTAMP,
    Settings,
)
from ottla.connect.connectors.jdbc.walks import MILLIS, Position, Reader, Walk
from ottla.connect.data import Schema, SourceRecord, Struct, struct_schema
from ottla.connect.errors import ConnectException, DataException

FETCH_ROWS: Final = 1000  # of a server-side cursor; more if a batch has more
PROTOCOL: Final = "1"
# Key columns whose values JSON keeps as they are: an offset may hold them.
PLAIN_TYPES: Final = frozenset(
    {
        *("int2", "int4", "int8", "text", "varchar", "bpchar", "uuid"),
        *("int", "integer", "bigint", "smallint", "char"),
    }
)

log = logging.getLogger("ottla.connect.jdbc")


class Reading:
    """Where one table or query has come to: `run` runs its query, `next_records` walks the rows.

    Rows of a query that is under way are read to its end before it is run anew.
    """

    def __init__(self, settings: Settings, table: Table | None) -> None:
        self.table = table
        self._settings = settings
        self._mode = settings.mode
        self._rows: Rows | None = None
        self._held: Any = None  # a row that was read to know what follows the last one
        self._position = Position()
        self._walk: Walk | None = None
        self._reader: Reader | None = None
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
    def under_way(self) -> bool:
        return self._rows is not None

    def go_on_from(self, offset: Mapping[str, Any] | None) -> None:
        """The committed offset: asked for once, before the first query."""
        self._offset = offset

    def due_ms(self) -> int:
        """When a bulk copy is due again; the others are due at once."""
        offset = self._offset
        if self._mode != BULK or offset is None or not offset.get("complete"):
            return 0
        return int(offset["bulk"]) + int(self._settings["poll.interval.ms"])

    # The query

    def run(self, database: Database, now_ms: int) -> None:
        known = self._known(database)
        end_micros = database.now_micros()
        self._started_ms, self._count, self._held, self._shape = now_ms, 0, None, None
        parameters: list[Any] = []
        if self._mode == BULK:
            sql = self._select_all(database)
        else:
            walk = self._prepare(known, end_micros)
            sql, parameters = self._select_behind(database, walk, end_micros)
        size = max(FETCH_ROWS, int(self._settings["batch.max.rows"]))
        self._rows = rows = database.rows(
            f"{sql} {self._settings['query.suffix']}", parameters, size
        )
        columns = [_described(known.get(each.name), each) for each in rows.columns]
        self._shape = self._shape_of(database, columns)
        if self._walk is not None:
            self._reader = self._walk.reader(database, [each.name for each in columns])

    def _known(self, database: Database) -> dict[str, Column]:
        if self.table is None:
            if self._mode == BULK:  # run as it is: two columns may even have the same name
                return {}
            return {each.name: each for each in database.query_columns(self._settings.query)}
        columns = database.columns(self.table)
        if not columns:
            raise ConnectException(f"the table {self.table} is not there")
        return {each.name: each for each in columns}

    def _prepare(self, known: Mapping[str, Column], now_micros: int) -> Walk:
        if self._walk is None:
            self._walk = walk_of(self._settings, self.table, known)
            start = _start(self._settings, self._walk, now_micros)
            self._position = self._walk.position(self._offset, start)
        return self._walk

    def _select_all(self, database: Database) -> str:
        if self.table is None:
            return self._settings.query
        return f"SELECT * FROM {self._from(database)}"

    def _select_behind(
        self, database: Database, walk: Walk, end_micros: int
    ) -> tuple[str, list[Any]]:
        delay = int(self._settings["timestamp.delay.interval.ms"]) * MILLIS
        # Rows of a timestamp that was read in part come again: only a key could tell them apart.
        self._position = replace(self._position, rows=0)
        clause, parameters = walk.where(database, self._position, end_micros - delay)
        return f"SELECT * FROM {self._from(database)}{clause}", parameters

    def _from(self, database: Database) -> str:
        if self.table is None:
            return f"({self._settings.query}) AS ottla_rows"
        return qualified(database, self.table)

    def _shape_of(
        self, database: Database, columns: Sequence[Column]
    ) -> tuple[Schema, list[tuple[int, Convert]], list[int] | None]:
        """The struct's schema, which values need work, and which columns are copied, if not all."""
        fields: list[tuple[str, Schema]] = []
        converts: list[tuple[int, Convert]] = []
        kept: list[int] = []
        for place, column in enumerate(columns):
            found = database.field(column, self._settings.mapping)
            if found is None:
                log.warning(
                    "%s: column %s of type %r is left out: it has no type in Connect",
                    self.table or "query", column.name, column.type,
                )  # fmt: skip
                continue
            schema, convert = found
            if convert is not None:
                converts.append((len(fields), convert))
            fields.append((column.name, schema))
            kept.append(place)
        name = self.table.name if self.table is not None else None
        made = struct_schema(fields, name=name)
        return made, converts, None if len(kept) == len(columns) else kept

    # Its rows

    def next_records(self, count: int) -> list[SourceRecord]:
        assert self._rows is not None, "no query is under way"
        rows = [] if self._held is None else [self._held]
        while len(rows) <= count:
            more = self._rows.fetch(count + 1 - len(rows))
            if not more:
                break
            rows += more
        self._held = rows.pop() if len(rows) > count else None
        records = self._records(rows)
        if self._held is None:
            self.end()
        return records

    def end(self) -> None:
        if self._rows is not None:
            self._rows.close()
        self.drop()

    def drop(self) -> None:
        """The query is gone, with its connection: the next one goes on from the position."""
        self._rows = self._held = None

    def _records(self, rows: list[Any]) -> list[SourceRecord]:
        assert self._shape is not None
        schema, converts, kept = self._shape
        partition, topic = self.partition, self.topic
        records = []
        for row, offset in zip(rows, self._offsets(rows), strict=True):
            values = list(row) if kept is None else [row[place] for place in kept]
            for place, convert in converts:
                if values[place] is not None:
                    values[place] = self._converted(schema, place, convert, values[place])
            struct = Struct.of(schema, values)
            records.append(
                SourceRecord(partition, offset, topic, value_schema=schema, value=struct)
            )
        return records

    def _converted(self, schema: Schema, place: int, convert: Convert, value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise DataException(
                f"{self.table or 'query'}, column {schema.fields[place].name}: {value!r}: {error}"
            ) from error

    def _offsets(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        if self._mode == BULK:
            first, self._count = self._count + 1, self._count + len(rows)
            offsets: list[dict[str, Any]] = [
                {"bulk": self._started_ms, "rows": number}
                for number in range(first, first + len(rows))
            ]
            if offsets and self._held is None:
                offsets[-1]["complete"] = True
            return offsets
        assert self._reader is not None
        if not rows:
            return []
        offsets, self._position = self._reader.offsets(self._position, rows, self._held)
        return offsets


def _described(known: Column | None, found: Column) -> Column:
    """What the catalog says of a column, and what the result says of it where that is more."""
    return known if known is not None and known.type else found


def walk_of(settings: Settings, table: Table | None, known: Mapping[str, Column]) -> Walk:
    """The order of a table's rows, with what `validate.non.null` asks for."""
    where = table or "query"
    timestamps: list[Column] = []
    if settings.mode in (TIMESTAMP, BOTH):
        timestamps = [_column(where, known, name) for name in settings.timestamps]
        if settings["validate.non.null"] and table is not None:
            _refuse_nullable(where, timestamps)
    ties: list[Column] = []
    if settings.mode in (INCREMENTING, BOTH):
        ties = [_incrementing(where, known, settings.incrementing)]
        if settings["validate.non.null"] and table is not None:
            _refuse_nullable(where, ties)
    else:
        key = sorted((c for c in known.values() if c.key_position), key=lambda c: c.key_position)
        if all(each.type in PLAIN_TYPES for each in key):
            ties = key
    incrementing = settings.mode in (INCREMENTING, BOTH)
    return Walk(tuple(timestamps), tuple(ties), incrementing, settings["db.timezone"])


def _column(where: object, known: Mapping[str, Column], name: str) -> Column:
    if not known:  # a query: its columns are known when it has run
        return Column(name, "")
    lower = {each.lower(): column for each, column in known.items()}
    found = known.get(name) or lower.get(name.lower())
    if found is None:
        raise ConnectException(f"{where} has no column {name}; it has {', '.join(known)}")
    return found


def _incrementing(where: object, known: Mapping[str, Column], name: str) -> Column:
    if name:
        return _column(where, known, name)
    found = [each for each in known.values() if each.autoincrement]
    if len(found) == 1:
        return found[0]
    raise ConnectException(
        f"{where} has {len(found) or 'no'} autoincrement columns: name one in"
        " incrementing.column.name"
    )


def _refuse_nullable(where: object, columns: Sequence[Column]) -> None:
    """Of several timestamp columns, one that is never NULL is enough."""
    if all(each.nullable for each in columns):
        names = ", ".join(each.name for each in columns)
        raise ConnectException(
            f"{where}: {names} may be NULL, and such rows would never be read;"
            " validate.non.null=false takes it so"
        )


def _start(settings: Settings, walk: Walk, now_micros: int) -> Position:
    """Where to begin if there is no offset."""
    micros: int | None = None
    if walk.timestamps:
        initial = settings["timestamp.initial"]
        micros = 0 if initial is None else int(initial) * MILLIS
        if initial == -1:
            micros = now_micros
    ties: tuple[Any, ...] | None = None
    if walk.incrementing and not walk.timestamps:
        ties = (int(settings["incrementing.initial"]),)
    return Position(micros, ties)
