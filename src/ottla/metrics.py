"""Metrics for Prometheus, in its text format 0.0.4.

A counter is a plain int where something is counted, and a gauge is computed when the page is asked
for; both become samples of a `MetricFamily`. Only a histogram needs code.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]
Number = int | float

NO_LABELS: Final[Labels] = {}
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Sample(NamedTuple):
    labels: Labels
    value: Number
    suffix: str = ""  # of the name: _bucket, _sum, _count


class MetricFamily(NamedTuple):
    """A metric with all its samples, which are taken one by one while the text is written."""

    name: str
    kind: Kind
    help: str
    samples: Iterable[Sample]


class Histogram:
    """Counts of values up to each of `bounds`, and their sum. Values are integers of a small unit,
    such as microseconds, so that counting is cheap."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0

    @property
    def count(self) -> int:
        return sum(self._counts)

    def observe(self, value: int) -> None:
        """HOT while metrics are on."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def plus(self, other: Histogram) -> Histogram:
        assert self._bounds == other._bounds
        both = Histogram(self._bounds)
        both._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]
        both._sum = self._sum + other._sum
        return both

    def samples(self, labels: Labels = NO_LABELS, *, unit: int = 1) -> Iterator[Sample]:
        """The samples, in units of `unit` counted ones: 1,000,000 turns microseconds to seconds."""
        count = 0
        for bound, bucket_count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            count += bucket_count
            yield Sample({**labels, "le": number(bound / unit)}, count, "_bucket")
        yield Sample(labels, self._sum / unit, "_sum")
        yield Sample(labels, count, "_count")


def gauge(name: str, help: str, value: Number) -> MetricFamily:
    """A gauge without labels."""
    return MetricFamily(name, "gauge", help, (Sample(NO_LABELS, value),))


def counter(name: str, help: str, value: Number) -> MetricFamily:
    return MetricFamily(name, "counter", help, (Sample(NO_LABELS, value),))


def by_label(
    name: str, kind: Kind, help: str, label: str, values: Iterable[tuple[str, Number]]
) -> MetricFamily:
    """One sample for each value of a label."""
    samples = [Sample({label: label_value}, value) for label_value, value in values]
    return MetricFamily(name, kind, help, samples)


def lines(family: MetricFamily) -> Iterator[str]:
    """The family as text, a line at a time."""
    yield f"# HELP {family.name} {family.help.translate(_HELP_ESCAPES)}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for labels, value, suffix in family.samples:
        yield f"{family.name}{suffix}{_labels(labels)} {number(value)}\n"


def number(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    if value == float("inf"):
        return "+Inf"
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{inner}}}"
