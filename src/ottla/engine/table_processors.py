"""The operations of tables: each TableOperation comes with its Processor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.engine.arity import with_key
from ottla.engine.processors import Deliver, Processor, ProcessorContext
from ottla.engine.record_batch import BatchError, DeliverBatch, RecordBatch, to_nobody
from ottla.engine.records import AnyRecord, Change, Record
from ottla.engine.stores import StoreSpec, TimestampedKeyValueStore
from ottla.engine.tuple_forwarder import TimestampedTupleForwarder
from ottla.engine.views import ComputedView, StoreView, TableOperation, TableView

LOG: Final = logging.getLogger(__name__)


def log_skipped_record(context: ProcessorContext, why: str) -> None:
    LOG.warning("Skipping record due to %s. %s", why, context.record_metadata)


class MaterializedProcessor(Processor[Any, Any]):
    """A node that writes its changes to a store, if it has one, and forwards them."""

    def __init__(self, store: StoreSpec | None, *, old_values: bool) -> None:
        self._spec = store
        self._old_values = old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._downstream = context.downstream
        spec = self._spec
        if spec is None:
            return
        self.store: TimestampedKeyValueStore[Any, Any] = context.store(spec.name)
        self._updates = TimestampedTupleForwarder(
            context, cached=spec.cached, old_values=self._old_values
        )
        # A cache drops an update from null to null, so it needs the old value.
        self._wants_old = self._old_values or self._updates.cached

    def put(self, record: AnyRecord, cell: bytes, new: Any, old: Any, timestamp: int) -> None:
        """`cell`: the serialized key."""
        self.store.write(cell, new, timestamp)
        if new is None and self._updates.cached:
            timestamp = record.timestamp  # a deleted value has no stored timestamp
        self._updates.forward(record.key, new, old, timestamp, record.headers, same=cell)

    def before(self, cell: bytes) -> Any:
        """The stored value if a node downstream needs the old value, else None."""
        found = self.store.read(cell) if self._wants_old else None
        return None if found is None else found[0]


class KTableSource(TableOperation):
    """A topic read as a table; `materialize` adds its store when an operation needs one."""

    def __init__(self, store: StoreSpec, materialize: Callable[[], None]) -> None:
        self.store = store
        self.materialized = False
        self._materialize = materialize

    def materialize(self) -> None:
        if not self.materialized:
            self.materialized = True
            self._materialize()

    def __call__(self) -> Processor[Any, Any]:
        return KTableSourceProcessor(
            self.store if self.materialized else None, old_values=self.old_values
        )

    def enable_old_values(self, *, force: bool) -> bool:
        if not force and not self.materialized:
            return False
        self.materialize()
        self.old_values = True
        return True

    def view(self) -> TableView:
        self.materialize()
        return StoreView(self.store.name)

    def __getstate__(self) -> dict[str, Any]:
        """`_materialize` refers to the whole topology, which must not travel to the workers."""
        return self.__dict__ | {"_materialize": None}


class KTableSourceProcessor(MaterializedProcessor):
    def process(self, record: AnyRecord) -> None:
        key = record.key
        if key is None:
            log_skipped_record(self.context, "null key")
        elif self._spec is None:
            change = Change(record.value, None)
            self._downstream(Record(key, change, record.timestamp, record.headers))
        else:
            cell = self.store.key_bytes(key)
            self.put(record, cell, record.value, self.before(cell), record.timestamp)

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        """Only for a table that others look up, and that forwards its changes to nobody."""
        if self._spec is None or downstream is not to_nobody:
            return None

        def write(batch: RecordBatch) -> None:
            if None in batch.keys:
                raise BatchError
            self.store.write_all(batch.keys, batch.values, batch.timestamps)

        return write


class DerivedTable(TableOperation):
    """A table computed from another one key by key; it has a store only if the user named one."""

    def __init__(self, parent: TableOperation, store: StoreSpec | None) -> None:
        self.parent = parent
        self.parents = (parent,)
        self.store = store

    def compute(self, key: Any, value: Any) -> Any:
        raise NotImplementedError

    def enable_old_values(self, *, force: bool) -> bool:
        if self.store is not None or self.parent.enable_old_values(force=force):
            self.old_values = True
        return self.old_values

    def view(self) -> TableView:
        if self.store is not None:
            return StoreView(self.store.name)
        return ComputedView(self.parent.view(), self.compute)


class KTableFilter(DerivedTable):
    def __init__(
        self,
        parent: TableOperation,
        predicate: Callable[..., Any],
        *,
        wanted: bool,
        store: StoreSpec | None,
    ) -> None:
        super().__init__(parent, store)
        self._predicate = with_key(predicate)
        self._wanted = wanted
        self.old_values = parent.enable_old_values(force=False)

    def compute(self, key: Any, value: Any) -> Any:
        if value is not None and bool(self._predicate(key, value)) is self._wanted:
            return value
        return None

    def __call__(self) -> Processor[Any, Any]:
        return DerivedTableProcessor(self, self.store, old_values=self.old_values, silent=True)


class KTableMapValues(DerivedTable):
    def __init__(
        self, parent: TableOperation, mapper: Callable[..., Any], store: StoreSpec | None
    ) -> None:
        super().__init__(parent, store)
        self._mapper = with_key(mapper)

    def compute(self, key: Any, value: Any) -> Any:
        return None if value is None else self._mapper(key, value)

    def __call__(self) -> Processor[Any, Any]:
        return DerivedTableProcessor(self, self.store, old_values=self.old_values, silent=False)


class DerivedTableProcessor(MaterializedProcessor):
    """`silent`: forwards no change from null to null."""

    def __init__(
        self, operation: DerivedTable, store: StoreSpec | None, *, old_values: bool, silent: bool
    ) -> None:
        super().__init__(store, old_values=old_values)
        self._compute = operation.compute
        self._silent = silent and old_values

    def process(self, record: AnyRecord) -> None:
        key, change = record.key, record.value
        new = self._compute(key, change.new)
        if self._spec is None:
            old = self._compute(key, change.old) if self._old_values else None
            if not (self._silent and old is None and new is None):
                self._downstream(Record(key, Change(new, old), record.timestamp, record.headers))
            return
        cell = self.store.key_bytes(key)
        old = self.before(cell)
        if not (self._silent and old is None and new is None):
            self.put(record, cell, new, old, record.timestamp)


class ValueTransformer:
    """Computes a new value from key, value and stores, for `transform_values`."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Called when the task closes."""


class KTableTransformValues(DerivedTable):
    def __init__(
        self,
        parent: TableOperation,
        supplier: Callable[[], ValueTransformer],
        store: StoreSpec | None,
        more_stores: Sequence[str] = (),
    ) -> None:
        super().__init__(parent, store)
        self._supplier = supplier
        self._more_stores = tuple(more_stores)

    def __call__(self) -> Processor[Any, Any]:
        return KTableTransformValuesProcessor(
            self._supplier(), self.store, old_values=self.old_values
        )

    def view(self) -> TableView:
        if self.store is not None:
            return StoreView(self.store.name)
        return KTableTransformValuesView(self.parent.view(), self._supplier, self._more_stores)


class KTableTransformValuesView(TableView):
    def __init__(
        self,
        parent: TableView,
        supplier: Callable[[], ValueTransformer],
        more_stores: tuple[str, ...],
    ) -> None:
        self.stores = (*parent.stores, *more_stores)
        self._parent = parent
        self._supplier = supplier

    def open(self, context: ProcessorContext) -> Callable[[Any], Any]:
        transformer = self._supplier()
        transformer.init(context.limited(_no_forward))
        return ComputedView(self._parent, transformer.transform).open(context)


class KTableTransformValuesProcessor(MaterializedProcessor):
    def __init__(
        self, transformer: ValueTransformer, store: StoreSpec | None, *, old_values: bool
    ) -> None:
        super().__init__(store, old_values=old_values)
        self._transformer = transformer

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._transformer.init(context.limited(_no_forward))

    def process(self, record: AnyRecord) -> None:
        key, change = record.key, record.value
        transform = self._transformer.transform
        new = transform(key, change.new)
        if self._spec is not None:
            cell = self.store.key_bytes(key)
            self.put(record, cell, new, self.before(cell), record.timestamp)
            return
        old = transform(key, change.old) if self._old_values else None
        self._downstream(Record(key, Change(new, old), record.timestamp, record.headers))

    def close(self) -> None:
        self._transformer.close()


def _no_forward(record: AnyRecord, child: str | None = None) -> None:
    raise RuntimeError("transform_values must not call forward: return the value instead")


class KTableRepartitionMap(Processor[Any, Any]):
    """Removes the old value from its group and adds the new value to its group."""

    def __init__(self, selector: Callable[..., Any]) -> None:
        self._selector = with_key(selector)

    def step(self, downstream: Deliver) -> Deliver:
        selector = self._selector

        def pair(key: Any, value: Any) -> tuple[Any, Any] | None:
            found: tuple[Any, Any] | None = None if value is None else selector(key, value)
            return None if found is None or found[0] is None or found[1] is None else found

        def moved(record: AnyRecord) -> None:
            if record.key is None:
                raise ValueError("Record key for the grouping KTable should not be null.")
            new, old = (pair(record.key, value) for value in record.value)
            timestamp, headers = record.timestamp, record.headers
            if old is not None and new is not None and old[0] == new[0]:
                downstream(Record(old[0], Change(new[1], old[1]), timestamp, headers))
                return
            if old is not None:
                downstream(Record(old[0], Change(None, old[1]), timestamp, headers))
            if new is not None:
                downstream(Record(new[0], Change(new[1], None), timestamp, headers))

        return moved
