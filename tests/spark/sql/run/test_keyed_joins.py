from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.sql.run.keyed.foreign import (
    Answer,
    Answered,
    Answers,
    Group,
    Matches,
    Subscribed,
    Subscription,
    Subscriptions,
)
from ottla.spark.sql.run.keyed.joins import LEFT, RIGHT, Pairs, StreamTableJoin, TableTableJoin
from ottla.spark.sql.run.keyed.order import Event, in_order
from ottla.spark.sql.syntax.statements import JoinKind


def event(side: int, time_ms: int, row: tuple[object, ...] | None, offset: int = 0) -> Event:
    return Event(side, time_ms, 0, offset, row, deleted=row is None)


# -- order


def test_a_table_comes_before_a_stream_of_the_same_time() -> None:
    stream, table = event(LEFT, 5, ("s",)), event(RIGHT, 5, ("t",))
    assert list(in_order([stream, table])) == [table, stream]


def test_within_a_partition_the_offset_rules_whatever_the_time() -> None:
    late_first = [event(RIGHT, 9, ("a",), 0), event(RIGHT, 1, ("b",), 1)]
    assert list(in_order(reversed(late_first))) == late_first


def test_the_partition_with_the_oldest_record_goes_first() -> None:
    first, second, third = (
        Event(LEFT, time, part, 0, ()) for time, part in ((1, 7), (2, 3), (3, 5))
    )
    assert list(in_order([third, first, second])) == [first, second, third]


# -- stream and table


def results(machine: object, events: list[Event]) -> list[tuple[object, ...]]:
    assert isinstance(machine, StreamTableJoin | TableTableJoin)
    state: Pairs = {}
    return [
        (each.left, each.right, each.time_ms, each.deleted)
        for one in events
        for each in machine.apply(state, one)
    ]


HISTORY = [
    event(LEFT, 1, ("a",)),
    event(RIGHT, 2, (10,)),
    event(LEFT, 3, ("b",)),
    event(RIGHT, 4, None),
    event(LEFT, 5, ("c",)),
]


def test_inner_stream_table_join_gives_only_what_meets_a_row() -> None:
    assert results(StreamTableJoin(JoinKind.INNER), HISTORY) == [(("b",), (10,), 3, False)]


def test_left_stream_table_join_gives_every_row_of_the_stream() -> None:
    assert results(StreamTableJoin(JoinKind.LEFT), HISTORY) == [
        (("a",), None, 1, False),
        (("b",), (10,), 3, False),
        (("c",), None, 5, False),
    ]


# -- table and table


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.INNER, [(("a",), (1,), 2), None]),
        (JoinKind.LEFT, [(("a",), None, 1), (("a",), (1,), 2), (("a",), None, 1), None]),
        (JoinKind.RIGHT, [(("a",), (1,), 2), None]),
        (JoinKind.OUTER, [(("a",), None, 1), (("a",), (1,), 2), (("a",), None, 1), None]),
    ],
)
def test_a_table_join_gives_rows_and_takes_them_back(
    kind: JoinKind, expected: list[tuple[object, ...] | None]
) -> None:
    history = [
        event(LEFT, 1, ("a",)),
        event(RIGHT, 2, (1,)),
        event(RIGHT, 3, None),
        event(LEFT, 4, None),
    ]
    found = results(TableTableJoin(kind), history)
    assert [None if deleted else (left, right, time) for left, right, time, deleted in found] == (
        expected
    )


def test_a_result_is_as_new_as_the_newer_of_its_rows() -> None:
    history = [event(LEFT, 9, ("a",)), event(RIGHT, 2, (1,))]
    assert results(TableTableJoin(JoinKind.INNER), history) == [(("a",), (1,), 9, False)]


def test_deleting_what_was_never_there_says_nothing() -> None:
    assert results(TableTableJoin(JoinKind.OUTER), [event(LEFT, 1, None)]) == []


# -- foreign keys


class Cluster:
    """The three steps, wired as Spark does it: each batch, all keys of a step before the next."""

    def __init__(self, kind: JoinKind) -> None:
        self.matches = Matches(kind)
        self.subscribed: dict[str, Subscribed] = {}
        self.groups: dict[object, tuple[Group, dict[object, tuple[int, int, tuple[object, ...]]]]]
        self.groups = {}
        self.answered: dict[str, Answered] = {}
        self.table: dict[str, tuple[object, object]] = {}

    def batch(
        self, left: list[tuple[str, Event]], right: list[tuple[str, Event]], order: int = 0
    ) -> None:
        wishes: list[tuple[str, Subscription]] = []
        for key, one in left:
            state = self.subscribed.setdefault(key, Subscribed())
            wishes += [(key, each) for each in Subscriptions().apply(state, one)]
        answers: list[Answer] = []
        foreign_keys = {wish.foreign for _, wish in wishes} | {key for key, _ in right}
        for foreign in sorted(foreign_keys, key=str, reverse=bool(order)):
            group, subscribers = self.groups.setdefault(foreign, (Group(), {}))
            for key, one in right:
                if key == foreign:
                    answers += self.matches.right(group, subscribers, one)
            for key, wish in wishes:
                if wish.foreign == foreign:
                    answers += self.matches.subscribe(group, subscribers, key, wish)
        for primary in {each.primary for each in answers}:
            mine = [each for each in answers if each.primary == primary]
            for last in Answers().apply(self.answered.setdefault(primary, Answered()), mine):
                if last.deleted:
                    del self.table[primary]
                else:
                    self.table[primary] = (last.left, last.right)


def left_row(value: str, foreign: str | None, time_ms: int = 1) -> Event:
    return Event(LEFT, time_ms, 0, 0, (value,), extra=foreign)


def test_a_row_that_moves_to_another_foreign_key_ends_with_that_one() -> None:
    for order in (0, 1):
        cluster = Cluster(JoinKind.INNER)
        cluster.batch([("o1", left_row("x", "A"))], [("A", event(RIGHT, 1, ("Ann",)))])
        assert cluster.table == {"o1": (("x",), ("Ann",))}
        cluster.batch([("o1", left_row("x", "B"))], [("B", event(RIGHT, 1, ("Bob",)))], order)
        assert cluster.table == {"o1": (("x",), ("Bob",))}
        cluster.batch([("o1", left_row("x", "C"))], [], order)
        assert cluster.table == {}


def test_a_left_foreign_key_join_keeps_rows_that_meet_nothing() -> None:
    cluster = Cluster(JoinKind.LEFT)
    cluster.batch([("o1", left_row("x", "A")), ("o2", left_row("y", None))], [])
    assert cluster.table == {"o1": (("x",), None), "o2": (("y",), None)}
    cluster.batch([], [("A", event(RIGHT, 1, ("Ann",)))])
    assert cluster.table["o1"] == (("x",), ("Ann",))
    cluster.batch([("o1", event(LEFT, 2, None))], [("A", event(RIGHT, 3, None))])
    assert cluster.table == {"o2": (("y",), None)}


NAMES = ("A", "B")
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("left"), st.sampled_from(("o1", "o2")), st.sampled_from((*NAMES, None))),
        st.tuples(st.just("gone"), st.sampled_from(("o1", "o2")), st.none()),
        st.tuples(st.just("right"), st.sampled_from(NAMES), st.integers(0, 9)),
        st.tuples(st.just("right gone"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("next batch"), st.none(), st.booleans()),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(CHANGES, st.sampled_from((JoinKind.INNER, JoinKind.LEFT)))
def test_a_foreign_key_join_ends_where_joining_the_tables_would(
    changes: list[tuple[str, str, Any]], kind: JoinKind
) -> None:
    cluster = Cluster(kind)
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    lefts: list[tuple[str, Event]] = []
    rights: list[tuple[str, Event]] = []
    for what, key, value in [*changes, ("next batch", "", False)]:
        if what == "left":
            left[key] = value
            lefts.append((key, left_row(key, value)))
        elif what == "gone":
            left.pop(key, None)
            lefts.append((key, event(LEFT, 1, None)))
        elif what == "right":
            right[key] = value
            rights.append((key, event(RIGHT, 1, (value,))))
        elif what == "right gone":
            right.pop(key, None)
            rights.append((key, event(RIGHT, 1, None)))
        else:
            cluster.batch(lefts, rights, order=bool(value))
            lefts, rights = [], []
    expected = {
        key: ((key,), (right[name],) if name in right else None)
        for key, name in left.items()
        if name in right or kind is JoinKind.LEFT
    }
    assert cluster.table == expected


def test_answers_of_two_groups_may_come_in_any_order() -> None:
    old = Answer("o1", 1, 9, ("x",), ("Ann",), 1)
    new = Answer("o1", 2, 1, ("x",), ("Bob",), 1)
    for answers in permutations([old, new]):
        assert list(Answers().apply(Answered(), list(answers))) == [new]
