"""Suppresses a table's updates until their window closes, or for a time limit (KIP-328).

The buffer has the last update of each key, ordered by the time of the key's first update (or by the
window's end). A store has one cell for each key; the order is in memory only, and one scan builds
it when the task starts.

An emitted change has the previously emitted value as its old value. (Kafka sends the old value of
the last suppressed update, which nothing downstream has seen.)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from ottla.client.serde import Serde
from ottla.engine.failures import StreamsError
from ottla.engine.observed_stream_time import ObservedStreamTime
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import Change, Headers, Record, ValueAndTimestamp
from ottla.engine.segments import TIME_MAX
from ottla.engine.stores import KeyValueStore
from ottla.engine.views import Getter, TableView

# Kafka's overhead of a buffered record: buffer time, timestamp, offset, partition.
RECORD_BYTES = 8 + 8 + 8 + 4


class BufferFullStrategy(Enum):
    EMIT_EARLY = "emit early"
    SHUT_DOWN = "shut down"


@dataclass(frozen=True, slots=True)
class Suppressed:
    """`wait_ms` None: until the window closes, at a time that the table knows."""

    wait_ms: int | None
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: BufferFullStrategy = BufferFullStrategy.SHUT_DOWN


class BufferValue(NamedTuple):
    """The last update of a key, with serialized values."""

    time_ms: int
    prior: bytes | None
    new: bytes | None
    timestamp: int
    headers: Headers

    def size(self, key: bytes) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        values = len(self.prior or b"") + len(self.new or b"")
        return RECORD_BYTES + len(key) + values + headers


class KTableSuppressProcessor(Processor[Any, Change[Any]]):
    def __init__(
        self,
        suppressed: Suppressed,
        *,
        wait_ms: int,
        store: str,
        key: Serde[Any],
        value: Serde[Any],
    ) -> None:
        self._by_window = suppressed.wait_ms is None
        self._wait_ms = wait_ms
        self._max_records = TIME_MAX if suppressed.max_records is None else suppressed.max_records
        self._max_bytes = TIME_MAX if suppressed.max_bytes is None else suppressed.max_bytes
        self._when_full = suppressed.when_full
        self._store_name = store
        self._key = key
        self._value = value

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._observed = ObservedStreamTime(context)
        self._key = context.serdes.key(self._key)
        self._value = context.serdes.value(self._value)
        store = context.store(self._store_name)
        self._topic: str = store.topic
        self._buffer = SuppressionBuffer(store)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        now_ms = self._observed.at(record.timestamp)
        self._buffer_update(record)
        expired_ms = now_ms - self._wait_ms
        while self._buffer.min_ms <= expired_ms:
            self._evict()
        if self._is_full():
            if self._when_full is BufferFullStrategy.SHUT_DOWN:
                raise StreamsError(
                    f"{self.context.node} buffer exceeded its max capacity. Currently "
                    f"[{len(self._buffer)}/{self._max_records}] records and "
                    f"[{self._buffer.size}/{self._max_bytes}] bytes."
                )
            while self._is_full():
                self._evict()

    def _buffer_update(self, record: Record[Any, Change[Any]]) -> None:
        key = self._key.serialize(self._topic, record.key) or b""
        time_ms = record.key.window.end if self._by_window else record.timestamp
        new, old = (self._bytes(value) for value in record.value)
        self._buffer.put(key, BufferValue(time_ms, old, new, record.timestamp, record.headers))

    def _evict(self) -> None:
        key, held = self._buffer.pop()
        # A window that was deleted before it closed was never emitted, so it needs no tombstone.
        if held.new is None and self._by_window:
            return
        change = Change(self._read(held.new), self._read(held.prior))
        name = self._key.deserialize(self._topic, key)
        self.context.forward(Record(name, change, held.timestamp, held.headers))

    def _is_full(self) -> bool:
        return len(self._buffer) > self._max_records or self._buffer.size > self._max_bytes

    def _bytes(self, value: Any) -> bytes | None:
        return None if value is None else self._value.serialize(self._topic, value)

    def _read(self, data: bytes | None) -> Any:
        return None if data is None else self._value.deserialize(self._topic, data)


class SuppressionBuffer:
    def __init__(self, store: KeyValueStore[bytes, bytes]) -> None:
        self._store = store
        self._held: dict[bytes, BufferValue] = {key: unpacked(data) for key, data in store.all()}
        self._order = [(held.time_ms, key) for key, held in self._held.items()]
        heapify(self._order)
        self.size = sum(held.size(key) for key, held in self._held.items())

    def __len__(self) -> int:
        return len(self._held)

    @property
    def min_ms(self) -> int:
        return self._order[0][0] if self._order else TIME_MAX

    def put(self, key: bytes, held: BufferValue) -> None:
        """An update of a buffered key keeps its place in the order and the prior emitted value."""
        present = self._held.get(key)
        if present is None:
            heappush(self._order, (held.time_ms, key))
        else:
            held = held._replace(time_ms=present.time_ms, prior=present.prior)
            self.size -= present.size(key)
        self.size += held.size(key)
        self._held[key] = held
        self._store.put(key, pickle.dumps(tuple(held), protocol=5))

    def pop(self) -> tuple[bytes, BufferValue]:
        _, key = heappop(self._order)
        held = self._held.pop(key)
        self.size -= held.size(key)
        self._store.put(key, None)
        return key, held


def unpacked(data: bytes) -> BufferValue:
    return BufferValue(*pickle.loads(data))


class SuppressedView(TableView):
    """Suppressed updates are invisible: a buffered key still has its prior value."""

    def __init__(self, parent: TableView, store: str, key: Serde[Any], value: Serde[Any]) -> None:
        self.stores = (store, *parent.stores)
        self._parent = parent
        self._key = key
        self._value = value

    def open(self, context: ProcessorContext) -> Getter:
        store: KeyValueStore[bytes, bytes] = context.store(self.stores[0])
        topic = store.topic
        below: Callable[[Any], ValueAndTimestamp[Any] | None] = self._parent.open(context)
        write_key = context.serdes.key(self._key).serialize
        read = context.serdes.value(self._value).deserialize

        def get(key: Any) -> ValueAndTimestamp[Any] | None:
            data = store.get(write_key(topic, key) or b"")
            if data is None:
                return below(key)
            prior = unpacked(data).prior
            value = None if prior is None else read(topic, prior)
            return None if value is None else ValueAndTimestamp(value, -1)

        return get
