"""Time, as an argument: everything that needs the hour is given a Clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

STEP_MS_MIN: Final = 1000  # less is no harm to a deadline


class Clock(Protocol):
    """Wall time in milliseconds since 1970; tests pass one that they move by hand."""

    def now_ms(self) -> int: ...


class SteadyClock(Clock, Protocol):
    """Beside the wall time one that only goes forward, for what lasts so long."""

    def monotonic_ms(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class WatchedClock:
    """A clock that notices when somebody has set the one below it.

    Sessions and locks last so long, whatever the hour is. Their deadlines are hours on the clock,
    and have to move with it: else a clock that is set forward ends them all, and one that was set
    forward and back again keeps those of dead members for an hour. Whoever reads the time after
    that reads it here, so the deadlines have moved before.
    """

    __slots__ = ("_ahead_ms", "_clock", "_tells")

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self._tells: list[Callable[[int], None]] = []

    def when_set(self, tell: Callable[[int], None]) -> None:
        """Tell by how many milliseconds: forward, or with a minus back."""
        self._tells.append(tell)

    def now_ms(self) -> int:
        """HOT."""
        now_ms = self._clock.now_ms()
        step_ms = now_ms - self._clock.monotonic_ms() - self._ahead_ms
        if step_ms >= STEP_MS_MIN or step_ms <= -STEP_MS_MIN:
            self._ahead_ms += step_ms
            for tell in self._tells:
                tell(step_ms)
        return now_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()
