"""How much of something there was lately, and for how long to wait if that was too much.

Kafka's arithmetic, so that a client is throttled here as it would be there: a rate is what fell
into the last `count` windows, over the time since the oldest of them began. Time is an argument.
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
    """What was recorded in a second, on average over the windows, and its limit."""

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
        """The most that can be recorded at once, after a while of nothing, within the limit."""
        return self.limit * max(1, self._count - 1) * self._window_ms / 1000

    def charge(self, value: float, now_ms: int) -> int:
        """Record, and say for how many milliseconds the client has to be quiet now."""
        self.record(value, now_ms)
        return self.throttle_ms(now_ms)

    def record(self, value: float, now_ms: int) -> None:
        """A negative value takes back what was recorded at the same time."""
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
        """So long that the rate, were nothing recorded meanwhile, would be back at its limit."""
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = self._total() * 1000 / elapsed_ms
        if rate <= self.limit:
            return 0
        if self.limit <= 0:
            return self.throttle_ms_max
        wait_ms = (rate - self.limit) / self.limit * elapsed_ms
        return min(self.throttle_ms_max, math.floor(min(wait_ms, THROTTLE_MS_MAX) + 0.5))

    def is_quiet(self, now_ms: int) -> bool:
        """Whether nothing at all was recorded lately: this one may be forgotten."""
        self._drop_old(now_ms)
        return not any(sample.total for sample in self._samples)

    def _total(self) -> float:
        return sum(sample.total for sample in self._samples)

    def _elapsed_ms(self, now_ms: int) -> int:
        """Since the oldest sample began; windows that have not come yet count as if they had."""
        self._drop_old(now_ms)
        start_ms = min((sample.start_ms for sample in self._samples), default=now_ms)
        elapsed_ms = max(0, now_ms - start_ms)  # clocks are set back, too
        missing = self._count - 1 - elapsed_ms // self._window_ms
        return max(1, elapsed_ms + max(0, missing) * self._window_ms)

    def _drop_old(self, now_ms: int) -> None:
        age_ms_max = self._count * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= age_ms_max:
                sample.reset(now_ms)


class TokenBucket:
    """Tokens that come back at a steady rate, up to a burst; below none, everybody waits (KIP-599).

    One that has some left may go below none at once, for however much it asks: so a topic with more
    partitions than the burst can be made, and is paid for afterwards.
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
        """Until there is no debt any more."""
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
