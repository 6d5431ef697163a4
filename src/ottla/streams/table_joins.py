"""Joins of two tables by their keys, or by a foreign key in the left one's values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.serde import Bytes, Serde
from ottla.engine.arity import with_key
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
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import AnyRecord
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.table_join import (
    JoinType,
    KTableKTableJoin,
    ValueJoinerWithKey,
    joined_view,
    with_key_argument,
)
from ottla.engine.table_processors import KTableSource, MaterializedProcessor
from ottla.engine.views import Getter, StoreView, TableOperation, TableView

if TYPE_CHECKING:
    from ottla.streams.table import KTable

FK = "KTABLE-FK-JOIN-"


def join_tables(
    one: KTable[Any, Any],
    two: KTable[Any, Any],
    joiner: Callable[..., Any],
    needs: JoinType,
    *,
    foreign_key: Callable[..., Any] | None = None,
    value: Serde[Any] | None,
    store: str | None,
    name: str | None,
) -> KTable[Any, Any]:
    join = with_key_argument(joiner)
    if foreign_key is not None:
        made = ForeignKeyJoin(one, two, join, with_key(foreign_key), not needs.right, name)
        return made.build(value, store)
    return _by_keys(one, two, join, needs, value, store, name)


def _by_keys(
    one: KTable[Any, Any],
    two: KTable[Any, Any],
    joiner: ValueJoinerWithKey,
    needs: JoinType,
    value: Serde[Any] | None,
    store: str | None,
    name: str | None,
) -> KTable[Any, Any]:
    from ottla.streams.table import KTable

    builder = one.builder
    merge = builder.new_name("KTABLE-MERGE-", name)
    this = builder.new_name("KTABLE-JOINTHIS-", None if name is None else f"{name}-join-this")
    other = builder.new_name("KTABLE-JOINOTHER-", None if name is None else f"{name}-join-other")
    # Without the old value, the deletion of a key that never existed looks like a real one.
    if not needs.right:
        one.enable_old_values(force=True)
    if not needs.left:
        two.enable_old_values(force=True)
    spec = None
    if store is not None:
        spec = builder.store("", store, one.key_serde or two.key_serde, value)
    operation = TableTableJoin(one.operation, two.operation, needs, joiner, spec)
    views = two.view(), one.view()
    builder.processor(this, operation.side(views[0], True), [one.node], connected=views[0].stores)
    builder.processor(other, operation.side(views[1], False), [two.node], connected=views[1].stores)
    builder.processor(merge, operation, [this, other], stores=[] if spec is None else [spec])
    sources = one.sources | two.sources
    builder.graph.copartitioned.append(sources)
    key = one.key_serde or two.key_serde
    return KTable(builder, merge, key, value, operation, sources=sources, store=store)


class TableTableJoin(TableOperation):
    def __init__(
        self,
        one: TableOperation,
        two: TableOperation,
        needs: JoinType,
        joiner: ValueJoinerWithKey,
        store: StoreSpec | None,
    ) -> None:
        self.parents = (one, two)
        self.store = store
        self._needs = needs
        self._joiner = joiner

    def __call__(self) -> Processor[Any, Any]:
        return KTableKTableJoinMerger(self.store, old_values=self.old_values)

    def side(self, other: TableView, is_left: bool) -> Callable[[], Processor[Any, Any]]:
        return lambda: KTableKTableJoin(
            self._needs, self._joiner, is_left=is_left, other=other, old_values=self.old_values
        )

    def enable_old_values(self, *, force: bool) -> bool:
        for parent in self.parents:
            parent.enable_old_values(force=True)
        self.old_values = True
        return True

    def view(self) -> TableView:
        if self.store is not None:
            return StoreView(self.store.name)
        one, two = (parent.view() for parent in self.parents)
        return JoinedView(one, two, self._needs, self._joiner)


class JoinedView(TableView):
    def __init__(
        self, one: TableView, two: TableView, needs: JoinType, joiner: ValueJoinerWithKey
    ) -> None:
        self.stores = (*one.stores, *two.stores)
        self._one = one
        self._two = two
        self._needs = needs
        self._joiner = joiner

    def open(self, context: ProcessorContext) -> Getter:
        one, two = self._one.open(context), self._two.open(context)
        return joined_view(self._needs, self._joiner, one, two)


class KTableKTableJoinMerger(MaterializedProcessor):
    """Merges both sides' results into one table."""

    def process(self, record: AnyRecord) -> None:
        change = record.value
        if self._spec is not None:
            cell = self.store.key_bytes(record.key)
            old = self.before(cell) if self._updates.cached else change.old
            self.put(record, cell, change.new, old, record.timestamp)
        else:
            self._downstream(record)


class ForeignKeyJoin:
    """Two internal topics and five nodes; see ottla.engine.foreign_key_join."""

    def __init__(
        self,
        one: KTable[Any, Any],
        two: KTable[Any, Any],
        joiner: ValueJoinerWithKey,
        foreign_key: Callable[[Any, Any], Any],
        left_join: bool,
        name: str | None,
    ) -> None:
        self._one = one
        self._two = two
        self._joiner = joiner
        self._foreign_key = foreign_key
        self._left_join = left_join
        self._name = name
        self._builder = one.builder
        where = "a join by foreign key"
        self._key = one.builder.key_serde(one.key_serde, where)
        self._value = one.builder.inner_value(one.value_serde)
        self._other_key = one.builder.key_serde(two.key_serde, where)
        self._other_value = one.builder.inner_value(two.value_serde)

    def build(self, value: Serde[Any] | None, store: str | None) -> KTable[Any, Any]:
        self._one.enable_old_values(force=True)
        self._two.enable_old_values(force=True)
        source, topic = self._register()
        answers = self._answer(source, topic)
        return self._resolve(answers, topic, value, store)

    def _register(self) -> tuple[str, str]:
        """Adds the left side's subscriptions; returns their topic's source, and the topic."""
        builder = self._builder
        topic = self._named("SUBSCRIPTION-REGISTRATION-", "-subscription-registration") + "-topic"
        ask = self._named("SUBSCRIPTION-REGISTRATION-", "-subscription-registration-processor")
        subscribe = partial(
            SubscriptionSendProcessor,
            self._foreign_key,
            self._other_key,
            self._value,
            topic=topic,
            left_join=self._left_join,
        )
        builder.processor(ask, subscribe, [self._one.node])
        sink = self._plain("KTABLE-SINK-", "-subscription-registration-sink")
        source = self._plain("KTABLE-SOURCE-", "-subscription-registration-source")
        serde = SubscriptionWrapperSerde(self._key)
        builder.add(
            RepartitionNode(source, sink, topic, self._other_key, serde, [ask], explicit=True)
        )
        builder.graph.copartitioned.append(self._two.sources | {source})
        return source, topic

    def _answer(self, source: str, registration: str) -> str:
        """Adds the right side's responses; returns the source of their topic."""
        builder, right = self._builder, self._two.view()
        store = self._named("SUBSCRIPTION-STATE-STORE-", "-subscription-store")
        serde = SubscriptionWrapperSerde(self._key)
        spec = StoreSpec(
            store, StoreKind.TIMESTAMPED_KEY_VALUE, Bytes(), serde, changelog=False, cached=False
        )
        keys = CombinedKeySchema(self._other_key, self._key, registration)
        receive = self._named("SUBSCRIPTION-PROCESSOR-", "-subscription-receive")
        look = self._named("SUBSCRIPTION-PROCESSOR-", "-subscription-join-foreign")
        spread = self._named("SUBSCRIPTION-PROCESSOR-", "-foreign-join-subscription")
        builder.processor(
            receive, partial(SubscriptionReceiveProcessor, store, keys), [source], stores=[spec]
        )
        builder.processor(
            look, partial(SubscriptionJoinProcessor, right), [receive], connected=right.stores
        )
        builder.processor(
            spread,
            partial(ForeignTableJoinProcessor, store, keys),
            [self._two.node],
            connected=[store],
        )
        topic = self._named("SUBSCRIPTION-RESPONSE-", "-subscription-response") + "-topic"
        sink = self._plain("KTABLE-SINK-", "-subscription-response-sink")
        back = self._plain("KTABLE-SOURCE-", "-subscription-response-source")
        response = SubscriptionResponseWrapperSerde(self._other_value)
        builder.add(
            RepartitionNode(
                back,
                sink,
                topic,
                self._key,
                response,
                [look, spread],
                partitioner=response_partition,
                explicit=True,
            )
        )
        builder.graph.copartitioned.append(self._one.sources | {back})
        return back

    def _resolve(
        self, answers: str, topic: str, value: Serde[Any] | None, store: str | None
    ) -> KTable[Any, Any]:
        from ottla.streams.table import KTable

        builder, left = self._builder, self._one.view()
        resolver = self._named(
            "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver"
        )
        resolve = partial(
            ResponseJoinProcessor,
            left,
            self._value,
            self._joiner,
            topic=topic,
            left_join=self._left_join,
        )
        builder.processor(resolver, resolve, [answers], connected=left.stores)
        result = self._named("OUTPUT-", "-result")
        spec = builder.store(f"{FK}OUTPUT-", store, self._key, value)

        def materialize() -> None:
            builder.graph.add_store(spec)
            builder.graph.connect(result, [spec.name])

        operation = KTableSource(spec, materialize)
        builder.processor(result, operation, [resolver])
        if store is not None:
            operation.materialize()
        sources = self._one.sources | {answers}
        return KTable(builder, result, self._key, value, operation, sources=sources, store=store)

    def _named(self, kind: str, suffix: str) -> str:
        return self._plain(FK + kind, suffix)

    def _plain(self, prefix: str, suffix: str) -> str:
        return self._builder.new_name(prefix, None if self._name is None else self._name + suffix)
