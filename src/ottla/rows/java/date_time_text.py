"""Formats dates and times by the patterns of Java's DateTimeFormatter."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

from ottla.rows.java.timestamp_pattern import DAYS, MONTHS

TOKENS: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)


def date_time_text(moment: dt.datetime, pattern: str) -> str:
    """Raises ValueError for an unknown letter. The moment has the time zone to show."""
    parts = []
    for token in TOKENS.finditer(pattern):
        text = token.group()
        if text == "''":
            parts.append("'")
        elif text.startswith("'") and len(text) > 1:
            parts.append(text[1:-1].replace("''", "'"))
        elif token.group(1):
            parts.append(_field(moment, text))
        elif text not in "[]":
            parts.append(text)
    return "".join(parts)


def _field(moment: dt.datetime, letters: str) -> str:
    letter, count = letters[0], len(letters)
    if letter not in FIELDS:
        raise ValueError(f"Unknown pattern letter: {letter}")
    return FIELDS[letter](moment, count)


def _number(value: Callable[[dt.datetime], int]) -> Callable[[dt.datetime, int], str]:
    return lambda moment, count: str(value(moment)).zfill(count)


def _year(moment: dt.datetime, count: int) -> str:
    return f"{moment.year % 100:02}" if count == 2 else str(moment.year).zfill(count)


def _named(
    names: list[str], index_of: Callable[[dt.datetime], int]
) -> Callable[[dt.datetime, int], str]:
    def name(moment: dt.datetime, count: int) -> str:
        found = names[index_of(moment)]
        return found if count == 4 else found[: 1 if count == 5 else 3]

    return name


_month_name: Final = _named(MONTHS, lambda moment: moment.month - 1)


def _month(moment: dt.datetime, count: int) -> str:
    return str(moment.month).zfill(count) if count < 3 else _month_name(moment, count)


def _offset(moment: dt.datetime, *, colon: bool, minutes: bool) -> str:
    seconds = int((moment.utcoffset() or dt.timedelta()).total_seconds())
    hours, rest = divmod(abs(seconds) // 60, 60)
    behind = f"{':' if colon else ''}{rest:02}" if minutes or rest else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02}{behind}"


def _iso_offset(zero: str) -> Callable[[dt.datetime, int], str]:
    def offset(moment: dt.datetime, count: int) -> str:
        if zero and not moment.utcoffset():
            return zero
        return _offset(moment, colon=count in (3, 5), minutes=count > 1)

    return offset


def _zone_offset(moment: dt.datetime, count: int) -> str:
    if count == 4:
        return _localized(moment, count)
    if count == 5:
        return _offset(moment, colon=True, minutes=True) if moment.utcoffset() else "Z"
    return _offset(moment, colon=False, minutes=True)


def _localized(moment: dt.datetime, count: int) -> str:
    if not moment.utcoffset():
        return "GMT"
    text = _offset(moment, colon=True, minutes=count == 4)
    return f"GMT{text}" if count == 4 else f"GMT{text[0]}{text[1:].removeprefix('0')}"


def _zone_name(moment: dt.datetime, count: int) -> str:
    return moment.tzname() or "UTC"


def _zone_id(moment: dt.datetime, count: int) -> str:
    return str(getattr(moment.tzinfo, "key", None) or moment.tzname())


FIELDS: Final[dict[str, Callable[[dt.datetime, int], str]]] = {
    "G": lambda moment, count: "Anno Domini" if count == 4 else "AD",
    "y": _year,
    "u": _year,
    "M": _month,
    "L": _month,
    "Q": _number(lambda moment: (moment.month + 2) // 3),
    "q": _number(lambda moment: (moment.month + 2) // 3),
    "D": _number(lambda moment: moment.timetuple().tm_yday),
    "d": _number(lambda moment: moment.day),
    "F": _number(lambda moment: (moment.day - 1) // 7 + 1),
    "E": _named(DAYS, dt.datetime.weekday),
    "a": lambda moment, count: "AM" if moment.hour < 12 else "PM",
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "K": _number(lambda moment: moment.hour % 12),
    "h": _number(lambda moment: moment.hour % 12 or 12),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "S": lambda moment, count: f"{moment.microsecond:06}000"[:count],
    "n": _number(lambda moment: moment.microsecond * 1000),
    "z": _zone_name,
    "V": _zone_id,
    "O": _localized,
    "X": _iso_offset("Z"),
    "x": _iso_offset(""),
    "Z": _zone_offset,
}
