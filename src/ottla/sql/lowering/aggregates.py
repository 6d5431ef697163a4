"""Aggregates of streams and tables, with the engine's operators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.client.serde import Bytes
from ottla.engine.aggregates import KStreamAggregate as StreamAggregate
from ottla.engine.aggregates import KTableAggregate
from ottla.engine.changed_serde import ChangedSerde
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.suppression import KTableSuppressProcessor, Suppressed
from ottla.engine.table_processors import KTableRepartitionMap
from ottla.engine.window_aggregates import WindowAggregation
from ottla.engine.window_operations import WindowAggregateOperation
from ottla.engine.windowed_serdes import SessionWindowed
from ottla.engine.windows import AggregateWindows, SessionWindows, TimeWindows
from ottla.rows.schema import WINDOW_BOUNDS, WindowKind
from ottla.sql.lowering.row_serdes import PackedSerde, StoredRowSerde, StoreKeySerde
from ottla.sql.lowering.rows import Row, row_names
from ottla.sql.lowering.steps import KeyedRows
from ottla.sql.lowering.tables import TableNode, is_key, source_table
from ottla.sql.lowering.udaf_aggregator import AggregateRows, UdafAggregator
from ottla.sql.plan.stages import (
    QueryStage,
    SessionAggregateNode,
    StreamAggregateNode,
    TableAggregateNode,
    TableGroupByNode,
)
from ottla.sql.syntax.statements import Emit

if TYPE_CHECKING:
    from ottla.sql.lowering.graph_builder import GraphBuilder

__all__ = ["ended", "stream_aggregate", "table_aggregate", "table_changes"]


def stream_aggregate(
    made: GraphBuilder, step: str, operator: StreamAggregateNode | SessionAggregateNode
) -> TableNode:
    """Aggregate a stream. Rows without a group or without a value are skipped."""
    given = operator.inputs[0]
    texts = [group.text for group in operator.groups]
    names = row_names(given.layout)
    keyed = partial(KeyedRows, texts, where=given.where)
    node = made.node(f"{step}-group-by", keyed, [made.read(given)])
    if not is_key(texts, given.layout):
        node = made.repartition(f"{step}-groupby", node, StoredRowSerde(names), StoreKeySerde())
    calls = UdafAggregator(operator.calls)
    windows = windows_of(operator)
    if windows is None:
        kind = StoreKind.TIMESTAMPED_KEY_VALUE
        spec = made.store(f"{step}-store", kind, StoreKeySerde(), PackedSerde())
        operation = StreamAggregate(spec, calls.add, calls.initial)
        operation.old_values = True
        node = made.node(f"{step}-aggregate", operation, [node], [spec.name])
    else:
        final = _final_windows(operator)
        spec = _window_store(made, step, windows, _retention_ms(operator), final=final)
        aggregation = WindowAggregation(
            spec, calls.initial, calls.add, final, calls.merge, stored_first=True
        )
        windowed = WindowAggregateOperation(windows, aggregation)
        windowed.old_values = True
        node = made.node(f"{step}-aggregate", windowed, [node], [spec.name])
    groups = tuple(group.name for group in operator.groups)
    node = made.node(f"{step}-results", partial(AggregateRows, calls, groups), [node])
    bounds = () if windows is None else tuple(WINDOW_BOUNDS)
    return TableNode(node, groups, (*groups, *(call.name for call in operator.calls), *bounds))


def ended(made: GraphBuilder, stage: QueryStage, changes: TableNode) -> TableNode:
    """Add HAVING and, for EMIT FINAL of sessions, the suppression until they close."""
    operator, step = stage.operator, stage.step
    found = made.where(stage, changes)
    if not isinstance(operator, StreamAggregateNode) or operator.emit is not Emit.FINAL:
        return found
    if _final_windows(operator):
        return found
    key = SessionWindowed(StoreKeySerde())
    name = f"{step}-suppress"
    made.store(f"{name}-store", StoreKind.KEY_VALUE, Bytes(), Bytes())
    suppress = partial(
        KTableSuppressProcessor,
        Suppressed(None),
        wait_ms=operator.grace_ms + (operator.window.gap_ms if operator.window else 0),
        store=f"{name}-store",
        key=key,
        value=StoredRowSerde(changes.row),
    )
    made.node(name, suppress, [found.node], [f"{name}-store"])
    return TableNode(name, changes.names, changes.row)


def windows_of(operator: StreamAggregateNode | SessionAggregateNode) -> AggregateWindows | None:
    if isinstance(operator, SessionAggregateNode):
        return SessionWindows(operator.gap_ms, operator.grace_ms)
    window = operator.window
    if window is None:
        return None
    if window.kind is WindowKind.SESSION:
        return SessionWindows(window.gap_ms, operator.grace_ms)
    return TimeWindows(window.size_ms, window.advance_ms or window.size_ms, operator.grace_ms)


def _final_windows(operator: StreamAggregateNode | SessionAggregateNode) -> bool:
    """True for EMIT FINAL of fixed windows, where the aggregate itself waits for the window to
    close."""
    if isinstance(operator, SessionAggregateNode) or operator.emit is not Emit.FINAL:
        return False
    return operator.window is not None and operator.window.kind is not WindowKind.SESSION


def _retention_ms(operator: StreamAggregateNode | SessionAggregateNode) -> int:
    if isinstance(operator, SessionAggregateNode):
        return operator.retention_ms or 0
    return (operator.window.retention_ms if operator.window is not None else None) or 0


def _window_store(
    made: GraphBuilder, step: str, windows: AggregateWindows, retention_ms: int, *, final: bool
) -> StoreSpec:
    # With ON_WINDOW_CLOSE the store must keep a window one millisecond longer.
    retention_ms = max(retention_ms, windows.retention_ms + final)
    if isinstance(windows, SessionWindows):
        kind, size_ms = StoreKind.SESSION, None
    else:
        assert isinstance(windows, TimeWindows)
        kind, size_ms = StoreKind.TIMESTAMPED_WINDOW, windows.size_ms
    return made.store(
        f"{step}-store",
        kind,
        StoreKeySerde(),
        PackedSerde(),
        retention_ms=retention_ms,
        window_ms=size_ms,
    )


# -- of tables


class GroupKeyMapper:
    """Takes the group of a row from its columns."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, key: object, row: Row) -> tuple[tuple[object, ...], Row]:
        return tuple(map(row.__getitem__, self._names)), row


def table_changes(made: GraphBuilder, step: str, operator: TableGroupByNode) -> str:
    """The node of the rows to aggregate, under their primary key and with their group as
    columns."""
    side = operator.side
    names = tuple(name for name, _ in side.row)
    keyed = partial(KeyedRows, (side.key,), side.row, where=side.input.where, table=True)
    node = made.node(f"{step}-rows", keyed, [made.read(side.input)])
    return source_table(made, f"{step}-table", node, names)


def table_aggregate(
    made: GraphBuilder, step: str, operator: TableAggregateNode, parent: str
) -> TableNode:
    groups = tuple(group.name for group in operator.groups)
    arguments = tuple(name for name, _ in operator.side.row)
    select = partial(KTableRepartitionMap, GroupKeyMapper(groups))
    node = made.node(f"{step}-group-by", select, [parent])
    serde = ChangedSerde(StoredRowSerde((*groups, *arguments)))
    node = made.repartition(f"{step}-groupby", node, serde, StoreKeySerde())
    calls = UdafAggregator(operator.calls, by_name=True)
    kind = StoreKind.TIMESTAMPED_KEY_VALUE
    spec = made.store(f"{step}-store", kind, StoreKeySerde(), PackedSerde())
    operation = KTableAggregate(
        spec, adder=calls.add, subtractor=calls.undo, initializer=calls.initial
    )
    operation.old_values = True
    node = made.node(f"{step}-aggregate", operation, [node], [spec.name])
    node = made.node(f"{step}-results", partial(AggregateRows, calls, groups), [node])
    return TableNode(node, groups, (*groups, *(call.name for call in operator.calls)))
