"""A table that every task has whole, and what keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.cells import Cells
from ottla.engine.graph import GlobalTable
from ottla.engine.records import AnyRecord, Input, Record
from ottla.engine.stores import AnyStore, TimestampedKeyValueStore
from ottla.streams.building import Builder

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Generic[K, V]):
    """What `Topology.global_table` gives: the right side of joins. `store` names its store."""

    def __init__(self, builder: Builder, store: str, key: Serde[K], value: Serde[V]) -> None:
        self.builder = builder
        self.store = store
        self.key_serde = key
        self.value_serde = value


class GlobalStores:
    """The stores of some global tables; `apply` takes rows of their topics, in order."""

    def __init__(self, tables: Iterable[GlobalTable], open_cells: Callable[[str], Cells]) -> None:
        self.stores: dict[str, AnyStore] = {}
        self._by_topic: dict[str, tuple[GlobalTable, TimestampedKeyValueStore[Any, Any]]] = {}
        for table in tables:
            name = table.store.name
            store = TimestampedKeyValueStore[Any, Any](table.store, open_cells(name), table.topic)
            self.stores[name] = store
            self._by_topic[table.topic] = (table, store)

    @property
    def topics(self) -> list[str]:
        return list(self._by_topic)

    def apply(self, rows: Iterable[Input]) -> None:
        """A row without key is passed over, as in Kafka."""
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
