"""A clock that stands still until a test moves it."""

from __future__ import annotations

from typing import Final

START_MS: Final = 1_700_000_000_000  # a day in November 2023: far from 0, and the same in every run


class ManualClock:
    """A SteadyClock. `advance` accepts negative steps, which move only the wall time: machines do
    set their clocks back."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = self._monotonic_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        self._now_ms += ms
        self._monotonic_ms += max(ms, 0)

    def set_by(self, ms: int) -> None:
        """Set the wall time, forward or back, while no time passes."""
        self._now_ms += ms

    def __repr__(self) -> str:
        return f"ManualClock({self._now_ms})"
