"""KTable: the last value of each key, and its operations.

Functions may take (value) or (key, value). The result of an operation has a store only if `store=`
names one; otherwise it is computed from its parent table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.stateless import KTableToStream
from ottla.engine.stores import StoreSpec
from ottla.engine.suppression import Suppressed
from ottla.engine.table_join import INNER, LEFT, OUTER
from ottla.engine.table_processors import (
    DerivedTable,
    KTableFilter,
    KTableMapValues,
    KTableRepartitionMap,
    KTableTransformValues,
    ValueTransformer,
)
from ottla.engine.views import TableOperation, TableView
from ottla.streams.grouped import KGroupedTable
from ottla.streams.internal_streams_builder import InternalStreamsBuilder
from ottla.streams.suppress import suppress
from ottla.streams.table_joins import join_tables

if TYPE_CHECKING:
    from ottla.streams.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")

ByValue = Callable[[V], V2]
ByKeyAndValue = Callable[[K, V], V2]


class KTable(Generic[K, V]):
    """`store`: the name for interactive queries, if it has one."""

    def __init__(
        self,
        builder: InternalStreamsBuilder,
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
    ) -> KTable[K, V]:
        """The keys for whose value the predicate holds; the others are deleted or never appear."""
        return self._filtered(predicate, True, store, name)

    def filter_not(
        self,
        predicate: ByValue[V, Any] | ByKeyAndValue[K, V, Any],
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        return self._filtered(predicate, False, store, name)

    def map_values(
        self,
        mapper: ByValue[V, V2] | ByKeyAndValue[K, V, V2],
        *,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        spec = self._spec("KTABLE-MAPVALUES-", store, value)
        operation = KTableMapValues(self.operation, mapper, spec)
        return self._derived("KTABLE-MAPVALUES-", name, operation, value)

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer],
        *,
        stores: Sequence[str | StoreSpec] = (),
        value: Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Stateful: `supplier()` returns a ValueTransformer for each task."""
        spec = self._spec("KTABLE-TRANSFORMVALUES-", store, value)
        names = [
            connected if isinstance(connected, str) else connected.name for connected in stores
        ]
        operation = KTableTransformValues(self.operation, supplier, spec, names)
        prefix = "KTABLE-TRANSFORMVALUES-"
        return self._derived(prefix, name, operation, value, connected=stores, custom=True)

    def to_stream(self, *, name: str | None = None) -> KStream[K, V]:
        """The changes, as records; a deletion has the value None."""
        from ottla.streams.stream import KStream

        node = self.builder.new_name("KTABLE-TOSTREAM-", name)
        self.builder.processor(node, KTableToStream, [self.node])
        return KStream(self.builder, node, self.key_serde, self.value_serde, sources=self.sources)

    def group_by(
        self,
        selector: ByValue[V, tuple[K2, V2]] | ByKeyAndValue[K, V, tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Groups by the (key, value) that `selector` returns."""
        node = self.builder.new_name("KTABLE-SELECT-", name)
        self.builder.processor(node, lambda: KTableRepartitionMap(selector), [self.node])
        self.enable_old_values(force=True)
        return KGroupedTable(self.builder, node, key, value, name=name)

    def join(
        self,
        other: KTable[K, V2] | KTable[K2, V2],
        joiner: Callable[[V, V2], V3] | Callable[[K, V, V2], V3],
        *,
        foreign_key: ByValue[V, K2] | ByKeyAndValue[K, V, K2] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V3]:
        """Joins by the keys of both, or by a foreign key in this table's values.

        `joiner` takes (left, right) or (key, left, right).
        """
        return join_tables(
            self, other, joiner, INNER, foreign_key=foreign_key, value=value, store=store, name=name
        )

    def left_join(
        self,
        other: KTable[K, V2] | KTable[K2, V2],
        joiner: Callable[[V, V2 | None], V3] | Callable[[K, V, V2 | None], V3],
        *,
        foreign_key: ByValue[V, K2 | None] | ByKeyAndValue[K, V, K2 | None] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V3]:
        """All keys of this table; `joiner` takes None where the other one has no value."""
        return join_tables(
            self, other, joiner, LEFT, foreign_key=foreign_key, value=value, store=store, name=name
        )

    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], V3] | Callable[[K, V | None, V2 | None], V3],
        *,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V3]:
        """The keys of either table."""
        return join_tables(self, other, joiner, OUTER, value=value, store=store, name=name)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Suppresses updates: `until_window_closes()`, `until_time_limit(seconds=30)`."""
        return suppress(self, suppressed, name=name)

    # -- for the operations that are built on tables

    def enable_old_values(self, *, force: bool) -> bool:
        """Makes changes carry their old values, if the table can."""
        return self.operation.enable_old_values(force=force)

    def view(self) -> TableView:
        """How another node reads the table; that node must be connected to `view.stores`."""
        return self.operation.view()

    def _filtered(
        self, predicate: Callable[..., Any], wanted: bool, store: str | None, name: str | None
    ) -> KTable[K, V]:
        spec = self._spec("KTABLE-FILTER-", store, self.value_serde)
        operation = KTableFilter(self.operation, predicate, wanted=wanted, store=spec)
        return self._derived("KTABLE-FILTER-", name, operation, self.value_serde)

    def _spec(self, prefix: str, store: str | None, value: Serde[Any] | None) -> StoreSpec | None:
        if store is None:
            return None
        return self.builder.store(prefix, store, self.key_serde, value)

    def _derived(
        self,
        prefix: str,
        name: str | None,
        operation: DerivedTable,
        value: Serde[Any] | None,
        *,
        connected: Sequence[str | StoreSpec] = (),
        custom: bool = False,
    ) -> KTable[K, Any]:
        builder = self.builder
        node = builder.new_name(prefix, name)
        spec = operation.store
        stores = [] if spec is None else [spec]
        builder.processor(
            node, operation, [self.node], stores=stores, connected=connected, custom=custom
        )
        return KTable(
            builder,
            node,
            self.key_serde,
            value,
            operation,
            sources=self.sources,
            store=None if spec is None else spec.name,
        )
