"""A join of a stream with a table: each record looks up the table's current value.

The table's changes emit no results. A record with a null value is dropped; so is one with a null
key, except in a left join (KIP-962).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.engine.observed_stream_time import drop_null
from ottla.engine.processors import Deliver, ProcessorContext
from ottla.engine.record_batch import BatchError, DeliverBatch, RecordBatch
from ottla.engine.records import AnyRecord, Record
from ottla.engine.stateless import StatelessProcessor
from ottla.engine.views import TableView


class KStreamKTableJoin(StatelessProcessor):
    """`on(key, value)` returns the key to look up; None: the record's own key."""

    def __init__(
        self,
        view: TableView,
        joiner: Callable[[Any, Any, Any], Any],
        on: Callable[[Any, Any], Any] | None,
        *,
        left: bool,
    ) -> None:
        self._view = view
        self._joiner = joiner
        self._on = on
        self._left = left

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._get = self._view.open_values(context)
        self._get_each = self._view.open_batch(context)

    def step(self, downstream: Deliver) -> Deliver:
        joiner, on, left = self._joiner, self._on, self._left

        def join(record: AnyRecord) -> None:
            key, value = record.key, record.value
            wanted = None
            if value is not None:
                wanted = key if on is None else on(key, value)
            if value is None or (wanted is None and not left):
                drop_null(self.context, "join key or value")
                return
            other = None if wanted is None else self._get(wanted)
            if other is not None or left:
                joined = joiner(key, value, other)
                downstream(Record(key, joined, record.timestamp, record.headers))

        return join

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        if self._on is not None:
            return None
        joiner, left = self._joiner, self._left

        def join_batch(batch: RecordBatch) -> None:
            keys, values = batch.keys, batch.values
            if None in values or (None in keys and not left):
                raise BatchError  # some are dropped, with a warning for each
            if None in keys:
                found = iter(self._get_each([key for key in keys if key is not None]))
                others = [None if key is None else next(found) for key in keys]
            else:
                others = self._get_each(keys)
            if not left and None in others:
                present = [other is not None for other in others]
                batch, others = (
                    batch.kept(present),
                    [other for other in others if other is not None],
                )
                keys, values = batch.keys, batch.values
            downstream(batch.with_pairs(keys, list(map(joiner, keys, values, others))))

        return join_batch
