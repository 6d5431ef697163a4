"""A stream joined with a table: each record looks up the table's value of now.

The table's changes give no results. A record without value is dropped; one without key, too,
unless the join is a left one (KIP-962).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.engine.observing import drop_null
from ottla.engine.processors import Context, Deliver
from ottla.engine.records import AnyRecord, Record
from ottla.engine.stateless import Stateless
from ottla.engine.views import View


class StreamTableJoin(Stateless):
    """`on(key, value)` is what is looked up; None: the record's own key."""

    def __init__(
        self,
        view: View,
        joiner: Callable[[Any, Any, Any], Any],
        on: Callable[[Any, Any], Any] | None,
        *,
        left: bool,
    ) -> None:
        self._view = view
        self._joiner = joiner
        self._on = on
        self._left = left

    def init(self, context: Context) -> None:
        super().init(context)
        self._get = self._view.open_values(context)

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
