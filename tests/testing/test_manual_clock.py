from __future__ import annotations

from ottla.clock import Clock
from ottla.testing import ManualClock


def test_time_stands_still_until_it_is_moved() -> None:
    clock: Clock = ManualClock(1000)
    assert (clock.now_ms(), clock.now_ms()) == (1000, 1000)


def test_time_moves_by_the_given_amount_also_backwards() -> None:
    clock = ManualClock(now_ms=1000)
    clock.advance(500)
    assert clock.now_ms() == 1500
    clock.advance(-700)
    assert clock.now_ms() == 800
