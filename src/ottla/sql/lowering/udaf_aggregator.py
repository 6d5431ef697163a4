"""The aggregate calls of a query as an aggregator of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.engine.processors import Deliver
from ottla.engine.records import AnyRecord, Change, Record
from ottla.engine.stateless import StatelessProcessor
from ottla.sql.lowering.rows import Row, key_row
from ottla.sql.lowering.steps import Values, values_of
from ottla.sql.plan.stages import AggregateCall, argument_name
from ottla.sql.text import Text

States = tuple[Any, ...]


class UdafAggregator:
    """Initializer, adder, subtractor and merger; the aggregate is a tuple with a state per call.

    `by_name`: the arguments are columns of the rows.
    """

    def __init__(self, calls: Sequence[AggregateCall], *, by_name: bool = False) -> None:
        self.calls = tuple(calls)
        self._by_name = by_name
        self._compile()

    def __getstate__(self) -> dict[str, Any]:
        return {"calls": self.calls, "_by_name": self._by_name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()

    def _compile(self) -> None:
        places: list[slice] = []
        texts: list[Text] = []
        names: list[str] = []
        for call in self.calls:
            count = len(call.arguments)
            places.append(slice(len(texts), len(texts) + count))
            texts += call.arguments
            names += [argument_name(call, number) for number in range(count)]
        self._arguments: Values
        if self._by_name:
            self._arguments = lambda row: tuple(map(row.__getitem__, names))
        else:
            self._arguments = values_of(texts)
        self._steps = [
            (call.aggregation, place) for call, place in zip(self.calls, places, strict=True)
        ]

    def initial(self) -> States:
        return tuple(step.initial() for step, _ in self._steps)

    def add(self, key: Any, row: Row, states: States) -> States:
        given = self._arguments(row)
        return tuple(
            step.add(state, *given[place])
            for (step, place), state in zip(self._steps, states, strict=True)
        )

    def undo(self, key: Any, row: Row, states: States) -> States:
        given = self._arguments(row)
        return tuple(
            step.undo(state, *given[place])
            for (step, place), state in zip(self._steps, states, strict=True)
        )

    def merge(self, key: Any, first: States, second: States) -> States:
        return tuple(
            step.merge(state, other)
            for (step, _), state, other in zip(self._steps, first, second, strict=True)
        )

    def row(self, states: States) -> Row:
        return {
            call.name: step.result(state)
            for call, (step, _), state in zip(self.calls, self._steps, states, strict=True)
        }


class AggregateRows(StatelessProcessor):
    """Turns changes of aggregates into changes of rows: groups, results, window bounds."""

    def __init__(self, calls: UdafAggregator, groups: Sequence[str]) -> None:
        self._calls = calls
        self._groups = tuple(groups)

    def step(self, downstream: Deliver) -> Deliver:
        calls, groups = self._calls, self._groups

        def row(key: Any, states: States | None) -> Row | None:
            return None if states is None else key_row(groups, key) | calls.row(states)

        def read(record: AnyRecord) -> None:
            new, old = (row(record.key, values) for values in record.value)
            change = Change(new, old)
            downstream(Record(record.key, change, record.timestamp, record.headers))

        return read
