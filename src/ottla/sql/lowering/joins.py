"""Joins, with the engine's operators; each side has only the columns that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.client.serde import Bytes, Serde
from ottla.client.serdes.lists import List
from ottla.engine.foreign_key_join import (
    CombinedKeySchema,
    ForeignTableJoinProcessor,
    ResponseJoinProcessor,
    SubscriptionJoinProcessor,
    SubscriptionReceiveProcessor,
    SubscriptionResponseWrapperSerde,
    SubscriptionSendProcessor,
    SubscriptionWrapperSerde,
    response_partition,
)
from ottla.engine.graph import RepartitionNode
from ottla.engine.records import Windowed
from ottla.engine.stateless import KStreamPassThrough
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.stream_join import JoinSide as JoinSide
from ottla.engine.stream_join import KStreamJoinWindow, KStreamKStreamJoin, OuterJoinStoreFormat
from ottla.engine.stream_table_join import KStreamKTableJoin
from ottla.engine.table_join import JoinType, KTableKTableJoin
from ottla.engine.table_processors import KTableSourceProcessor
from ottla.engine.views import StoreView
from ottla.engine.windowed_serdes import SessionWindowed
from ottla.engine.windows import JoinWindows
from ottla.rows.schema import WINDOWEND, WINDOWSTART
from ottla.sql.lowering.keyed_source import KeyedSourceRows, can_key
from ottla.sql.lowering.row_serdes import PLAIN, RowKeySerde, StoredRowSerde, StoreKeySerde
from ottla.sql.lowering.rows import Row
from ottla.sql.lowering.steps import FOREIGN, KeyedRows
from ottla.sql.lowering.tables import TableNode, is_key, source_table
from ottla.sql.plan import stages
from ottla.sql.plan.stages import KeyedInput
from ottla.sql.syntax.statements import JoinKind, SourceKind
from ottla.sql.text import Text, is_column

if TYPE_CHECKING:
    from ottla.sql.lowering.graph_builder import GraphBuilder

NEEDS: Final = {
    JoinKind.INNER: JoinType(left=True, right=True),
    JoinKind.LEFT: JoinType(left=True, right=False),
    JoinKind.RIGHT: JoinType(left=False, right=True),
    JoinKind.OUTER: JoinType(left=False, right=False),
}
JOINED: Final = ("key", "left", "right")


def pair(key: Any, left: Row | None, right: Row | None) -> Row:
    """The joined row, with the names that texts use."""
    if not isinstance(key, Windowed):
        return {"key": None if key is None else key[0], "left": left, "right": right}
    start, end = key.window
    row = {"key": key.key[0], "left": left, "right": right}
    return row | {WINDOWSTART: start, WINDOWEND: end}


def _names(side: KeyedInput) -> tuple[str, ...]:
    return tuple(name for name, _ in side.row)


# -- streams


def stream_stream_join(made: GraphBuilder, step: str, operator: stages.StreamStreamJoinNode) -> str:
    needs = NEEDS[operator.kind]
    windows = JoinWindows(operator.before_ms, operator.after_ms, operator.grace_ms)
    key: Serde[Any] = SessionWindowed(StoreKeySerde()) if operator.windowed else StoreKeySerde()
    sides = ("left", operator.left), ("right", operator.right)
    specs: list[StoreSpec] = []
    keeps: list[str] = []
    placed = None if operator.windowed else _placed(made, operator.left, operator.right)
    for name, side in sides:
        keyless, windowed = not needs.right, operator.windowed
        node = _stream_side(
            made, f"{step}-{name}", side, placed, keyless=keyless, windowed=windowed
        )
        spec = made.store(
            f"{step}-{name}-store",
            StoreKind.WINDOW,
            key,
            StoredRowSerde(_names(side)),
            retention_ms=windows.retention_ms,
            window_ms=windows.size_ms,
            duplicates=True,
        )
        keep = partial(KStreamJoinWindow, spec.name)
        keeps.append(made.node(f"{step}-{name}-window", keep, [node], [spec.name]))
        specs.append(spec)
    unjoined = None
    if operator.kind is not JoinKind.INNER and not operator.eager:
        unjoined = _unjoined(made, step, key, operator)
    joined = []
    outer = not needs.right, not needs.left
    for number, (name, _) in enumerate(sides):
        other = specs[1 - number].name
        join = partial(
            KStreamKStreamJoin,
            JoinSide.LEFT if number == 0 else JoinSide.RIGHT,
            windows=windows,
            joiner=pair,
            outer=outer[number],
            other_store=other,
            unjoined=unjoined,
            times=step,
        )
        stores = [other] if unjoined is None else [other, unjoined.store]
        joined.append(made.node(f"{step}-{name}-join", join, [keeps[number]], stores))
    return made.node(f"{step}-merge", KStreamPassThrough, joined)


def _stream_side(
    made: GraphBuilder,
    name: str,
    side: KeyedInput,
    placed: RowKeySerde | None,
    *,
    keyless: bool = False,
    windowed: bool = False,
) -> str:
    """The rows of a side; `placed` is the key serde for a repartition, None if none is needed."""
    node = _keyed(made, name, side, side.row, keyless=keyless, windowed=windowed)
    if windowed or _lies_by(side, placed):
        return node
    return made.repartition(name, node, StoredRowSerde(_names(side)), placed or StoreKeySerde())


def _keyed(
    made: GraphBuilder,
    name: str,
    side: KeyedInput,
    row: Sequence[tuple[str, Text]],
    *,
    table: bool = False,
    keyless: bool = False,
    windowed: bool = False,
) -> str:
    """The node of a side's rows under the join key."""
    given, keys, name = side.input, (side.key,), f"{name}-rows"
    if given.internal or windowed or not can_key(given.layout):
        keyed = partial(KeyedRows, keys, row, windowed=windowed)
        given_rows = partial(keyed, where=given.where, table=table, keyless=keyless)
        return made.node(name, given_rows, [made.read(given)])
    read = partial(KeyedSourceRows, given.layout, keys, row)
    records = partial(read, where=given.where, table=table, keyless=keyless)
    return made.node(name, records, [made.source(given)])


def _placed(made: GraphBuilder, *sides: KeyedInput) -> RowKeySerde | None:
    """The key serde that partitions both sides: that of a topic which has the join key.

    Other sides are repartitioned unless their keys have the same bytes. None: no side is
    partitioned by this key.
    """
    there = [side for side in sides if is_key((side.key,), side.input.layout)]
    external = [side for side in there if not side.input.internal]
    found = (external or there)[:1]
    return made.key_serde(found[0].input.layout) if found else None


def _lies_by(side: KeyedInput, placed: RowKeySerde | None) -> bool:
    layout = side.input.layout
    if not is_key((side.key,), layout):
        return False
    return placed is None or side.input.internal or layout.key_format == placed.format


def _unjoined(
    made: GraphBuilder, step: str, key: Serde[Any], operator: stages.StreamStreamJoinNode
) -> OuterJoinStoreFormat:
    spec = made.store(f"{step}-unjoined-store", StoreKind.KEY_VALUE, Bytes(), List(Bytes()))
    left, right = StoredRowSerde(_names(operator.left)), StoredRowSerde(_names(operator.right))
    return OuterJoinStoreFormat(spec.name, key, left, right)


def stream_table_join(made: GraphBuilder, step: str, operator: stages.StreamTableJoinNode) -> str:
    left_join = operator.kind is JoinKind.LEFT
    placed = _placed(made, operator.right)
    node = _stream_side(made, f"{step}-left", operator.left, placed, keyless=left_join)
    table = _table_side(made, f"{step}-right", operator.right, placed)
    join = partial(KStreamKTableJoin, StoreView(f"{table}-store"), pair, None, left=left_join)
    return made.node(f"{step}-join", join, [node], [f"{table}-store"])


# -- tables


def _table_side(
    made: GraphBuilder, name: str, side: KeyedInput, placed: RowKeySerde | None = None
) -> str:
    """The node of a side's changes; its store is named `<node>-store`."""
    assert side.input.kind is SourceKind.TABLE
    row = side.row if not side.foreign else (*side.row, (FOREIGN, side.foreign))
    node = _keyed(made, name, side, row, table=True)
    if placed is not None and not _lies_by(side, placed):
        names = tuple(name for name, _ in row)
        node = made.repartition(name, node, StoredRowSerde(names), placed)
    scalar = all(column.type.kind in PLAIN for column in side.input.layout.schema.columns)
    immutable = scalar and all(is_column(text) for _, text in row)
    names = tuple(name for name, _ in row)
    return source_table(made, f"{name}-table", node, names, immutable=immutable)


def table_table_join(
    made: GraphBuilder, step: str, operator: stages.TableTableJoinNode
) -> TableNode:
    needs = NEEDS[operator.kind]
    placed = _placed(made, operator.left, operator.right)
    left = _table_side(made, f"{step}-left", operator.left, placed)
    right = _table_side(made, f"{step}-right", operator.right, placed)
    joined = []
    for name, mine, other in (("left", left, right), ("right", right, left)):
        join = partial(
            KTableKTableJoin,
            needs,
            pair,
            is_left=name == "left",
            other=StoreView(f"{other}-store"),
            old_values=True,
        )
        joined.append(made.node(f"{step}-{name}-join", join, [mine], [f"{other}-store"]))
    return TableNode(made.node(f"{step}-merge", KStreamPassThrough, joined), ("key",), JOINED)


class ForeignKeyExtractor:
    def __call__(self, key: Any, row: Row) -> tuple[Any, ...] | None:
        found = row[FOREIGN]
        return None if found is None else (found,)


def foreign_key_join(
    made: GraphBuilder, step: str, operator: stages.ForeignKeyJoinNode
) -> TableNode:
    """A foreign-key join (KIP-213) with its two topics; see foreign_key_join.py of the engine."""
    left_join = operator.kind is JoinKind.LEFT
    left = _table_side(made, f"{step}-left", operator.left)
    right = _table_side(made, f"{step}-right", operator.right)
    value = StoredRowSerde((*_names(operator.left), FOREIGN))
    topic = f"{step}-subscription-topic"
    subscribe = partial(
        SubscriptionSendProcessor,
        ForeignKeyExtractor(),
        StoreKeySerde(),
        value,
        topic=topic,
        left_join=left_join,
    )
    asked = made.node(f"{step}-subscribe", subscribe, [left])
    serde = SubscriptionWrapperSerde(StoreKeySerde())
    foreign: Serde[Any] = made.key_serde(operator.right.input.layout)
    source = _through(made, f"{step}-subscription", [asked], foreign, serde)
    store, keys = (
        f"{step}-subscription-store",
        CombinedKeySchema(StoreKeySerde(), StoreKeySerde(), topic),
    )
    made.store(store, StoreKind.TIMESTAMPED_KEY_VALUE, Bytes(), serde)
    receive = made.node(
        f"{step}-receive", partial(SubscriptionReceiveProcessor, store, keys), [source], [store]
    )
    view = StoreView(f"{right}-store")
    look = made.node(
        f"{step}-look", partial(SubscriptionJoinProcessor, view), [receive], view.stores
    )
    spread = made.node(
        f"{step}-spread", partial(ForeignTableJoinProcessor, store, keys), [right], [store]
    )
    response = SubscriptionResponseWrapperSerde(StoredRowSerde(_names(operator.right)))
    back = _through(
        made, f"{step}-response", [look, spread], StoreKeySerde(), response, response_partition
    )
    view = StoreView(f"{left}-store")
    resolve = partial(ResponseJoinProcessor, view, value, pair, topic=topic, left_join=left_join)
    resolved = made.node(f"{step}-resolve", resolve, [back], view.stores)
    spec = made.store(
        f"{step}-store", StoreKind.TIMESTAMPED_KEY_VALUE, StoreKeySerde(), StoredRowSerde(JOINED)
    )
    result = partial(KTableSourceProcessor, spec, old_values=True)
    return TableNode(made.node(f"{step}-result", result, [resolved], [spec.name]), ("key",), JOINED)


def _through(
    made: GraphBuilder,
    name: str,
    parents: list[str],
    key: Serde[Any],
    value: Serde[Any],
    partitioner: Any = None,
) -> str:
    source = f"{name}-source"
    made.graph.add(
        RepartitionNode(
            source,
            f"{name}-sink",
            f"{name}-topic",
            key,
            value,
            parents,
            partitioner=partitioner,
            explicit=True,
        )
    )
    return source
