"""Joins of a stream with another stream in a window, with a table, or with a global table.

A joiner takes (left, right) or (key, left, right). A missing side is None.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.serde import Bytes, Serde
from ottla.client.serdes.lists import List
from ottla.engine.arity import with_key
from ottla.engine.graph import TopologyError
from ottla.engine.stateless import KStreamPassThrough
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.stream_join import (
    JoinSide,
    KStreamJoinWindow,
    KStreamKStreamJoin,
    OuterJoinStoreFormat,
    ValueJoinerWithKey,
)
from ottla.engine.stream_table_join import KStreamKTableJoin
from ottla.engine.table_join import JoinType, with_key_argument
from ottla.engine.views import StoreView, TableView
from ottla.engine.windows import JoinWindows
from ottla.streams.global_table import GlobalKTable
from ottla.streams.table import KTable

if TYPE_CHECKING:
    from ottla.streams.stream import KStream


def join_stream(
    stream: KStream[Any, Any],
    other: KStream[Any, Any] | KTable[Any, Any] | GlobalKTable[Any, Any],
    joiner: Callable[..., Any],
    windows: JoinWindows | None,
    needs: JoinType,
    *,
    on: Callable[..., Any] | None = None,
    value: Serde[Any] | None = None,
    store: str | None = None,
    name: str | None = None,
) -> KStream[Any, Any]:
    join = with_key_argument(joiner)
    left, right = not needs.right, not needs.left
    if isinstance(other, GlobalKTable):
        _only("a global table", windows=windows, store=store)
        if on is None:
            raise TopologyError("a join with a global table needs `on`: the key to look up")
        return _with_global(stream, other, join, with_key(on), left, value, name)
    if isinstance(other, KTable):
        _only("a table", windows=windows, on=on, store=store)
        return _with_table(stream, other, join, left, value, name)
    _only("a stream", on=on)
    if windows is None:
        raise TopologyError("a join of two streams needs windows, for instance within(minutes=5)")
    return StreamStreamJoin(stream, other, join, windows, left, right, store, name).build(value)


class StreamStreamJoin:
    """A join of two streams: for each side a node that stores and a node that joins, then a merge.

    `left`, `right`: records of this side are emitted without a partner, too.
    """

    def __init__(
        self,
        one: KStream[Any, Any],
        two: KStream[Any, Any],
        joiner: ValueJoinerWithKey,
        windows: JoinWindows,
        left: bool,
        right: bool,
        store: str | None,
        name: str | None,
    ) -> None:
        names = (one.node, two.node) if name is None else (f"{name}-left", f"{name}-right")
        self._one = one.repartitioned(names[0], keyless=left)
        self._two = two.repartitioned(names[1], keyless=left)
        self._builder = one.builder
        self._builder.graph.copartitioned.append(self._one.sources | self._two.sources)
        self._joiner = joiner
        self._windows = windows
        self._left = left
        self._right = right
        self._store = store
        self._name = name

    def build(self, value: Serde[Any] | None) -> KStream[Any, Any]:
        from ottla.streams.stream import KStream

        builder = self._builder
        keeps = [
            self._named("KSTREAM-WINDOWED-", f"-{side}-windowed") for side in ("this", "other")
        ]
        this_kind, other_kind = self._kinds()
        this_made, other_made = builder.new_name(this_kind[0]), builder.new_name(other_kind[0])
        specs = [
            self._spec(this_made, this_kind[1], self._one),
            self._spec(other_made, other_kind[1], self._two),
        ]
        joins = [
            this_made if self._name is None else self._name + this_kind[1],
            other_made if self._name is None else self._name + other_kind[1],
        ]
        merge = self._named("KSTREAM-MERGE-", "-merge")
        for keep, stream, spec in zip(keeps, (self._one, self._two), specs, strict=True):
            builder.processor(
                keep, partial(KStreamJoinWindow, spec.name), [stream.node], stores=[spec]
            )
        self._add_joins(keeps, joins, specs, this_made)
        builder.processor(merge, KStreamPassThrough, joins)
        sources = self._one.sources | self._two.sources
        return KStream(builder, merge, self._one.key_serde, value, sources=sources)

    def _add_joins(
        self, keeps: list[str], joins: list[str], specs: list[StoreSpec], this_made: str
    ) -> None:
        unjoined = self._unjoined(specs, this_made)
        shared = [] if unjoined is None else [unjoined.store]
        sides = (JoinSide.LEFT, self._left), (JoinSide.RIGHT, self._right)
        for number, (side, outer) in enumerate(sides):
            other = specs[1 - number].name
            # Only what it needs: a reference to self would send the whole topology to the workers.
            supplier = partial(
                KStreamKStreamJoin,
                side,
                windows=self._windows,
                joiner=self._joiner,
                outer=outer,
                other_store=other,
                unjoined=unjoined,
                times=joins[0],
            )
            self._builder.processor(
                joins[number], supplier, [keeps[number]], connected=[other, *shared]
            )

    def _kinds(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Prefix and suffix of both sides' names; Kafka names a side by the other's join type."""
        return (
            ("KSTREAM-OUTERTHIS-", "-outer-this-join")
            if self._right
            else ("KSTREAM-JOINTHIS-", "-this-join"),
            ("KSTREAM-OUTEROTHER-", "-outer-other-join")
            if self._left
            else ("KSTREAM-JOINOTHER-", "-other-join"),
        )

    def _spec(self, made: str, suffix: str, stream: KStream[Any, Any]) -> StoreSpec:
        name = f"{made}-store" if self._store is None else f"{self._store}{suffix}-store"
        return self._builder.store(
            "",
            name,
            stream.key_serde,
            stream.value_serde,
            kind=StoreKind.WINDOW,
            retention_ms=self._windows.retention_ms,
            window_ms=self._windows.size_ms,
            duplicates=True,
            cached=False,
            changelog=False,
        )

    def _unjoined(self, specs: list[StoreSpec], this_made: str) -> OuterJoinStoreFormat | None:
        if not self._left:
            return None
        number = this_made.rpartition("-")[2]
        name = f"KSTREAM-OUTERSHARED-{number}-store"
        if self._store is not None:
            suffix = "-outer-shared-join" if self._right else "-left-shared-join"
            name = f"{self._store}{suffix}-store"
        self._builder.graph.add_store(
            StoreSpec(
                name, StoreKind.KEY_VALUE, Bytes(), List(Bytes()), changelog=False, cached=False
            )
        )
        return OuterJoinStoreFormat(name, specs[0].key, specs[0].value, specs[1].value)

    def _named(self, prefix: str, suffix: str) -> str:
        return self._builder.new_name(prefix, None if self._name is None else self._name + suffix)


def _with_table(
    stream: KStream[Any, Any],
    table: KTable[Any, Any],
    joiner: ValueJoinerWithKey,
    left: bool,
    value: Serde[Any] | None,
    name: str | None,
) -> KStream[Any, Any]:
    lying = stream.repartitioned(stream.node if name is None else name, keyless=left)
    sources = lying.sources | table.sources
    stream.builder.graph.copartitioned.append(sources)
    return _looked_up(lying, table.view(), joiner, None, left, value, name, sources)


def _with_global(
    stream: KStream[Any, Any],
    table: GlobalKTable[Any, Any],
    joiner: ValueJoinerWithKey,
    on: Callable[[Any, Any], Any],
    left: bool,
    value: Serde[Any] | None,
    name: str | None,
) -> KStream[Any, Any]:
    view = StoreView(table.store)
    return _looked_up(stream, view, joiner, on, left, value, name, stream.sources)


def _looked_up(
    stream: KStream[Any, Any],
    view: TableView,
    joiner: ValueJoinerWithKey,
    on: Callable[[Any, Any], Any] | None,
    left: bool,
    value: Serde[Any] | None,
    name: str | None,
    sources: frozenset[str],
) -> KStream[Any, Any]:
    from ottla.streams.stream import KStream

    builder = stream.builder
    # Kafka's names call every join with a global table a left join.
    inner = not left and on is None
    node = builder.new_name("KSTREAM-JOIN-" if inner else "KSTREAM-LEFTJOIN-", name)
    builder.processor(
        node,
        partial(KStreamKTableJoin, view, joiner, on, left=left),
        [stream.node],
        connected=view.stores,
    )
    return KStream(builder, node, stream.key_serde, value, sources=sources, rekeyed=stream.rekeyed)


def _only(what: str, **others: object) -> None:
    for name, given in others.items():
        if given is not None:
            raise TopologyError(f"a join with {what} has no `{name}`")
