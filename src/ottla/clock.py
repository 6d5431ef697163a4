"""Time, as an argument: everything that needs the hour is given a Clock."""

from __future__ import annotations

import time
from typing import Protocol


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
