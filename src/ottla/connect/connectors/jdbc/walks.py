"""How a table is walked through: which rows come next, and what is remembered of the last one.

Rows are read in an order, behind a position:

    incrementing              (id)                  {"incrementing": 7}
    timestamp+incrementing    (changed, id)         {"timestamp": ms, ..., "incrementing": 7}
    timestamp                 (changed, key)        {"timestamp": ms, ..., "key": [7]}
    timestamp, without a key  (changed)             {"timestamp": ms, ..., "rows": 3}

The upper end is the database's time, less `timestamp.delay.interval.ms`, at the time of the query:
a row that is stored later with the same timestamp is younger than that. With a key, rows of one
timestamp that lie on both sides of a batch's border are told apart. Without one, the position stays
before that timestamp until all of its rows were read (`rows` only counts them): after a crash
they come again rather than never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect.connectors.jdbc.database import Column, Database

MILLIS: Final = 1000
SECOND_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """Behind a row. `ties` are the values of the columns that tell equal timestamps apart."""

    micros: int | None = None
    ties: tuple[Any, ...] | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Walk:
    """The order of rows: timestamp columns, then ties."""

    timestamps: tuple[Column, ...]
    ties: tuple[Column, ...]
    incrementing: bool  # the one tie is the incrementing column
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

    # Rows behind a position

    def where(
        self, database: Database, position: Position, end_micros: int
    ) -> tuple[str, list[Any]]:
        """Conditions, and the order."""
        mark = database.placeholder
        names = [database.quote(each.name) for each in self.ties]
        order = list(names)
        conditions: list[str] = []
        parameters: list[Any] = []
        behind = _row_comparison(names, mark) if position.ties is not None else ""
        if self.timestamps:
            moment = self._moment(database)
            order.insert(0, moment)
            conditions.append(f"{moment} < {mark}")
            parameters.append(self._value(database, end_micros))
            if position.micros is not None:
                since = self._value(database, position.micros)
                if behind:
                    conditions.append(f"{moment} >= {mark} AND ({moment} > {mark} OR {behind})")
                    parameters += [since, since, *(position.ties or ())]
                else:
                    conditions.append(f"{moment} > {mark}")
                    parameters.append(since)
        elif behind:
            conditions.append(behind)
            parameters += position.ties or ()
        clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{clause} ORDER BY {', '.join(order)}", parameters

    def _moment(self, database: Database) -> str:
        names = [database.quote(each.name) for each in self.timestamps]
        one = names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"
        return database.timestamp_sql(one)

    def _value(self, database: Database, micros: int) -> Any:
        return database.timestamp_value(micros, self.timestamps[0], self.timezone)

    # Rows as positions

    def reader(self, database: Database, columns: Sequence[str]) -> Reader:
        places = {name: place for place, name in enumerate(columns)}
        return Reader(
            self,
            database,
            tuple(places[each.name] for each in self.timestamps),
            tuple(places[each.name] for each in self.ties),
        )


@dataclass(frozen=True, slots=True)
class Reader:
    """Finds a row's timestamp and ties in it."""

    walk: Walk
    database: Database
    timestamp_places: tuple[int, ...]
    tie_places: tuple[int, ...]

    def micros(self, row: Sequence[Any]) -> int | None:
        for place in self.timestamp_places:
            if row[place] is not None:
                return self.database.timestamp_micros(row[place], self.walk.timezone)
        return None

    def ties(self, row: Sequence[Any]) -> tuple[Any, ...] | None:
        if not self.tie_places:
            return None
        if self.walk.incrementing:
            value = row[self.tie_places[0]]
            return None if value is None else (int(value),)
        return tuple(row[place] for place in self.tie_places)

    def offsets(
        self, before: Position, rows: Sequence[Sequence[Any]], following: Sequence[Any] | None
    ) -> tuple[list[dict[str, Any]], Position]:
        """Behind each of the rows; and the position that the last one is."""
        if self.walk.incrementing and not self.timestamp_places:  # the usual case, at once
            (place,) = self.tie_places
            numbers = [row[place] for row in rows]
            if None not in numbers:
                made = [{"incrementing": int(each)} for each in numbers]
                return made, Position(None, (int(numbers[-1]),))
        positions = self.positions(before, rows, following)
        return [self.walk.offset(each) for each in positions], positions[-1]

    def positions(
        self, before: Position, rows: Sequence[Sequence[Any]], following: Sequence[Any] | None
    ) -> list[Position]:
        """Behind each of the rows; `following` is the row after them, if the query has one."""
        if self.tie_places or not self.timestamp_places:
            return [Position(self.micros(row), self.ties(row)) for row in rows]
        times = [self.micros(row) for row in rows]
        next_time = None if following is None else self.micros(following)
        found = []
        position = before
        for place, micros in enumerate(times):
            after = times[place + 1] if place + 1 < len(times) else next_time
            if micros == after:
                position = replace(position, rows=position.rows + 1)
            else:
                position = Position(micros)
            found.append(position)
        return found


def _row_comparison(names: Sequence[str], mark: str) -> str:
    if len(names) == 1:
        return f"{names[0]} > {mark}"
    return f"({', '.join(names)}) > ({', '.join(mark for _ in names)})"
