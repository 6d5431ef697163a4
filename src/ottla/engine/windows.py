"""Windows: which of them a record falls into, and how long each stays open.

    tumbling(minutes=1)                              fixed size, without gaps or overlap
    hopping(minutes=5, advance=timedelta(minutes=1)) fixed size, a new one at every advance
    sliding(seconds=10)                              records at most this far apart
    session(minutes=30)                              records without a gap of this length
    within(minutes=5)                                for joins of two streams

`grace` is how long after its end a window accepts late records, by stream time; zero by default. A
span is a timedelta, a number of milliseconds, or keyword units (`minutes=1`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, Unpack

from ottla.engine.records import Window

Span = timedelta | int

# Kafka's end of an unlimited window.
FOREVER_MS = (1 << 63) - 1


class Units(TypedDict, total=False):
    """A span in keyword units."""

    days: float
    hours: float
    minutes: float
    seconds: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size, aligned to the epoch: the start is inclusive, the end exclusive."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ValueError("Window size (sizeMs) must be larger than zero.")
        if not 0 < self.advance_ms <= self.size_ms:
            raise ValueError(
                "Window advancement interval should be more than zero and less than window "
                f"duration which is {self.size_ms} ms, but given advancement interval is: "
                f"{self.advance_ms} ms"
            )
        _check_grace(self.grace_ms)

    @property
    def retention_ms(self) -> int:
        return self.size_ms + self.grace_ms

    def windows_for(self, timestamp: int) -> list[Window]:
        """Every window that contains this timestamp, earliest first."""
        if self.advance_ms == self.size_ms:
            start = timestamp - timestamp % self.size_ms
            return [Window(start, start + self.size_ms)]
        first = max(0, timestamp - self.size_ms + self.advance_ms)
        first -= first % self.advance_ms
        return [
            Window(start, start + self.size_ms)
            for start in range(first, timestamp + 1, self.advance_ms)
        ]


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window with a start and no end."""

    start_ms: int

    def __post_init__(self) -> None:
        if self.start_ms < 0:
            raise ValueError(f"Window start time (startMs) cannot be negative: {self.start_ms}")

    @property
    def size_ms(self) -> int:
        return FOREVER_MS

    @property
    def grace_ms(self) -> int:
        return 0

    @property
    def retention_ms(self) -> int:
        return FOREVER_MS

    def windows_for(self, timestamp: int) -> list[Window]:
        return [Window(self.start_ms, FOREVER_MS)] if timestamp >= self.start_ms else []


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows defined by records: one ends at each record, one starts just after it."""

    difference_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.difference_ms < 0:
            raise ValueError("Window time difference must not be negative.")
        _check_grace(self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """A late record reads windows that started two differences before it."""
        return 2 * self.difference_ms + self.grace_ms


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Windows that grow with their records and merge when a record closes the gap."""

    gap_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise ValueError("Gap time cannot be zero or negative.")
        _check_grace(self.grace_ms)

    @property
    def retention_ms(self) -> int:
        return self.gap_ms + self.grace_ms


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The other stream's record may be at most this much earlier or later than this stream's."""

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise ValueError("Window interval (ie, beforeMs+afterMs) must not be negative.")
        _check_grace(self.grace_ms)

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        return self.size_ms + self.grace_ms


AggregateWindows = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows


def tumbling(size: Span = 0, *, grace: Span = 0, **units: Unpack[Units]) -> TimeWindows:
    size_ms = milliseconds(size, units)
    return TimeWindows(size_ms, size_ms or 1, milliseconds(grace))


def hopping(
    size: Span = 0, *, advance: Span, grace: Span = 0, **units: Unpack[Units]
) -> TimeWindows:
    return TimeWindows(milliseconds(size, units), milliseconds(advance), milliseconds(grace))


def sliding(difference: Span = 0, *, grace: Span = 0, **units: Unpack[Units]) -> SlidingWindows:
    return SlidingWindows(milliseconds(difference, units), milliseconds(grace))


def session(gap: Span = 0, *, grace: Span = 0, **units: Unpack[Units]) -> SessionWindows:
    return SessionWindows(milliseconds(gap, units), milliseconds(grace))


def unlimited(*, start: int = 0) -> UnlimitedWindows:
    return UnlimitedWindows(start)


def within(
    difference: Span = 0,
    *,
    before: Span | None = None,
    after: Span | None = None,
    grace: Span = 0,
    **units: Unpack[Units],
) -> JoinWindows:
    """`difference` holds in both directions unless `before` or `after` override it."""
    both_ms = milliseconds(difference, units)
    return JoinWindows(
        before_ms=both_ms if before is None else milliseconds(before),
        after_ms=both_ms if after is None else milliseconds(after),
        grace_ms=milliseconds(grace),
    )


def milliseconds(span: Span, units: Units | None = None) -> int:
    total = span if isinstance(span, timedelta) else timedelta(milliseconds=span)
    if units:
        total += timedelta(**units)
    return total // timedelta(milliseconds=1)


def _check_grace(grace_ms: int) -> None:
    if grace_ms < 0:
        raise ValueError("Grace period must not be negative.")
