"""Aggregates that Spark can't give: over tables (rows change and go), and over growing sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.spark.sql.functions.aggregation import Aggregation
from ottla.spark.sql.run.keyed.order import Event

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate in a select list, and which of the inputs are its arguments."""

    aggregate: Aggregation
    arguments: tuple[int, ...]

    def of(self, inputs: Values) -> Values:
        return tuple(inputs[each] for each in self.arguments)


Calls = Sequence[Call]


# -- over a table


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a row of the table gives to a group, or (undone) gave and gives no more."""

    row: Any
    time_ms: int
    undone: bool = False


def contributions(state: dict[str, Any], event: Event) -> Iterator[Contribution]:
    """Keyed by the table's key, which remembers what its row gave, to take it back."""
    if "row" in state:
        yield Contribution(state.pop("row"), event.time_ms, undone=True)
    if not event.deleted:
        state["row"] = event.row
        yield Contribution(event.row, event.time_ms)


class Totals:
    """Keyed by the group: adds what is given, takes back what is undone.

    The state has what each call knows, and behind that the newest time of a change.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def apply(self, state: list[Any], given: Iterable[tuple[Values, bool]]) -> Values:
        """One result for all changes of a batch: those in between say nothing true.

        `given` are the inputs of each change, and whether they are undone. New ones go first: a row
        that stays in its group never leaves it empty.
        """
        if not state:
            state.extend(call.aggregate.initial() for call in self._calls)
        for inputs, undone in sorted(given, key=lambda each: each[1]):
            for index, call in enumerate(self._calls):
                step = call.aggregate.undo if undone else call.aggregate.add
                state[index] = step(state[index], *call.of(inputs))
        held = zip(self._calls, state, strict=False)
        return tuple(call.aggregate.result(each) for call, each in held)

    def time_of(self, state: list[Any], time_ms: int) -> int:
        """When the group changed last, now that `time_ms` is known: it never goes back."""
        place = len(self._calls)
        newest: int = max([time_ms, *state[place:]])
        state[place:] = [newest]
        return newest


# -- over sessions

Bounds = tuple[int, int]


@dataclass(slots=True)
class Session:
    """Bounds in event time, both inclusive; `told`: the bounds under which its result is known."""

    start_ms: int
    end_ms: int
    states: list[Any]
    told: Bounds | None = None
    changed: bool = True

    @property
    def bounds(self) -> Bounds:
        return self.start_ms, self.end_ms


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A session's result; deleted: it has become a part of another one."""

    start_ms: int
    end_ms: int
    results: Values
    deleted: bool = False


class Sessions:
    """Keyed by the group: rows that are not further apart than the gap are of one session."""

    def __init__(self, calls: Calls, gap_ms: int) -> None:
        self._calls = calls
        self._gap_ms = gap_ms

    def apply(
        self, sessions: list[Session], events: Iterator[Event], closed_ms: int
    ) -> list[SessionChange]:
        """What a batch changes. Whoever would end before `closed_ms` comes too late."""
        forgotten: list[Bounds] = []
        for event in events:
            self._place(sessions, event, closed_ms, forgotten)
        changed = [each for each in sessions if each.changed]
        for each in changed:
            if each.told is not None and each.told != each.bounds:
                forgotten.append(each.told)
            each.told, each.changed = each.bounds, False
        gone = [SessionChange(*bounds, (), deleted=True) for bounds in forgotten]
        return gone + [SessionChange(*each.bounds, self.results(each)) for each in changed]

    def expire(self, sessions: list[Session], closed_ms: int) -> list[Session]:
        """Take out those that nothing can change any more."""
        done = [each for each in sessions if each.end_ms < closed_ms]
        sessions[:] = [each for each in sessions if each.end_ms >= closed_ms]
        return done

    def results(self, session: Session) -> Values:
        held = zip(self._calls, session.states, strict=True)
        return tuple(call.aggregate.result(state) for call, state in held)

    def _place(
        self, sessions: list[Session], event: Event, closed_ms: int, forgotten: list[Bounds]
    ) -> None:
        assert event.row is not None
        time_ms, gap_ms = event.time_ms, self._gap_ms
        near = [
            each for each in sessions if each.start_ms - gap_ms <= time_ms <= each.end_ms + gap_ms
        ]
        if max([time_ms, *(each.end_ms for each in near)]) < closed_ms:
            return
        merged = Session(time_ms, time_ms, [call.aggregate.initial() for call in self._calls])
        for each in near:
            sessions.remove(each)
            self._absorb(merged, each, forgotten)
        for index, call in enumerate(self._calls):
            merged.states[index] = call.aggregate.add(merged.states[index], *call.of(event.row))
        sessions.append(merged)

    def _absorb(self, merged: Session, other: Session, forgotten: list[Bounds]) -> None:
        """The first of them hands on under which bounds it is known; the others are forgotten."""
        merged.start_ms = min(merged.start_ms, other.start_ms)
        merged.end_ms = max(merged.end_ms, other.end_ms)
        if merged.told is None:
            merged.told = other.told
        elif other.told is not None:
            forgotten.append(other.told)
        for index, call in enumerate(self._calls):
            merged.states[index] = call.aggregate.merge(merged.states[index], other.states[index])
