"""Time as an argument: everything that needs the time takes a Clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

STEP_MS_MIN: Final = 1000  # a smaller step does no harm to a deadline


class Clock(Protocol):
    """Wall time in milliseconds since 1970; tests pass one that they set by hand."""

    def now_ms(self) -> int: ...


class SteadyClock(Clock, Protocol):
    """Also has a monotonic time, for durations."""

    def monotonic_ms(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class WatchedClock:
    """A clock that notices when the clock below it has been set.

    Sessions and locks are durations, but their deadlines are wall times and must move with the
    clock: else a clock that is set forward expires them all, and one that is set forward an hour
    and back again keeps dead members for an hour. Everything reads the time here, so listeners
    have moved the deadlines before the new time is used.
    """

    __slots__ = ("_ahead_ms", "_clock", "_listeners")

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self._listeners: list[Callable[[int], None]] = []

    def when_set(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the step in milliseconds, negative for backward, once it is set."""
        self._listeners.append(listener)

    def now_ms(self) -> int:
        """HOT."""
        now_ms = self._clock.now_ms()
        step_ms = now_ms - self._clock.monotonic_ms() - self._ahead_ms
        if step_ms >= STEP_MS_MIN or step_ms <= -STEP_MS_MIN:
            self._ahead_ms += step_ms
            for listener in self._listeners:
                listener(step_ms)
        return now_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()
