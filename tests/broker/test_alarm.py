"""One timer for many deadlines, by a clock that may be set."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker import journal
from ottla.broker.journal import Alarm
from ottla.testing import ManualClock

HOUR_MS = 3_600_000


def test_a_clock_that_is_set_back_and_forth_again_delays_nothing_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "ALARM_S_MAX", 0.02)

    async def run() -> None:
        clock = ManualClock()
        due_ms = clock.now_ms() + 1
        rung = asyncio.Event()

        def ring(now_ms: int) -> int | None:
            if now_ms < due_ms:
                return due_ms
            rung.set()
            return None

        alarm = Alarm(clock, ring)
        clock.advance(-HOUR_MS)
        alarm.set(due_ms, clock.now_ms())
        clock.advance(HOUR_MS + 2)
        alarm.set(due_ms, clock.now_ms())
        await asyncio.wait_for(rung.wait(), 60)
        alarm.stop()

    asyncio.run(run())


def test_it_rings_when_the_first_deadline_has_come() -> None:
    async def run() -> None:
        clock = ManualClock()
        rung: list[int] = []
        done = asyncio.Event()

        def ring(now_ms: int) -> int | None:
            rung.append(now_ms)
            done.set()
            return None

        alarm = Alarm(clock, ring)
        alarm.set(clock.now_ms() + 10_000, clock.now_ms())
        alarm.set(clock.now_ms(), clock.now_ms())
        await asyncio.wait_for(done.wait(), 60)
        assert rung == [clock.now_ms()]
        alarm.stop()

    asyncio.run(run())
