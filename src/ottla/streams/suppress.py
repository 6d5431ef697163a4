"""Suppresses updates of a table (KIP-328).

counts.suppress(until_window_closes())                     one final result per window
table.suppress(until_time_limit(seconds=30))               at most one update per key in 30 s
table.suppress(until_time_limit(seconds=30, max_records=1000, when_full=EMIT_EARLY))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.serde import Bytes, Serde
from ottla.engine.graph import TopologyError
from ottla.engine.processors import Processor
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.suppression import (
    BufferFullStrategy,
    KTableSuppressProcessor,
    Suppressed,
    SuppressedView,
)
from ottla.engine.views import TableOperation, TableView
from ottla.engine.windows import Span, Units, milliseconds

if TYPE_CHECKING:
    from ottla.streams.table import KTable

EMIT_EARLY = BufferFullStrategy.EMIT_EARLY
SHUT_DOWN = BufferFullStrategy.SHUT_DOWN


def until_window_closes(
    *, max_records: int | None = None, max_bytes: int | None = None
) -> Suppressed:
    """The task fails when the buffer is full, because an early result would not be final."""
    return Suppressed(None, max_records, max_bytes, SHUT_DOWN)


def until_time_limit(
    wait: Span = 0,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: BufferFullStrategy = EMIT_EARLY,
    **units: Unpack[Units],
) -> Suppressed:
    """Emits a key's last update this long after its first, by stream time."""
    wait_ms = milliseconds(wait, units)
    if wait_ms < 0:
        raise ValueError("The time limit must not be negative.")
    return Suppressed(wait_ms, max_records, max_bytes, when_full)


def suppress(
    table: KTable[Any, Any], suppressed: Suppressed, *, name: str | None
) -> KTable[Any, Any]:
    from ottla.streams.table import KTable

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
    return KTable(
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
        return KTableSuppressProcessor(
            self._suppressed,
            wait_ms=self._wait_ms,
            store=self._store,
            key=self._key,
            value=self._value,
        )

    def enable_old_values(self, *, force: bool) -> bool:
        return self.parents[0].enable_old_values(force=force)

    def view(self) -> TableView:
        return SuppressedView(self.parents[0].view(), self._store, self._key, self._value)


def closing_wait(operation: TableOperation) -> int:
    """How long after its end a window of this table can change: the longest of its parents'."""
    found = _waits(operation)
    if not found:
        raise TopologyError("Window close time is only defined for windowed computations.")
    return max(found)


def _waits(operation: TableOperation) -> list[int]:
    if operation.wait_ms is not None:
        return [operation.wait_ms]
    return [wait for parent in operation.parents for wait in _waits(parent)]
