"""Numbers for Prometheus, and the text in which it reads them.

A counter is a plain int of whoever counts, a gauge is asked for when somebody looks; both become
samples of a Family. Only a histogram needs code. The format is Prometheus' text format 0.0.4.
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


class Family(NamedTuple):
    """A metric with all its samples. Those are taken one by one, while the text is written."""

    name: str
    kind: Kind
    help: str
    samples: Iterable[Sample]


class Histogram:
    """How many values were at most each of `bounds`, and their sum: whole numbers, of a small unit,
    so that counting is cheap."""

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
        """In units of which each is `unit` of those that were counted."""
        count = 0
        for bound, each in zip((*self._bounds, float("inf")), self._counts, strict=True):
            count += each
            yield Sample({**labels, "le": number(bound / unit)}, count, "_bucket")
        yield Sample(labels, self._sum / unit, "_sum")
        yield Sample(labels, count, "_count")


def gauge(name: str, help: str, value: Number) -> Family:
    """One number without labels."""
    return Family(name, "gauge", help, (Sample(NO_LABELS, value),))


def counter(name: str, help: str, value: Number) -> Family:
    return Family(name, "counter", help, (Sample(NO_LABELS, value),))


def by_label(
    name: str, kind: Kind, help: str, label: str, values: Iterable[tuple[str, Number]]
) -> Family:
    """A number for each value of one label."""
    return Family(name, kind, help, [Sample({label: each}, value) for each, value in values])


def lines(family: Family) -> Iterator[str]:
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
