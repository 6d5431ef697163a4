from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.sql.run.keyed.aggregates import (
    Call,
    Contribution,
    Session,
    SessionChange,
    Sessions,
    Totals,
    contributions,
)
from ottla.spark.sql.run.keyed.order import Event


class Total:
    """SUM, as small as can be."""

    def initial(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state + value

    def merge(self, left: int, right: int) -> int:
        return left + right

    def undo(self, state: int, value: int) -> int:
        return state - value

    def result(self, state: int) -> int:
        return state


CALLS = (Call(Total(), (0,)),)


ROWS = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 9), st.booleans())


@settings(deadline=None)
@given(st.lists(ROWS, max_size=20))
def test_a_total_over_a_table_is_that_of_its_rows(
    changes: list[tuple[str, str, int, bool]],
) -> None:
    kept: dict[str, dict[str, Any]] = {}
    totals: dict[str, list[Any]] = {}
    results: dict[str, int] = {}
    table: dict[str, tuple[str, int]] = {}
    for key, group, value, deleted in changes:
        table[key] = (group, value)
        if deleted:
            del table[key]
        event = Event(0, 1, 0, 0, None if deleted else (group, value), deleted)
        for each in contributions(kept.setdefault(key, {}), event):
            name, inputs = each.row[0], each.row[1:]
            state = totals.setdefault(name, [])
            results[name] = Totals(CALLS).apply(state, [(inputs, each.undone)])[0]
    expected: Counter[str] = Counter()
    for group, value in table.values():
        expected[group] += value
    assert {name: total for name, total in results.items() if total} == +expected


def test_a_row_that_is_deleted_is_undone_once() -> None:
    state: dict[str, Any] = {}
    assert list(contributions(state, Event(0, 1, 0, 0, ("x", 3)))) == [Contribution(("x", 3), 1)]
    gone = Event(0, 2, 0, 1, None, deleted=True)
    assert list(contributions(state, gone)) == [Contribution(("x", 3), 2, undone=True)]
    assert list(contributions(state, gone)) == []


def test_the_time_of_a_group_never_goes_back() -> None:
    totals, state = Totals(CALLS), list[Any]()
    assert totals.apply(state, [((2,), False)]) == (2,)
    assert totals.time_of(state, 50) == 50
    assert totals.apply(state, [((3,), False)]) == (5,)
    assert totals.time_of(state, 20) == 50
    assert totals.time_of(state, 60) == 60
    of_old = [7]  # as it was kept before times were
    assert totals.apply(of_old, [((1,), False)]) == (8,)
    assert totals.time_of(of_old, 20) == 20


# -- sessions


def at(time_ms: int, value: int = 1) -> Event:
    return Event(0, time_ms, 0, 0, (value,))


def test_a_session_that_grows_takes_back_what_was_told_of_it() -> None:
    machine, sessions = Sessions(CALLS, gap_ms=10), list[Session]()
    assert machine.apply(sessions, iter([at(0)]), -1) == [SessionChange(0, 0, (1,))]
    assert machine.apply(sessions, iter([at(10)]), -1) == [
        SessionChange(0, 0, (), deleted=True),
        SessionChange(0, 10, (2,)),
    ]


def test_a_row_between_two_sessions_makes_them_one() -> None:
    machine, sessions = Sessions(CALLS, gap_ms=10), list[Session]()
    machine.apply(sessions, iter([at(0), at(20)]), -1)
    assert machine.apply(sessions, iter([at(10)]), -1) == [
        SessionChange(20, 20, (), deleted=True),
        SessionChange(0, 0, (), deleted=True),
        SessionChange(0, 20, (3,)),
    ]


def test_a_row_inside_a_session_changes_its_result_and_not_its_bounds() -> None:
    machine, sessions = Sessions(CALLS, gap_ms=10), list[Session]()
    machine.apply(sessions, iter([at(0), at(8)]), -1)
    assert machine.apply(sessions, iter([at(4)]), -1) == [SessionChange(0, 8, (3,))]


def test_a_row_that_comes_too_late_is_dropped() -> None:
    machine, sessions = Sessions(CALLS, gap_ms=10), list[Session]()
    assert machine.apply(sessions, iter([at(5)]), 6) == []
    assert sessions == []


def test_sessions_that_are_over_are_taken_out() -> None:
    machine, sessions = Sessions(CALLS, gap_ms=10), list[Session]()
    machine.apply(sessions, iter([at(0), at(50)]), -1)
    assert [each.bounds for each in machine.expire(sessions, 1)] == [(0, 0)]
    assert [each.bounds for each in sessions] == [(50, 50)]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 200), max_size=5), max_size=8))
def test_sessions_are_those_of_all_rows_whatever_the_batches(batches: list[list[int]]) -> None:
    machine, sessions = Sessions(CALLS, gap_ms=10), list[Session]()
    known: dict[tuple[int, int], int] = {}
    for batch in batches:
        for change in machine.apply(sessions, iter([at(each) for each in batch]), -1):
            if change.deleted:
                del known[change.start_ms, change.end_ms]
            else:
                known[change.start_ms, change.end_ms] = change.results[0]
    expected: list[list[int]] = []
    for time_ms in sorted(each for batch in batches for each in batch):
        if expected and time_ms - expected[-1][1] <= 10:
            expected[-1][1:] = [time_ms, expected[-1][2] + 1]
        else:
            expected.append([time_ms, time_ms, 1])
    assert known == {(start, end): count for start, end, count in expected}
