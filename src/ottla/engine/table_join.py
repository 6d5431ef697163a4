"""A join of two tables by their keys: each change looks up the other side's current value.

This is one processor for Kafka's four: a `JoinType` says which sides a result needs. The result has
the later timestamp of the two. An old value is joined with the other side's current value: that is
the value of the previous result, because this change left the other side untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.engine.arity import arity
from ottla.engine.observed_stream_time import drop_null
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import Change, Record, ValueAndTimestamp
from ottla.engine.views import Getter, TableView

ValueJoinerWithKey = Callable[[Any, Any, Any], Any]
"""Key, left value, right value."""


@dataclass(frozen=True, slots=True)
class JoinType:
    """Which sides a result needs."""

    left: bool
    right: bool

    def join(self, joiner: ValueJoinerWithKey, key: Any, left: Any, right: Any) -> Any:
        if (left is None and right is None) or (left is None and self.left):
            return None
        return None if right is None and self.right else joiner(key, left, right)


INNER = JoinType(left=True, right=True)
LEFT = JoinType(left=True, right=False)
OUTER = JoinType(left=False, right=False)


class KTableKTableJoin(Processor[Any, Change[Any]]):
    """Joins the changes of one side; `other` reads the other side's table."""

    def __init__(
        self,
        needs: JoinType,
        joiner: ValueJoinerWithKey,
        *,
        is_left: bool,
        other: TableView,
        old_values: bool,
    ) -> None:
        self._needs = needs
        self._joiner = joiner
        self._is_left = is_left
        self._view = other
        self._old_values = old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._get = self._view.open(context)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        if record.key is None:
            drop_null(self.context, "key")
            return
        found = self._get(record.key)
        change = record.value
        if found is None or found.value is None:
            needs_other = self._needs.right if self._is_left else self._needs.left
            if needs_other or (change.new is None and change.old is None):
                return
            other, timestamp = None, record.timestamp
        else:
            other, timestamp = found.value, max(record.timestamp, found.timestamp)
        new = self._joined(record.key, change.new, other)
        old = self._joined(record.key, change.old, other) if self._old_values else None
        self.context.forward(Record(record.key, Change(new, old), timestamp, record.headers))

    def _joined(self, key: Any, mine: Any, other: Any) -> Any:
        left, right = (mine, other) if self._is_left else (other, mine)
        return self._needs.join(self._joiner, key, left, right)


def joined_view(needs: JoinType, joiner: ValueJoinerWithKey, left: Getter, right: Getter) -> Getter:
    """Reads the joined table by computing each value on demand."""

    def get(key: Any) -> ValueAndTimestamp[Any] | None:
        mine, other = left(key), right(key)
        value = needs.join(
            joiner,
            key,
            None if mine is None else mine.value,
            None if other is None else other.value,
        )
        if value is None:
            return None
        return ValueAndTimestamp(value, max(side.timestamp for side in (mine, other) if side))

    return get


def with_key_argument(joiner: Callable[..., Any]) -> ValueJoinerWithKey:
    """Adapts a joiner of (left, right) to (key, left, right)."""
    return joiner if arity(joiner) >= 3 else lambda key, left, right: joiner(left, right)
