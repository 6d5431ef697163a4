"""ISO 8601 durations, such as P2DT3H4M5.6S: how far back a share group starts (KIP-932)."""

from __future__ import annotations

import re

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<D>[-+]?\d+)D)?"
    r"(?:T(?=.)(?:(?P<H>[-+]?\d+)H)?(?:(?P<M>[-+]?\d+)M)?"
    r"(?:(?P<S>[-+]?\d+)(?:[.,](?P<F>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNIT_MS = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1000}


def duration_ms(text: str) -> int:
    """A duration in whole milliseconds, possibly negative; ValueError if it can't be parsed."""
    match = _DURATION.fullmatch(text)
    if match is None or all(match[unit] is None for unit in _UNIT_MS):
        raise ValueError(f"{text!r} is not a duration")
    total_ms = sum(int(match[unit] or 0) * size for unit, size in _UNIT_MS.items())
    fraction_ms = int((match["F"] or "").ljust(3, "0")[:3])
    total_ms += -fraction_ms if (match["S"] or "").startswith("-") else fraction_ms
    return -total_ms if match["sign"] == "-" else total_ms
