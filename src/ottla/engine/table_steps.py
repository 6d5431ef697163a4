"""The operations of tables. Each is a TableOperation, with its Processor beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.engine.calls import with_key
from ottla.engine.processors import Context, Deliver, Processor
from ottla.engine.records import AnyRecord, Change, Record
from ottla.engine.stores import StoreSpec, TimestampedKeyValueStore
from ottla.engine.updates import Updates
from ottla.engine.views import ComputedView, StoreView, TableOperation, View

LOG: Final = logging.getLogger(__name__)


def skipped(context: Context, why: str) -> None:
    LOG.warning("Skipping record due to %s. %s", why, context.record_metadata)


class Stored(Processor[Any, Any]):
    """A node whose changes go into a store, and from there on."""

    def __init__(self, store: StoreSpec | None, *, old_values: bool) -> None:
        self._spec = store
        self._old_values = old_values

    def init(self, context: Context) -> None:
        super().init(context)
        self._downstream = context.downstream
        spec = self._spec
        if spec is None:
            return
        self.store: TimestampedKeyValueStore[Any, Any] = context.store(spec.name)
        self._updates = Updates(context, cached=spec.cached, old_values=self._old_values)
        # A cache says nothing of what was not there before and is not there now.
        self._wants_old = self._old_values or self._updates.cached

    def put(self, record: AnyRecord, cell: bytes, new: Any, old: Any, timestamp: int) -> None:
        """`cell`: the bytes of the key."""
        self.store.write(cell, new, timestamp)
        if new is None and self._updates.cached:
            timestamp = record.timestamp  # nothing is kept that would have another one
        self._updates.forward(record.key, new, old, timestamp, record.headers, same=cell)

    def before(self, cell: bytes) -> Any:
        """The value that is kept now; asked for where somebody wants to know the old one."""
        found = self.store.read(cell) if self._wants_old else None
        return None if found is None else found[0]


class SourceTable(TableOperation):
    """A topic, read as a table; `materialize` gives it its store, once somebody needs one."""

    def __init__(self, store: StoreSpec, materialize: Callable[[], None]) -> None:
        self.store = store
        self.materialized = False
        self._materialize = materialize

    def materialize(self) -> None:
        if not self.materialized:
            self.materialized = True
            self._materialize()

    def __call__(self) -> Processor[Any, Any]:
        return SourceStep(self.store if self.materialized else None, old_values=self.old_values)

    def enable_old_values(self, *, force: bool) -> bool:
        if not force and not self.materialized:
            return False
        self.materialize()
        self.old_values = True
        return True

    def view(self) -> View:
        self.materialize()
        return StoreView(self.store.name)

    def __getstate__(self) -> dict[str, Any]:
        """Built is built: on its way to a worker it leaves the topology behind."""
        return self.__dict__ | {"_materialize": None}


class SourceStep(Stored):
    def process(self, record: AnyRecord) -> None:
        key = record.key
        if key is None:
            skipped(self.context, "null key")
        elif self._spec is None:
            change = Change(record.value, None)
            self._downstream(Record(key, change, record.timestamp, record.headers))
        else:
            cell = self.store.key_bytes(key)
            self.put(record, cell, record.value, self.before(cell), record.timestamp)


class TableFrom(TableOperation):
    """A table made of another one, key by key; with a store of its own only if it was asked for."""

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

    def view(self) -> View:
        if self.store is not None:
            return StoreView(self.store.name)
        return ComputedView(self.parent.view(), self.compute)


class FilterTable(TableFrom):
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
        return ComputedStep(self, self.store, old_values=self.old_values, silent=True)


class MapTableValues(TableFrom):
    def __init__(
        self, parent: TableOperation, mapper: Callable[..., Any], store: StoreSpec | None
    ) -> None:
        super().__init__(parent, store)
        self._mapper = with_key(mapper)

    def compute(self, key: Any, value: Any) -> Any:
        return None if value is None else self._mapper(key, value)

    def __call__(self) -> Processor[Any, Any]:
        return ComputedStep(self, self.store, old_values=self.old_values, silent=False)


class ComputedStep(Stored):
    """`silent`: says nothing where there was no value, and is none."""

    def __init__(
        self, operation: TableFrom, store: StoreSpec | None, *, old_values: bool, silent: bool
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
    """What `transform_values` runs for each key: a new value, from key and value and stores."""

    context: Context

    def init(self, context: Context) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Called when its task ends."""


class TransformTableValues(TableFrom):
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
        return TransformStep(self._supplier(), self.store, old_values=self.old_values)

    def view(self) -> View:
        if self.store is not None:
            return StoreView(self.store.name)
        return TransformView(self.parent.view(), self._supplier, self._more_stores)


class TransformView(View):
    def __init__(
        self,
        parent: View,
        supplier: Callable[[], ValueTransformer],
        more_stores: tuple[str, ...],
    ) -> None:
        self.stores = (*parent.stores, *more_stores)
        self._parent = parent
        self._supplier = supplier

    def open(self, context: Context) -> Callable[[Any], Any]:
        transformer = self._supplier()
        transformer.init(context.limited(_no_forward))
        return ComputedView(self._parent, transformer.transform).open(context)


class TransformStep(Stored):
    def __init__(
        self, transformer: ValueTransformer, store: StoreSpec | None, *, old_values: bool
    ) -> None:
        super().__init__(store, old_values=old_values)
        self._transformer = transformer

    def init(self, context: Context) -> None:
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
    raise RuntimeError("transform_values can't forward: return the value instead")


class SelectTableKey(Processor[Any, Any]):
    """Takes the old value from the group that it was in, and puts the new one in its own."""

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
            new, old = (pair(record.key, each) for each in record.value)
            timestamp, headers = record.timestamp, record.headers
            if old is not None and new is not None and old[0] == new[0]:
                downstream(Record(old[0], Change(new[1], old[1]), timestamp, headers))
                return
            if old is not None:
                downstream(Record(old[0], Change(None, old[1]), timestamp, headers))
            if new is not None:
                downstream(Record(new[0], Change(new[1], None), timestamp, headers))

        return moved
