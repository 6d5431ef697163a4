"""Joins, in the engine's operators. Both sides come to them as the columns that are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.client.serde import Bytes, Serde
from ottla.client.serdes.lists import List
from ottla.engine.foreign_key_join import (
    CombinedKeys,
    Look,
    Receive,
    Resolve,
    ResponseSerde,
    Spread,
    Subscribe,
    SubscriptionSerde,
    response_partition,
)
from ottla.engine.graph import Repartition
from ottla.engine.records import Windowed
from ottla.engine.serdes import SessionWindowed
from ottla.engine.stateless import Pass
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.stream_join import JoinWindow, StreamJoin, Unjoined
from ottla.engine.stream_join import Side as JoinSide
from ottla.engine.stream_table_join import StreamTableJoin
from ottla.engine.table_join import Needs, TableJoin
from ottla.engine.table_steps import SourceStep
from ottla.engine.views import StoreView
from ottla.engine.windows import JoinWindows
from ottla.rows.schema import WINDOWEND, WINDOWSTART
from ottla.sql.lowering.keyed_source import KeyedSourceRows, can_key
from ottla.sql.lowering.row_serdes import PLAIN, RowKey, StoredRow, StoreKey
from ottla.sql.lowering.rows import Row
from ottla.sql.lowering.steps import FOREIGN, KeyedRows
from ottla.sql.lowering.tables import Changes, is_key, source_table
from ottla.sql.plan import stages
from ottla.sql.plan.stages import Side
from ottla.sql.syntax.statements import JoinKind, SourceKind
from ottla.sql.text import Text, is_column

if TYPE_CHECKING:
    from ottla.sql.lowering.lower import Lowering

NEEDS: Final = {
    JoinKind.INNER: Needs(left=True, right=True),
    JoinKind.LEFT: Needs(left=True, right=False),
    JoinKind.RIGHT: Needs(left=False, right=True),
    JoinKind.OUTER: Needs(left=False, right=False),
}
JOINED: Final = ("key", "left", "right")


def pair(key: Any, left: Row | None, right: Row | None) -> Row:
    """The row of a join, as texts speak of it."""
    if not isinstance(key, Windowed):
        return {"key": None if key is None else key[0], "left": left, "right": right}
    start, end = key.window
    row = {"key": key.key[0], "left": left, "right": right}
    return row | {WINDOWSTART: start, WINDOWEND: end}


def _names(side: Side) -> tuple[str, ...]:
    return tuple(name for name, _ in side.row)


# -- streams


def streams(made: Lowering, step: str, operator: stages.StreamJoin) -> str:
    needs = NEEDS[operator.kind]
    windows = JoinWindows(operator.before_ms, operator.after_ms, operator.grace_ms)
    key: Serde[Any] = SessionWindowed(StoreKey()) if operator.windowed else StoreKey()
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
            StoredRow(_names(side)),
            retention_ms=windows.retention_ms,
            window_ms=windows.size_ms,
            duplicates=True,
        )
        keep = partial(JoinWindow, spec.name)
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
            StreamJoin,
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
    return made.node(f"{step}-merge", Pass, joined)


def _stream_side(
    made: Lowering,
    name: str,
    side: Side,
    placed: RowKey | None,
    *,
    keyless: bool = False,
    windowed: bool = False,
) -> str:
    """`placed` says how the rows of both sides find the same partition; None: they are there."""
    node = _keyed(made, name, side, side.row, keyless=keyless, windowed=windowed)
    if windowed or _lies_by(side, placed):
        return node
    return made.repartition(name, node, StoredRow(_names(side)), placed or StoreKey())


def _keyed(
    made: Lowering,
    name: str,
    side: Side,
    row: Sequence[tuple[str, Text]],
    *,
    table: bool = False,
    keyless: bool = False,
    windowed: bool = False,
) -> str:
    """The node that gives the rows of a side under the key of the join."""
    given, keys, name = side.input, (side.key,), f"{name}-rows"
    if given.internal or windowed or not can_key(given.layout):
        keyed = partial(KeyedRows, keys, row, windowed=windowed)
        given_rows = partial(keyed, where=given.where, table=table, keyless=keyless)
        return made.node(name, given_rows, [made.read(given)])
    read = partial(KeyedSourceRows, given.layout, keys, row)
    records = partial(read, where=given.where, table=table, keyless=keyless)
    return made.node(name, records, [made.source(given)])


def _placed(made: Lowering, *sides: Side) -> RowKey | None:
    """The bytes of a join's key, which say in which partition it is: those of a topic that has it.

    Rows of the other sides go through a repartition, unless they have the same bytes. None: no side
    lies by this key.
    """
    there = [each for each in sides if is_key((each.key,), each.input.layout)]
    external = [each for each in there if not each.input.internal]
    found = (external or there)[:1]
    return made.key_serde(found[0].input.layout) if found else None


def _lies_by(side: Side, placed: RowKey | None) -> bool:
    layout = side.input.layout
    if not is_key((side.key,), layout):
        return False
    return placed is None or side.input.internal or layout.key_format == placed.format


def _unjoined(made: Lowering, step: str, key: Serde[Any], operator: stages.StreamJoin) -> Unjoined:
    spec = made.store(f"{step}-unjoined-store", StoreKind.KEY_VALUE, Bytes(), List(Bytes()))
    left, right = StoredRow(_names(operator.left)), StoredRow(_names(operator.right))
    return Unjoined(spec.name, key, left, right)


def stream_table(made: Lowering, step: str, operator: stages.StreamTableJoin) -> str:
    left_join = operator.kind is JoinKind.LEFT
    placed = _placed(made, operator.right)
    node = _stream_side(made, f"{step}-left", operator.left, placed, keyless=left_join)
    table = _table_side(made, f"{step}-right", operator.right, placed)
    join = partial(StreamTableJoin, StoreView(f"{table}-store"), pair, None, left=left_join)
    return made.node(f"{step}-join", join, [node], [f"{table}-store"])


# -- tables


def _table_side(made: Lowering, name: str, side: Side, placed: RowKey | None = None) -> str:
    """The node that gives the side's changes; its store is called `<node>-store`."""
    assert side.input.kind is SourceKind.TABLE
    row = side.row if not side.foreign else (*side.row, (FOREIGN, side.foreign))
    node = _keyed(made, name, side, row, table=True)
    if placed is not None and not _lies_by(side, placed):
        names = tuple(each for each, _ in row)
        node = made.repartition(name, node, StoredRow(names), placed)
    scalar = all(each.type.kind in PLAIN for each in side.input.layout.schema.columns)
    immutable = scalar and all(is_column(text) for _, text in row)
    names = tuple(each for each, _ in row)
    return source_table(made, f"{name}-table", node, names, immutable=immutable)


def tables(made: Lowering, step: str, operator: stages.TableJoin) -> Changes:
    needs = NEEDS[operator.kind]
    placed = _placed(made, operator.left, operator.right)
    left = _table_side(made, f"{step}-left", operator.left, placed)
    right = _table_side(made, f"{step}-right", operator.right, placed)
    joined = []
    for name, mine, other in (("left", left, right), ("right", right, left)):
        join = partial(
            TableJoin,
            needs,
            pair,
            is_left=name == "left",
            other=StoreView(f"{other}-store"),
            old_values=True,
        )
        joined.append(made.node(f"{step}-{name}-join", join, [mine], [f"{other}-store"]))
    return Changes(made.node(f"{step}-merge", Pass, joined), ("key",), JOINED)


class ForeignKeyOf:
    def __call__(self, key: Any, row: Row) -> tuple[Any, ...] | None:
        found = row[FOREIGN]
        return None if found is None else (found,)


def foreign_key(made: Lowering, step: str, operator: stages.ForeignKeyJoin) -> Changes:
    """KIP-213, with a topic in each direction: foreign_key_join.py says how."""
    left_join = operator.kind is JoinKind.LEFT
    left = _table_side(made, f"{step}-left", operator.left)
    right = _table_side(made, f"{step}-right", operator.right)
    value = StoredRow((*_names(operator.left), FOREIGN))
    topic = f"{step}-subscription-topic"
    subscribe = partial(
        Subscribe, ForeignKeyOf(), StoreKey(), value, topic=topic, left_join=left_join
    )
    asked = made.node(f"{step}-subscribe", subscribe, [left])
    serde = SubscriptionSerde(StoreKey())
    foreign: Serde[Any] = made.key_serde(operator.right.input.layout)
    source = _through(made, f"{step}-subscription", [asked], foreign, serde)
    store, keys = f"{step}-subscription-store", CombinedKeys(StoreKey(), StoreKey(), topic)
    made.store(store, StoreKind.TIMESTAMPED_KEY_VALUE, Bytes(), serde)
    receive = made.node(f"{step}-receive", partial(Receive, store, keys), [source], [store])
    view = StoreView(f"{right}-store")
    look = made.node(f"{step}-look", partial(Look, view), [receive], view.stores)
    spread = made.node(f"{step}-spread", partial(Spread, store, keys), [right], [store])
    response = ResponseSerde(StoredRow(_names(operator.right)))
    back = _through(
        made, f"{step}-response", [look, spread], StoreKey(), response, response_partition
    )
    view = StoreView(f"{left}-store")
    resolve = partial(Resolve, view, value, pair, topic=topic, left_join=left_join)
    resolved = made.node(f"{step}-resolve", resolve, [back], view.stores)
    spec = made.store(
        f"{step}-store", StoreKind.TIMESTAMPED_KEY_VALUE, StoreKey(), StoredRow(JOINED)
    )
    result = partial(SourceStep, spec, old_values=True)
    return Changes(made.node(f"{step}-result", result, [resolved], [spec.name]), ("key",), JOINED)


def _through(
    made: Lowering,
    name: str,
    parents: list[str],
    key: Serde[Any],
    value: Serde[Any],
    partitioner: Any = None,
) -> str:
    source = f"{name}-source"
    made.graph.add(
        Repartition(
            source,
            f"{name}-sink",
            f"{name}-topic",
            key,
            value,
            parents,
            partitioner=partitioner,
            asked=True,
        )
    )
    return source
