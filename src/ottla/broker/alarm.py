"""One timer of the event loop, which stands for many deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.clock import Clock

# Deadlines are times of the day, and a clock may be set back and forth again: an alarm that was
# set in between would ring an hour late.
ALARM_S_MAX: Final = 1.0


class Alarm:
    """One timer, set to the earliest of many deadlines; `ring(now_ms)` sets it again."""

    def __init__(
        self,
        clock: Clock,
        ring: Callable[[int], int | None],
        *,
        wait_s_max: float = ALARM_S_MAX,
    ) -> None:
        """`ring` does what is due and gives the next deadline, or None if there is none."""
        self._clock = clock
        self._ring = ring
        self._wait_s_max = wait_s_max
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0

    def set(self, due_ms: int | None, now_ms: int) -> None:
        """Ring at `due_ms` at the latest."""
        if due_ms is None or (self._timer is not None and self._due_ms <= due_ms):
            return
        self.stop()
        self._due_ms = due_ms
        wait_s = min(max(due_ms - now_ms, 0) / 1000, self._wait_s_max)
        self._timer = self._loop.call_later(wait_s, self._run)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        self.set(self._ring(now_ms), now_ms)
