"""count, reduce and aggregate, of streams (which only add) and of tables (which also subtract)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.engine.processors import Processor
from ottla.engine.records import AnyRecord
from ottla.engine.stores import StoreSpec
from ottla.engine.table_processors import MaterializedProcessor, log_skipped_record
from ottla.engine.views import StoreView, TableOperation, TableView

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""(key, value, aggregate) -> aggregate"""
Reducer = Callable[[Any, Any], Any]
"""(aggregate, value) -> aggregate"""


class KStreamAggregate(TableOperation):
    """Aggregates a stream. Without initializer (reduce), the first value is the first aggregate."""

    def __init__(
        self, store: StoreSpec, aggregator: Aggregator, initializer: Initializer | None
    ) -> None:
        self.store = store
        self.aggregator = aggregator
        self.initializer = initializer

    def __call__(self) -> Processor[Any, Any]:
        return KStreamAggregateProcessor(self)

    def view(self) -> TableView:
        return StoreView(self.store.name)


class KStreamAggregateProcessor(MaterializedProcessor):
    def __init__(self, operation: KStreamAggregate) -> None:
        super().__init__(operation.store, old_values=operation.old_values)
        self._aggregator = operation.aggregator
        self._initializer = operation.initializer

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if key is None or value is None:
            log_skipped_record(self.context, "null key or value")
            return
        store = self.store
        cell = store.key_bytes(key)
        found = store.read(cell)
        if found is not None:
            before, newest = found
            # An aggregator may modify its argument, so the old value is a second object.
            old = self.before(cell) if self._old_values else before
            if newest > timestamp:
                timestamp = newest
        elif self._initializer is None:
            self.put(record, cell, value, None, timestamp)
            return
        else:
            before = self._initializer()
            # As in Kafka: without a cache, the old value downstream is the initializer's.
            old = None if self._updates.cached else self._initializer()
        self.put(record, cell, self._aggregator(key, value, before), old, timestamp)


class KTableAggregate(TableOperation):
    """Aggregates a grouped table: subtracts the old value, then adds the new one."""

    def __init__(
        self,
        store: StoreSpec,
        *,
        adder: Aggregator,
        subtractor: Aggregator,
        initializer: Initializer | None,
    ) -> None:
        self.store = store
        self.adder = adder
        self.subtractor = subtractor
        self.initializer = initializer

    def __call__(self) -> Processor[Any, Any]:
        return KTableAggregateProcessor(self)

    def view(self) -> TableView:
        return StoreView(self.store.name)


class KTableAggregateProcessor(MaterializedProcessor):
    def __init__(self, operation: KTableAggregate) -> None:
        super().__init__(operation.store, old_values=operation.old_values)
        self._adder = operation.adder
        self._subtractor = operation.subtractor
        self._initializer = operation.initializer

    def process(self, record: AnyRecord) -> None:
        key, change, timestamp = record.key, record.value, record.timestamp
        if key is None:
            raise ValueError(
                f"Record key for KTable aggregate operator of {self.store.name} should not be null."
            )
        cell = self.store.key_bytes(key)
        found = self.store.read(cell)
        now = old = None
        if found is not None:
            now, newest = found
            timestamp = max(timestamp, newest)
            old = self.before(cell) if self._old_values else now
        if change.old is not None and now is not None:
            now = self._subtractor(key, change.old, now)
        if change.new is not None:
            now = self._added(key, change.new, now)
        self.put(record, cell, now, old, timestamp)

    def _added(self, key: Any, value: Any, aggregate: Any) -> Any:
        if aggregate is None:
            if self._initializer is None:
                return value
            aggregate = self._initializer()
        return self._adder(key, value, aggregate)


def count_aggregator(key: Any, value: Any, count: int) -> int:
    return count + 1


def count_subtractor(key: Any, value: Any, count: int) -> int:
    return count - 1


def count_initializer() -> int:
    return 0


def reduce_aggregator(reducer: Reducer) -> Aggregator:
    return lambda key, value, aggregate: reducer(aggregate, value)
