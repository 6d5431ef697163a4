"""The order in which a table's rows are read, and the positions in it.

A query reads the rows after a position, in this order:

    incrementing              (id)                  {"incrementing": 7}
    timestamp+incrementing    (changed, id)         {"timestamp": ms, ..., "incrementing": 7}
    timestamp                 (changed, key)        {"timestamp": ms, ..., "key": [7]}
    timestamp, without a key  (changed)             {"timestamp": ms, ..., "rows": 3}

The upper bound is the database's time at the query, minus `timestamp.delay.interval.ms`: a row that
is stored later gets a later timestamp. A batch may end between rows of the same timestamp. With a
key, the position tells them apart. Without one, the position stays before this timestamp until all
of its rows are read (`rows` only counts them), so that after a crash they are read again rather
than skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect.connectors.jdbc.database import ColumnDefinition, Database

MILLIS: Final = 1000
SECOND_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """The position after a row. `ties` are the values of the tie-breaking columns."""

    micros: int | None = None
    ties: tuple[Any, ...] | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows are ordered by timestamp columns, then by tie-breaking columns."""

    timestamps: tuple[ColumnDefinition, ...]
    ties: tuple[ColumnDefinition, ...]
    incrementing: bool  # the only tie-breaker is the incrementing column
    timezone: str = "UTC"

    # Positions and offsets

    def offset(self, position: Position) -> dict[str, Any]:
        offset: dict[str, Any] = {}
        if position.micros is not None:
            offset["timestamp"] = position.micros // MILLIS
            offset["timestamp_nanos"] = position.micros % SECOND_MICROS * MILLIS
        if position.ties is not None:
            if self.incrementing:
                offset["incrementing"] = position.ties[0]
            else:
                offset["key"] = list(position.ties)
        if position.rows:
            offset["rows"] = position.rows
        return offset

    def position(self, offset: Mapping[str, Any] | None, start: Position) -> Position:
        if offset is None:
            return start
        micros = start.micros
        if self.timestamps and offset.get("timestamp") is not None:
            millis = int(offset["timestamp"])
            nanos = int(offset.get("timestamp_nanos") or millis % MILLIS * SECOND_MICROS)
            micros = millis // MILLIS * SECOND_MICROS + nanos // MILLIS
        ties = start.ties
        if self.incrementing and offset.get("incrementing") is not None:
            ties = (int(offset["incrementing"]),)
        elif self.ties and not self.incrementing and offset.get("key") is not None:
            ties = tuple(offset["key"])
        return Position(micros, ties)

    # Rows after a position

    def where(
        self, database: Database, position: Position, end_micros: int
    ) -> tuple[str, list[Any]]:
        """The WHERE and ORDER BY clauses, with their parameters."""
        placeholder = database.placeholder
        names = [database.quote(tie.name) for tie in self.ties]
        order = list(names)
        conditions: list[str] = []
        parameters: list[Any] = []
        after = _row_comparison(names, placeholder) if position.ties is not None else ""
        if self.timestamps:
            moment = self._moment(database)
            order.insert(0, moment)
            conditions.append(f"{moment} < {placeholder}")
            parameters.append(self._value(database, end_micros))
            if position.micros is not None:
                since = self._value(database, position.micros)
                if after:
                    conditions.append(
                        f"{moment} >= {placeholder} AND ({moment} > {placeholder} OR {after})"
                    )
                    parameters += [since, since, *(position.ties or ())]
                else:
                    conditions.append(f"{moment} > {placeholder}")
                    parameters.append(since)
        elif after:
            conditions.append(after)
            parameters += position.ties or ()
        clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{clause} ORDER BY {', '.join(order)}", parameters

    def _moment(self, database: Database) -> str:
        names = [database.quote(column.name) for column in self.timestamps]
        one = names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"
        return database.timestamp_sql(one)

    def _value(self, database: Database, micros: int) -> Any:
        return database.timestamp_value(micros, self.timestamps[0], self.timezone)

    # Rows as positions

    def reader(self, database: Database, columns: Sequence[str]) -> PositionReader:
        indexes = {name: index for index, name in enumerate(columns)}
        return PositionReader(
            self,
            database,
            tuple(indexes[column.name] for column in self.timestamps),
            tuple(indexes[column.name] for column in self.ties),
        )


@dataclass(frozen=True, slots=True)
class PositionReader:
    """Extracts positions from rows."""

    order: RowOrder
    database: Database
    timestamp_indexes: tuple[int, ...]
    tie_indexes: tuple[int, ...]

    def micros(self, row: Sequence[Any]) -> int | None:
        for index in self.timestamp_indexes:
            if row[index] is not None:
                return self.database.timestamp_micros(row[index], self.order.timezone)
        return None

    def ties(self, row: Sequence[Any]) -> tuple[Any, ...] | None:
        if not self.tie_indexes:
            return None
        if self.order.incrementing:
            value = row[self.tie_indexes[0]]
            return None if value is None else (int(value),)
        return tuple(row[index] for index in self.tie_indexes)

    def offsets(
        self, before: Position, rows: Sequence[Sequence[Any]], following: Sequence[Any] | None
    ) -> tuple[list[dict[str, Any]], Position]:
        """The offset after each row, and the position after the last one."""
        if (
            self.order.incrementing and not self.timestamp_indexes
        ):  # the common case, without a loop
            (index,) = self.tie_indexes
            numbers = [row[index] for row in rows]
            if None not in numbers:
                made = [{"incrementing": int(number)} for number in numbers]
                return made, Position(None, (int(numbers[-1]),))
        positions = self.positions(before, rows, following)
        return [self.order.offset(position) for position in positions], positions[-1]

    def positions(
        self, before: Position, rows: Sequence[Sequence[Any]], following: Sequence[Any] | None
    ) -> list[Position]:
        """The position after each row; `following` is the row after them, if there is one."""
        if self.tie_indexes or not self.timestamp_indexes:
            return [Position(self.micros(row), self.ties(row)) for row in rows]
        times = [self.micros(row) for row in rows]
        next_time = None if following is None else self.micros(following)
        found = []
        position = before
        for index, micros in enumerate(times):
            after = times[index + 1] if index + 1 < len(times) else next_time
            if micros == after:
                position = replace(position, rows=position.rows + 1)
            else:
                position = Position(micros)
            found.append(position)
        return found


def _row_comparison(names: Sequence[str], placeholder: str) -> str:
    if len(names) == 1:
        return f"{names[0]} > {placeholder}"
    return f"({', '.join(names)}) > ({', '.join(placeholder for _ in names)})"
