"""Global tables, of which every task sees all partitions, and their stores in a test driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.cells import Cells
from ottla.engine.graph import GlobalTableNode
from ottla.engine.records import AnyRecord, InputRow, Record
from ottla.engine.stores import StateStore, TimestampedKeyValueStore
from ottla.streams.internal_streams_builder import InternalStreamsBuilder

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Generic[K, V]):
    """The result of `Topology.global_table`: the right side of joins. `store` is its name."""

    def __init__(
        self, builder: InternalStreamsBuilder, store: str, key: Serde[K], value: Serde[V]
    ) -> None:
        self.builder = builder
        self.store = store
        self.key_serde = key
        self.value_serde = value


class GlobalStores:
    """The stores of global tables; `apply` takes the rows of their topics, in order."""

    def __init__(
        self, tables: Iterable[GlobalTableNode], open_cells: Callable[[str], Cells]
    ) -> None:
        self.stores: dict[str, StateStore] = {}
        self._by_topic: dict[str, tuple[GlobalTableNode, TimestampedKeyValueStore[Any, Any]]] = {}
        for table in tables:
            name = table.store.name
            store = TimestampedKeyValueStore[Any, Any](table.store, open_cells(name), table.topic)
            self.stores[name] = store
            self._by_topic[table.topic] = (table, store)

    @property
    def topics(self) -> list[str]:
        return list(self._by_topic)

    def apply(self, rows: Iterable[InputRow]) -> None:
        """Skips rows with a null key, as Kafka does."""
        for row in rows:
            table, store = self._by_topic[row.topic]
            key = table.key.deserialize_with_headers(row.topic, row.headers, row.key)
            if key is None:
                continue
            value = table.value.deserialize_with_headers(row.topic, row.headers, row.value)
            timestamp = row.timestamp
            if table.extractor is not None:
                record: AnyRecord = Record(key, value, timestamp, row.headers)
                timestamp = table.extractor(record, -1)
            store.put_value(key, value, timestamp)
