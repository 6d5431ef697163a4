"""Deadlines are kept even though moving one to later does not touch the heap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.timer import CoordinatorTimer, TimerKey

A: TimerKey = ("session", "g", "a")
B: TimerKey = ("session", "g", "b")


def due(deadlines: CoordinatorTimer, now_ms: int) -> list[TimerKey]:
    found = []
    while (key := deadlines.pop_due(now_ms)) is not None:
        found.append(key)
    return found


def test_nothing_is_due_before_its_time() -> None:
    deadlines = CoordinatorTimer()
    assert deadlines.next_ms() is None
    deadlines.schedule(A, 10)
    assert deadlines.next_ms() == 10
    assert due(deadlines, 9) == []
    assert due(deadlines, 10) == [A]
    assert due(deadlines, 100) == []
    assert deadlines.next_ms() is None


def test_a_postponed_deadline_fires_later() -> None:
    deadlines = CoordinatorTimer()
    deadlines.schedule(A, 10)
    deadlines.schedule(A, 20)
    assert due(deadlines, 15) == []
    assert deadlines.next_ms() == 20
    assert due(deadlines, 20) == [A]


def test_an_advanced_deadline_fires_once_at_the_earlier_time() -> None:
    deadlines = CoordinatorTimer()
    deadlines.schedule(A, 20)
    deadlines.schedule(A, 10)
    assert due(deadlines, 10) == [A]
    assert due(deadlines, 30) == []


def test_a_cancelled_deadline_does_not_fire_and_its_key_can_be_set_again() -> None:
    deadlines = CoordinatorTimer()
    deadlines.schedule(A, 10)
    deadlines.schedule(B, 12)
    deadlines.cancel(A)
    assert A not in deadlines
    deadlines.schedule(A, 11)
    assert due(deadlines, 30) == [A, B]


def test_cancelled_deadlines_do_not_pile_up() -> None:
    deadlines = CoordinatorTimer()
    for number in range(50_000):
        key = ("session", "g", str(number))
        deadlines.schedule(key, 1_000_000 + number)
        deadlines.cancel(key)
    assert len(deadlines._heap) < 2_000
    assert len(deadlines._queued_ms) < 2_000
    deadlines.schedule(A, 5)
    assert due(deadlines, 10_000_000) == [A]


operations = st.lists(
    st.tuples(
        st.sampled_from(["set", "cancel", "pass"]),
        st.sampled_from([A, B, ("join", "g", "")]),
        st.integers(0, 50),
    ),
    max_size=60,
)


@given(operations)
def test_a_timer_behaves_like_a_dictionary(operations: list[tuple[str, TimerKey, int]]) -> None:
    deadlines, model, now_ms = CoordinatorTimer(), dict[TimerKey, int](), 0
    for what, key, number in operations:
        if what == "set":
            deadlines.schedule(key, now_ms + number)
            model[key] = now_ms + number
        elif what == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            now_ms += number
            expected = {key for key, due_ms in model.items() if due_ms <= now_ms}
            assert set(due(deadlines, now_ms)) == expected
            for gone in expected:
                del model[gone]
        earliest = deadlines.next_ms()
        if model:
            assert earliest is not None
            assert earliest <= min(model.values())
