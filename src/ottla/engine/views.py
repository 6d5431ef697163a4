"""How one node reads the value that a table has for a key now: from its store, or by computing it.

A table that keeps nothing of its own (a filter of another one) is read through the table above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.engine.processors import Context, Processor
from ottla.engine.records import ValueAndTimestamp
from ottla.engine.stores import TimestampedKeyValueStore

Getter = Callable[[Any], ValueAndTimestamp[Any] | None]
ValueGetter = Callable[[Any], Any]


class View:
    """`stores` must be connected to whoever opens it."""

    stores: tuple[str, ...]

    def open(self, context: Context) -> Getter:
        raise NotImplementedError

    def open_values(self, context: Context) -> ValueGetter:
        """The same, for who does not ask when it was."""
        get = self.open(context)

        def value(key: Any) -> Any:
            found = get(key)
            return None if found is None else found.value

        return value


class StoreView(View):
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def open(self, context: Context) -> Getter:
        get: Getter = context.store(self.stores[0]).get
        return get

    def open_values(self, context: Context) -> ValueGetter:
        store = context.store(self.stores[0])
        if not isinstance(store, TimestampedKeyValueStore):
            return super().open_values(context)
        return store.value


class ComputedView(View):
    """`compute(key, what the parent has)`; what is None there may be something here."""

    def __init__(self, parent: View, compute: Callable[[Any, Any], Any]) -> None:
        self.stores = parent.stores
        self._parent = parent
        self._compute = compute

    def open(self, context: Context) -> Getter:
        get, compute = self._parent.open(context), self._compute

        def computed(key: Any) -> ValueAndTimestamp[Any] | None:
            found = get(key)
            value = compute(key, None if found is None else found.value)
            if value is None:
                return None
            return ValueAndTimestamp(value, -1 if found is None else found.timestamp)

        return computed


class TableOperation:
    """What makes a table: gives the processors, and says how the table can be read.

    Kafka's rule for old values: they are sent only where somebody below asked for them, and a
    table that has a store, or is made of one that has, can be asked. `force` makes a source table
    keep one.
    """

    old_values = False
    parents: Sequence[TableOperation] = ()
    """The tables that this one is made of."""
    wait_ms: int | None = None
    """How long after a window's end it changes no more, by stream time; where windows are made."""

    def __call__(self) -> Processor[Any, Any]:
        raise NotImplementedError

    def enable_old_values(self, *, force: bool) -> bool:
        """True if old values come from now on."""
        self.old_values = True
        return True

    def view(self) -> View:
        raise NotImplementedError
