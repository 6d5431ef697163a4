"""How a node reads a table's current value for a key: from the table's store, or by computing it.

A table without a store (a filter of another one) is read through its parent table. (Kafka:
KTableValueGetter.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import ValueAndTimestamp
from ottla.engine.stores import TimestampedKeyValueStore

Getter = Callable[[Any], ValueAndTimestamp[Any] | None]
ValueGetter = Callable[[Any], Any]
BatchGetter = Callable[[Sequence[Any]], list[Any]]


class TableView:
    """`stores` must be connected to the node that opens the view."""

    stores: tuple[str, ...]

    def open(self, context: ProcessorContext) -> Getter:
        raise NotImplementedError

    def open_values(self, context: ProcessorContext) -> ValueGetter:
        """Like `open`, without timestamps."""
        get = self.open(context)

        def value(key: Any) -> Any:
            found = get(key)
            return None if found is None else found.value

        return value

    def open_batch(self, context: ProcessorContext) -> BatchGetter:
        """Like `open_values`, for many keys at once."""
        value = self.open_values(context)
        return lambda keys: [value(key) for key in keys]


class StoreView(TableView):
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def open(self, context: ProcessorContext) -> Getter:
        get: Getter = context.store(self.stores[0]).get
        return get

    def open_values(self, context: ProcessorContext) -> ValueGetter:
        store = context.store(self.stores[0])
        if not isinstance(store, TimestampedKeyValueStore):
            return super().open_values(context)
        return store.value

    def open_batch(self, context: ProcessorContext) -> BatchGetter:
        store = context.store(self.stores[0])
        if not isinstance(store, TimestampedKeyValueStore):
            return super().open_batch(context)
        return store.values


class ComputedView(TableView):
    """Applies `compute(key, parent value)`; it may turn None into a value."""

    def __init__(self, parent: TableView, compute: Callable[[Any, Any], Any]) -> None:
        self.stores = parent.stores
        self._parent = parent
        self._compute = compute

    def open(self, context: ProcessorContext) -> Getter:
        get, compute = self._parent.open(context), self._compute

        def computed(key: Any) -> ValueAndTimestamp[Any] | None:
            found = get(key)
            value = compute(key, None if found is None else found.value)
            if value is None:
                return None
            return ValueAndTimestamp(value, -1 if found is None else found.timestamp)

        return computed


class TableOperation:
    """The operation that produces a table: supplies its processors and its view.

    Kafka's rule for old values: a table sends them only if a node downstream needs them, and it can
    if it has a store or derives from a table that has one. `force` makes a source table materialize
    a store.
    """

    old_values = False
    parents: Sequence[TableOperation] = ()
    """The tables that this one derives from."""
    wait_ms: int | None = None
    """For windowed operations: how long after its end a window can change, by stream time."""

    def __call__(self) -> Processor[Any, Any]:
        raise NotImplementedError

    def enable_old_values(self, *, force: bool) -> bool:
        """True if changes have old values from now on."""
        self.old_values = True
        return True

    def view(self) -> TableView:
        raise NotImplementedError
