"""One timer for many deadlines, by a clock that may be set."""

from __future__ import annotations

import asyncio

from ottla.broker.alarm import Alarm
from ottla.testing import ManualClock

HOUR_MS = 3_600_000


def test_setting_the_clock_back_and_forth_delays_no_deadline_for_long() -> None:
    async def run() -> None:
        clock = ManualClock()
        due_ms = clock.now_ms() + 1
        rung = asyncio.Event()

        def ring(now_ms: int) -> int | None:
            if now_ms < due_ms:
                return due_ms
            rung.set()
            return None

        alarm = Alarm(clock, ring, wait_s_max=0.02)
        clock.advance(-HOUR_MS)
        alarm.set(due_ms, clock.now_ms())
        clock.advance(HOUR_MS + 2)
        alarm.set(due_ms, clock.now_ms())
        await asyncio.wait_for(rung.wait(), 60)
        alarm.stop()

    asyncio.run(run())


def test_the_alarm_rings_at_the_first_deadline() -> None:
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
