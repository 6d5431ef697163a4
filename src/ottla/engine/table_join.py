"""Two tables joined by their keys: each change looks up the other side's value now.

The four processors of Kafka are one here: a result needs mine, the other side's, both or any. The
result carries the later timestamp of the two. Old values are joined with the other side's value
of now, which is what they were joined with before: the other side has not changed with this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.engine.calls import required
from ottla.engine.observing import drop_null
from ottla.engine.processors import Context, Processor
from ottla.engine.records import Change, Record, ValueAndTimestamp
from ottla.engine.views import Getter, View

Joiner = Callable[[Any, Any, Any], Any]
"""Key, left value, right value."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Which sides there must be for a result."""

    left: bool
    right: bool

    def join(self, joiner: Joiner, key: Any, left: Any, right: Any) -> Any:
        if (left is None and right is None) or (left is None and self.left):
            return None
        return None if right is None and self.right else joiner(key, left, right)


INNER = Needs(left=True, right=True)
LEFT = Needs(left=True, right=False)
OUTER = Needs(left=False, right=False)


class TableJoin(Processor[Any, Change[Any]]):
    """The changes of one side; `other` is how it reads the other one."""

    def __init__(
        self,
        needs: Needs,
        joiner: Joiner,
        *,
        is_left: bool,
        other: View,
        old_values: bool,
    ) -> None:
        self._needs = needs
        self._joiner = joiner
        self._is_left = is_left
        self._view = other
        self._old_values = old_values

    def init(self, context: Context) -> None:
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


def joined_view(needs: Needs, joiner: Joiner, left: Getter, right: Getter) -> Getter:
    """The joined table's values, joined anew whenever they are asked for."""

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
        return ValueAndTimestamp(value, max(each.timestamp for each in (mine, other) if each))

    return get


def by_key(joiner: Callable[..., Any]) -> Joiner:
    """Called with key, left and right, whichever of the two forms it has."""
    return joiner if required(joiner) >= 3 else lambda key, left, right: joiner(left, right)
