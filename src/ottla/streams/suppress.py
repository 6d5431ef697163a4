"""Holding back the updates of a table (KIP-328).

counts.suppress(until_window_closes())                     one final result for each window
table.suppress(until_time_limit(seconds=30))               at most one update in so long
table.suppress(until_time_limit(seconds=30, max_records=1000, when_full=EMIT_EARLY))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.serde import Bytes, Serde
from ottla.engine.graph import TopologyError
from ottla.engine.processors import Processor
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.suppression import Suppress, Suppressed, SuppressedView, WhenFull
from ottla.engine.views import TableOperation, View
from ottla.engine.windows import Span, Units, milliseconds

if TYPE_CHECKING:
    from ottla.streams.table import Table

EMIT_EARLY = WhenFull.EMIT_EARLY
SHUT_DOWN = WhenFull.SHUT_DOWN


def until_window_closes(
    *, max_records: int | None = None, max_bytes: int | None = None
) -> Suppressed:
    """The task fails when the buffer is full: a result told early would not be final."""
    return Suppressed(None, max_records, max_bytes, SHUT_DOWN)


def until_time_limit(
    wait: Span = 0,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: WhenFull = EMIT_EARLY,
    **units: Unpack[Units],
) -> Suppressed:
    """Each key's update waits so long after the first one, by stream time."""
    wait_ms = milliseconds(wait, units)
    if wait_ms < 0:
        raise ValueError("The time limit must not be negative.")
    return Suppressed(wait_ms, max_records, max_bytes, when_full)


def suppress(
    table: Table[Any, Any], suppressed: Suppressed, *, name: str | None
) -> Table[Any, Any]:
    from ottla.streams.table import Table

    builder = table.builder
    node = builder.new_name("KTABLE-SUPPRESS-", name)
    store = builder.new_store_name("KTABLE-SUPPRESS-", None if name is None else f"{name}-store")
    key = builder.key_serde(table.key_serde, f"the buffer of {node}")
    operation = SuppressOperation(
        table.operation, suppressed, store, key, builder.inner_value(table.value_serde)
    )
    table.enable_old_values(force=True)
    spec = StoreSpec(store, StoreKind.KEY_VALUE, Bytes(), Bytes(), changelog=False, cached=False)
    builder.processor(node, operation, [table.node], stores=[spec])
    return Table(
        builder, node, table.key_serde, table.value_serde, operation, sources=table.sources
    )


class SuppressOperation(TableOperation):
    def __init__(
        self,
        parent: TableOperation,
        suppressed: Suppressed,
        store: str,
        key: Serde[Any],
        value: Serde[Any],
    ) -> None:
        self.parents = (parent,)
        self._suppressed = suppressed
        self._wait_ms = closing_wait(parent) if suppressed.wait_ms is None else suppressed.wait_ms
        self._store = store
        self._key = key
        self._value = value

    def __call__(self) -> Processor[Any, Any]:
        return Suppress(
            self._suppressed,
            wait_ms=self._wait_ms,
            store=self._store,
            key=self._key,
            value=self._value,
        )

    def enable_old_values(self, *, force: bool) -> bool:
        return self.parents[0].enable_old_values(force=force)

    def view(self) -> View:
        return SuppressedView(self.parents[0].view(), self._store, self._key, self._value)


def closing_wait(operation: TableOperation) -> int:
    """How long after its end a window of this table changes no more; of several the longest."""
    found = _waits(operation)
    if not found:
        raise TopologyError("Window close time is only defined for windowed computations.")
    return max(found)


def _waits(operation: TableOperation) -> list[int]:
    if operation.wait_ms is not None:
        return [operation.wait_ms]
    return [wait for parent in operation.parents for wait in _waits(parent)]
