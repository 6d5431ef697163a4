"""Table: the last value of each key, and what can be done with it. (Kafka: KTable.)

Functions may take (value) or (key, value). An operation keeps a store of its own only if it is
given a name for one: `store=`; without, it is computed from the table above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.stateless import NewValue
from ottla.engine.stores import StoreSpec
from ottla.engine.suppression import Suppressed
from ottla.engine.table_join import INNER, LEFT, OUTER
from ottla.engine.table_steps import (
    FilterTable,
    MapTableValues,
    SelectTableKey,
    TableFrom,
    TransformTableValues,
    ValueTransformer,
)
from ottla.engine.views import TableOperation, View
from ottla.streams.building import Builder
from ottla.streams.grouped import GroupedTable
from ottla.streams.suppress import suppress
from ottla.streams.table_joins import joined

if TYPE_CHECKING:
    from ottla.streams.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")

ByValue = Callable[[V], V2]
ByKeyAndValue = Callable[[K, V], V2]


class Table(Generic[K, V]):
    """`store`: the name under which it can be asked from outside, if it was given one."""

    def __init__(
        self,
        builder: Builder,
        node: str,
        key: Serde[K] | None,
        value: Serde[V] | None,
        operation: TableOperation,
        *,
        sources: frozenset[str],
        store: str | None = None,
    ) -> None:
        self.builder = builder
        self.node = node
        self.key_serde = key
        self.value_serde = value
        self.operation = operation
        self.sources = sources
        self.store = store

    def filter(
        self,
        predicate: ByValue[V, Any] | ByKeyAndValue[K, V, Any],
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """The keys whose value it holds for; the others are deleted, or never come."""
        return self._filtered(predicate, True, store, name)

    def filter_not(
        self,
        predicate: ByValue[V, Any] | ByKeyAndValue[K, V, Any],
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        return self._filtered(predicate, False, store, name)

    def map_values(
        self,
        mapper: ByValue[V, V2] | ByKeyAndValue[K, V, V2],
        *,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]:
        spec = self._spec("KTABLE-MAPVALUES-", store, value)
        operation = MapTableValues(self.operation, mapper, spec)
        return self._derived("KTABLE-MAPVALUES-", name, operation, value)

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer],
        *,
        stores: Sequence[str | StoreSpec] = (),
        value: Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """With state: `supplier()` gives a ValueTransformer for each task."""
        spec = self._spec("KTABLE-TRANSFORMVALUES-", store, value)
        names = [each if isinstance(each, str) else each.name for each in stores]
        operation = TransformTableValues(self.operation, supplier, spec, names)
        prefix = "KTABLE-TRANSFORMVALUES-"
        return self._derived(prefix, name, operation, value, connected=stores, custom=True)

    def to_stream(self, *, name: str | None = None) -> Stream[K, V]:
        """The changes, as records; a deletion has the value None."""
        from ottla.streams.stream import Stream

        node = self.builder.new_name("KTABLE-TOSTREAM-", name)
        self.builder.processor(node, NewValue, [self.node])
        return Stream(self.builder, node, self.key_serde, self.value_serde, sources=self.sources)

    def group_by(
        self,
        selector: ByValue[V, tuple[K2, V2]] | ByKeyAndValue[K, V, tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> GroupedTable[K2, V2]:
        """By the key that `selector` gives together with a value: (key, value)."""
        node = self.builder.new_name("KTABLE-SELECT-", name)
        self.builder.processor(node, lambda: SelectTableKey(selector), [self.node])
        self.enable_old_values(force=True)
        return GroupedTable(self.builder, node, key, value, name=name)

    def join(
        self,
        other: Table[K, V2] | Table[K2, V2],
        joiner: Callable[[V, V2], V3] | Callable[[K, V, V2], V3],
        *,
        foreign_key: ByValue[V, K2] | ByKeyAndValue[K, V, K2] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V3]:
        """By the keys of both; or by the other table's key that lies in this one's values.

        `joiner` takes (left, right) or (key, left, right).
        """
        return joined(
            self, other, joiner, INNER, foreign_key=foreign_key, value=value, store=store, name=name
        )

    def left_join(
        self,
        other: Table[K, V2] | Table[K2, V2],
        joiner: Callable[[V, V2 | None], V3] | Callable[[K, V, V2 | None], V3],
        *,
        foreign_key: ByValue[V, K2 | None] | ByKeyAndValue[K, V, K2 | None] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V3]:
        """All keys of this table; where the other one has nothing, `joiner` is given None."""
        return joined(
            self, other, joiner, LEFT, foreign_key=foreign_key, value=value, store=store, name=name
        )

    def outer_join(
        self,
        other: Table[K, V2],
        joiner: Callable[[V | None, V2 | None], V3] | Callable[[K, V | None, V2 | None], V3],
        *,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V3]:
        """The keys that either table has."""
        return joined(self, other, joiner, OUTER, value=value, store=store, name=name)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> Table[K, V]:
        """Holds updates back: `until_window_closes()`, `until_time_limit(seconds=30)`."""
        return suppress(self, suppressed, name=name)

    # -- for the operations that are built on tables

    def enable_old_values(self, *, force: bool) -> bool:
        """From now on changes come with the value before, if that can be had."""
        return self.operation.enable_old_values(force=force)

    def view(self) -> View:
        """How another node reads it; connect that node with `view.stores`."""
        return self.operation.view()

    def _filtered(
        self, predicate: Callable[..., Any], wanted: bool, store: str | None, name: str | None
    ) -> Table[K, V]:
        spec = self._spec("KTABLE-FILTER-", store, self.value_serde)
        operation = FilterTable(self.operation, predicate, wanted=wanted, store=spec)
        return self._derived("KTABLE-FILTER-", name, operation, self.value_serde)

    def _spec(self, prefix: str, store: str | None, value: Serde[Any] | None) -> StoreSpec | None:
        if store is None:
            return None
        return self.builder.store(prefix, store, self.key_serde, value)

    def _derived(
        self,
        prefix: str,
        name: str | None,
        operation: TableFrom,
        value: Serde[Any] | None,
        *,
        connected: Sequence[str | StoreSpec] = (),
        custom: bool = False,
    ) -> Table[K, Any]:
        builder = self.builder
        node = builder.new_name(prefix, name)
        spec = operation.store
        stores = [] if spec is None else [spec]
        builder.processor(
            node, operation, [self.node], stores=stores, connected=connected, custom=custom
        )
        return Table(
            builder,
            node,
            self.key_serde,
            value,
            operation,
            sources=self.sources,
            store=None if spec is None else spec.name,
        )
