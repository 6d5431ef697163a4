"""Forwards a table's changes: at once, or the last one of each key at the next commit.

Like Kafka's caches: the old value of a forwarded change is the value at the last commit, keys are
in the order of their last change, and a key that appeared and disappeared in between is dropped.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from ottla.engine.processors import ProcessorContext
from ottla.engine.records import Change, Headers, Record

WAITING_MAX: Final = 100_000


class TimestampedTupleForwarder:
    """`old_values`: a node downstream needs the old value."""

    def __init__(self, context: ProcessorContext, *, cached: bool, old_values: bool) -> None:
        self._downstream = context.downstream
        self._old_values = old_values
        self._waiting: dict[Hashable, tuple[Any, Any, Any, int, Headers]] = {}
        self.cached = cached and context.cached(self.flush)

    def forward(
        self,
        key: Any,
        new: Any,
        old: Any,
        timestamp: int,
        headers: Headers = (),
        *,
        same: Hashable = None,
    ) -> None:
        """`same` identifies the key if it is not hashable: by its bytes, for instance."""
        if not self.cached:
            change = Change(new, old if self._old_values else None)
            self._downstream(Record(key, change, timestamp, headers))
            return
        waiting = self._waiting
        name = key if same is None else same
        before = waiting.pop(name, None)
        waiting[name] = (key, new, old if before is None else before[2], timestamp, headers)
        if len(waiting) > WAITING_MAX:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for key, new, old, timestamp, headers in waiting.values():
            if new is not None or old is not None:
                change = Change(new, old if self._old_values else None)
                self._downstream(Record(key, change, timestamp, headers))
