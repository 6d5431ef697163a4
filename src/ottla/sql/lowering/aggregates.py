"""Aggregates of streams and tables, in the engine's operators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.client.serde import Bytes
from ottla.engine.aggregates import Aggregate as StreamAggregate
from ottla.engine.aggregates import AggregateTable
from ottla.engine.changes import Changed
from ottla.engine.serdes import SessionWindowed
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.suppression import Suppress, Suppressed
from ottla.engine.table_steps import SelectTableKey
from ottla.engine.window_aggregates import Aggregation
from ottla.engine.window_operations import WindowedAggregate
from ottla.engine.windows import AggregateWindows, SessionWindows, TimeWindows
from ottla.rows.schema import WINDOW_BOUNDS, WindowKind
from ottla.sql.lowering.calls import AggregateRows, Calls
from ottla.sql.lowering.row_serdes import Packed, StoredRow, StoreKey
from ottla.sql.lowering.rows import Row, row_names
from ottla.sql.lowering.steps import KeyedRows
from ottla.sql.lowering.tables import Changes, is_key, source_table
from ottla.sql.plan.stages import (
    Aggregate,
    SessionAggregate,
    Stage,
    TableAggregate,
    TableChanges,
)
from ottla.sql.syntax.statements import Emit

if TYPE_CHECKING:
    from ottla.sql.lowering.lower import Lowering

__all__ = ["ended", "of_stream", "of_table", "table_changes"]


def of_stream(made: Lowering, step: str, operator: Aggregate | SessionAggregate) -> Changes:
    """Groups of a stream. Rows without group, or without value, are in none."""
    given = operator.inputs[0]
    texts = [each.text for each in operator.groups]
    names = row_names(given.layout)
    keyed = partial(KeyedRows, texts, where=given.where)
    node = made.node(f"{step}-group-by", keyed, [made.read(given)])
    if not is_key(texts, given.layout):
        node = made.repartition(f"{step}-groupby", node, StoredRow(names), StoreKey())
    calls = Calls(operator.calls)
    windows = windows_of(operator)
    if windows is None:
        kind = StoreKind.TIMESTAMPED_KEY_VALUE
        spec = made.store(f"{step}-store", kind, StoreKey(), Packed())
        operation = StreamAggregate(spec, calls.add, calls.initial)
        operation.old_values = True
        node = made.node(f"{step}-aggregate", operation, [node], [spec.name])
    else:
        final = _final_windows(operator)
        spec = _window_store(made, step, windows, _retention_ms(operator), final=final)
        aggregation = Aggregation(
            spec, calls.initial, calls.add, final, calls.merge, stored_first=True
        )
        windowed = WindowedAggregate(windows, aggregation)
        windowed.old_values = True
        node = made.node(f"{step}-aggregate", windowed, [node], [spec.name])
    groups = tuple(each.name for each in operator.groups)
    node = made.node(f"{step}-results", partial(AggregateRows, calls, groups), [node])
    bounds = () if windows is None else tuple(WINDOW_BOUNDS)
    return Changes(node, groups, (*groups, *(each.name for each in operator.calls), *bounds))


def ended(made: Lowering, stage: Stage, changes: Changes) -> Changes:
    """HAVING, and for EMIT FINAL what holds updates of a session back until it closes."""
    operator, step = stage.operator, stage.step
    found = made.where(stage, changes)
    if not isinstance(operator, Aggregate) or operator.emit is not Emit.FINAL:
        return found
    if _final_windows(operator):
        return found
    key = SessionWindowed(StoreKey())
    name = f"{step}-suppress"
    made.store(f"{name}-store", StoreKind.KEY_VALUE, Bytes(), Bytes())
    suppress = partial(
        Suppress,
        Suppressed(None),
        wait_ms=operator.grace_ms + (operator.window.gap_ms if operator.window else 0),
        store=f"{name}-store",
        key=key,
        value=StoredRow(changes.row),
    )
    made.node(name, suppress, [found.node], [f"{name}-store"])
    return Changes(name, changes.names, changes.row)


def windows_of(operator: Aggregate | SessionAggregate) -> AggregateWindows | None:
    if isinstance(operator, SessionAggregate):
        return SessionWindows(operator.gap_ms, operator.grace_ms)
    window = operator.window
    if window is None:
        return None
    if window.kind is WindowKind.SESSION:
        return SessionWindows(window.gap_ms, operator.grace_ms)
    return TimeWindows(window.size_ms, window.advance_ms or window.size_ms, operator.grace_ms)


def _final_windows(operator: Aggregate | SessionAggregate) -> bool:
    """EMIT FINAL over windows of one size: the aggregate itself waits for their end."""
    if isinstance(operator, SessionAggregate) or operator.emit is not Emit.FINAL:
        return False
    return operator.window is not None and operator.window.kind is not WindowKind.SESSION


def _retention_ms(operator: Aggregate | SessionAggregate) -> int:
    if isinstance(operator, SessionAggregate):
        return operator.retention_ms or 0
    return (operator.window.retention_ms if operator.window is not None else None) or 0


def _window_store(
    made: Lowering, step: str, windows: AggregateWindows, retention_ms: int, *, final: bool
) -> StoreSpec:
    # The stores of ON_WINDOW_CLOSE keep a window for a millisecond more.
    retention_ms = max(retention_ms, windows.retention_ms + final)
    if isinstance(windows, SessionWindows):
        kind, size_ms = StoreKind.SESSION, None
    else:
        assert isinstance(windows, TimeWindows)
        kind, size_ms = StoreKind.TIMESTAMPED_WINDOW, windows.size_ms
    return made.store(
        f"{step}-store",
        kind,
        StoreKey(),
        Packed(),
        retention_ms=retention_ms,
        window_ms=size_ms,
    )


# -- of tables


class GroupOf:
    """The group of a row that has it in its columns."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, key: object, row: Row) -> tuple[tuple[object, ...], Row]:
        return tuple(map(row.__getitem__, self._names)), row


def table_changes(made: Lowering, step: str, operator: TableChanges) -> str:
    """The rows that take part, each under its own key; which group they are in is one column."""
    side = operator.side
    names = tuple(name for name, _ in side.row)
    keyed = partial(KeyedRows, (side.key,), side.row, where=side.input.where, table=True)
    node = made.node(f"{step}-rows", keyed, [made.read(side.input)])
    return source_table(made, f"{step}-table", node, names)


def of_table(made: Lowering, step: str, operator: TableAggregate, parent: str) -> Changes:
    groups = tuple(each.name for each in operator.groups)
    arguments = tuple(name for name, _ in operator.side.row)
    select = partial(SelectTableKey, GroupOf(groups))
    node = made.node(f"{step}-group-by", select, [parent])
    serde = Changed(StoredRow((*groups, *arguments)))
    node = made.repartition(f"{step}-groupby", node, serde, StoreKey())
    calls = Calls(operator.calls, by_name=True)
    kind = StoreKind.TIMESTAMPED_KEY_VALUE
    spec = made.store(f"{step}-store", kind, StoreKey(), Packed())
    operation = AggregateTable(
        spec, adder=calls.add, subtractor=calls.undo, initializer=calls.initial
    )
    operation.old_values = True
    node = made.node(f"{step}-aggregate", operation, [node], [spec.name])
    node = made.node(f"{step}-results", partial(AggregateRows, calls, groups), [node])
    return Changes(node, groups, (*groups, *(each.name for each in operator.calls)))
