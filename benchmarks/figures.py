"""What a measurement gives: one number with its unit, and what the broker spent on it."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from benchmarks.brokers import Target
from benchmarks.processes import cpu_seconds


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    unit: str
    value: float
    higher_is_better: bool
    cpu_us: float | None = None
    """The broker's CPU time for one record or request, in microseconds."""


def rate(name: str, unit: str, value: float, *, cpu_us: float | None = None) -> Figure:
    return Figure(name, unit, value, higher_is_better=True, cpu_us=cpu_us)


def cost(name: str, unit: str, value: float, *, cpu_us: float | None = None) -> Figure:
    return Figure(name, unit, value, higher_is_better=False, cpu_us=cpu_us)


class Meter:
    """The CPU seconds of a broker, or of a whole cluster, between entry and exit: on a noisy
    machine a steadier figure than the clock on the wall."""

    def __init__(self, target: Target) -> None:
        self.pids = target.pids
        self.cpu_s = 0.0

    def __enter__(self) -> Meter:
        self._before = self._used_s()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cpu_s = self._used_s() - self._before

    def _used_s(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.pids)

    def us_per(self, count: float) -> float:
        return self.cpu_s * 1e6 / count if count else 0.0
