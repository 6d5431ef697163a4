"""Measures how much of something there was lately, and how long to wait if it was too much.

With Kafka's arithmetic, so that a client is throttled as by Kafka: a rate is what was recorded in
the last `count` windows, divided by the time since the oldest of them began. Time is an argument.
"""

from __future__ import annotations

import math
from typing import Final

THROTTLE_MS_MAX: Final = 2**31 - 1  # what a response can say


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """An average per second over the last windows, and its limit."""

    __slots__ = ("_count", "_current", "_samples", "_window_ms", "limit", "throttle_ms_max")

    def __init__(
        self,
        limit: float,
        *,
        count: int,
        window_ms: int,
        throttle_ms_max: int = THROTTLE_MS_MAX,
    ) -> None:
        self.limit = limit
        self.throttle_ms_max = throttle_ms_max
        self._count = count
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    @property
    def burst(self) -> float:
        """The most that an idle client can record at once within the limit."""
        return self.limit * max(1, self._count - 1) * self._window_ms / 1000

    def charge(self, value: float, now_ms: int) -> int:
        """Record; returns for how many milliseconds the client is to be muted now."""
        self.record(value, now_ms)
        return self.throttle_ms(now_ms)

    def record(self, value: float, now_ms: int) -> None:
        """A negative value cancels what was recorded at the same time."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            self._current = (self._current + 1) % (self._count + 1)
            if self._current >= len(samples):
                sample = _Sample(now_ms)
                samples.append(sample)
            else:
                sample = samples[self._current]
                sample.reset(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def throttle_ms(self, now_ms: int) -> int:
        """How long until the rate is back at its limit, if nothing more is recorded."""
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = self._total() * 1000 / elapsed_ms
        if rate <= self.limit:
            return 0
        if self.limit <= 0:
            return self.throttle_ms_max
        wait_ms = (rate - self.limit) / self.limit * elapsed_ms
        return min(self.throttle_ms_max, math.floor(min(wait_ms, THROTTLE_MS_MAX) + 0.5))

    def is_quiet(self, now_ms: int) -> bool:
        """True if nothing was recorded lately, so this meter may be dropped."""
        self._drop_old(now_ms)
        return not any(sample.total for sample in self._samples)

    def _total(self) -> float:
        return sum(sample.total for sample in self._samples)

    def _elapsed_ms(self, now_ms: int) -> int:
        """The time since the oldest sample began. Windows that are missing count as full ones."""
        self._drop_old(now_ms)
        start_ms = min((sample.start_ms for sample in self._samples), default=now_ms)
        elapsed_ms = max(0, now_ms - start_ms)  # the clock may have been set back
        missing = self._count - 1 - elapsed_ms // self._window_ms
        return max(1, elapsed_ms + max(0, missing) * self._window_ms)

    def _drop_old(self, now_ms: int) -> None:
        age_ms_max = self._count * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= age_ms_max:
                sample.reset(now_ms)


class TokenBucket:
    """Tokens that return at a steady rate, up to a burst; below zero everybody waits (KIP-599).

    A request that finds tokens may take more than there are. So a topic with more partitions than
    the burst can be created, and is paid for afterwards.
    """

    __slots__ = ("_burst_s", "_filled_ms", "_tokens", "limit")

    def __init__(self, limit: float, *, count: int, window_ms: int) -> None:
        self.limit = limit
        self._burst_s = count * window_ms / 1000
        self._tokens = math.inf  # a new one is full
        self._filled_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        self._fill(now_ms)
        self._tokens -= value

    def throttle_ms(self, now_ms: int) -> int:
        """How long until the debt is paid."""
        self._fill(now_ms)
        if self._tokens >= 0:
            return 0
        wait_ms = -self._tokens / self.limit * 1000
        return math.floor(min(wait_ms, THROTTLE_MS_MAX) + 0.5)

    def is_quiet(self, now_ms: int) -> bool:
        self._fill(now_ms)
        return self._tokens >= self.limit * self._burst_s

    def _fill(self, now_ms: int) -> None:
        come = self.limit * max(0, now_ms - self._filled_ms) / 1000
        self._tokens = min(self.limit * self._burst_s, self._tokens + come)
        self._filled_ms = now_ms
