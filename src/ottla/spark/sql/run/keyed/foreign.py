"""The foreign-key join: a table's rows (left) meet the row of another table that they name.

Three steps, each keyed by something else, as in KIP-213:

    Subscriptions   by the left key: which foreign key has it now? Each change has a version.
    Matches         by the foreign key: who has subscribed, and what does the right table say?
    Answers         by the left key: an answer to an older version comes too late, and is dropped

A left row that moves from one foreign key to another is answered by two groups, in any order: the
versions tell which answer counts.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from ottla.spark.sql.run.keyed.joins import Values
from ottla.spark.sql.run.keyed.order import Event
from ottla.spark.sql.syntax.statements import JoinKind


@dataclass(frozen=True, slots=True)
class Subscription:
    """To `foreign` (None: to nothing), of the left row with this key; no row: not any more."""

    foreign: Any
    version: int
    row: Values
    time_ms: int


@dataclass(slots=True)
class Subscribed:
    """What is known of a left key: the foreign key it has, and how often it has changed."""

    version: int = 0
    foreign: Any = None
    exists: bool = False


class Subscriptions:
    """Keyed by the left table's key; the foreign key is what an event has as `extra`."""

    def apply(self, state: Subscribed, event: Event) -> Iterator[Subscription]:
        state.version += 1
        gone = event.deleted or event.row is None
        foreign = None if gone else event.extra
        if state.exists and state.foreign is not None and (gone or state.foreign != foreign):
            yield Subscription(state.foreign, state.version, None, event.time_ms)
        if gone:
            if state.exists:
                yield Subscription(None, state.version, None, event.time_ms)
            state.exists, state.foreign = False, None
            return
        state.exists, state.foreign = True, foreign
        yield Subscription(foreign, state.version, event.row, event.time_ms)


@dataclass(frozen=True, slots=True)
class Answer:
    """For the left key `primary`: the joined rows, or (deleted) that there is no result."""

    primary: Any
    version: int
    number: int
    left: Values
    right: Values
    time_ms: int
    deleted: bool = False


@dataclass(slots=True)
class Group:
    """What is known of a foreign key, but for its subscribers."""

    number: int = 0
    right: Values = None
    right_ms: int = -1


Subscribers = MutableMapping[Any, tuple[int, int, Values]]
"""By left key: the version, when, and the row."""


class Matches:
    """Keyed by the foreign key. `None` is nobody's key: its group has subscribers, never a row."""

    def __init__(self, kind: JoinKind) -> None:
        assert kind in (JoinKind.INNER, JoinKind.LEFT)
        self._kind = kind

    def subscribe(
        self, group: Group, subscribers: Subscribers, primary: Any, wish: Subscription
    ) -> Iterator[Answer]:
        if wish.row is None:
            if wish.foreign is None:  # the left row is gone
                yield self._answer(group, primary, wish.version, None, wish.time_ms, deleted=True)
            elif primary in subscribers and subscribers[primary][0] < wish.version:
                del subscribers[primary]
            return
        if wish.foreign is not None:
            subscribers[primary] = (wish.version, wish.time_ms, wish.row)
        yield self._matched(group, primary, wish.version, wish.row, wish.time_ms)

    def right(self, group: Group, subscribers: Subscribers, event: Event) -> Iterator[Answer]:
        gone = event.deleted or event.row is None
        if gone and group.right is None:
            return
        group.right, group.right_ms = (None if gone else event.row), event.time_ms
        for primary, (version, time_ms, row) in list(subscribers.items()):
            yield self._matched(group, primary, version, row, max(time_ms, event.time_ms))

    def _matched(
        self, group: Group, primary: Any, version: int, row: Values, time_ms: int
    ) -> Answer:
        if group.right is None and self._kind is JoinKind.INNER:
            return self._answer(group, primary, version, None, time_ms, deleted=True)
        newest = time_ms if group.right is None else max(time_ms, group.right_ms)
        return self._answer(group, primary, version, row, newest)

    def _answer(
        self,
        group: Group,
        primary: Any,
        version: int,
        row: Values,
        time_ms: int,
        *,
        deleted: bool = False,
    ) -> Answer:
        group.number += 1
        right = None if deleted else group.right
        return Answer(primary, version, group.number, row, right, time_ms, deleted)


@dataclass(slots=True)
class Answered:
    """The newest version that was answered, and whether a row of the result stands."""

    version: int = 0
    exists: bool = False


class Answers:
    """Keyed by the left table's key: gives the last of the newest version, and no other."""

    def apply(self, state: Answered, answers: list[Answer]) -> Iterator[Answer]:
        last = max(answers, key=lambda each: (each.version, each.number))
        if last.version < state.version:
            return
        state.version = last.version
        if last.deleted and not state.exists:
            return  # nobody has seen it: a tombstone would be for nothing
        state.exists = not last.deleted
        yield last
