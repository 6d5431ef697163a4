"""Patterns of Java's SimpleDateFormat, in UTC and English: `yyyy-MM-dd'T'HH:mm:ss.SSSX`.

As in Java, parsing is lenient (January 32 is February 1) and stops at the end of the pattern;
fields that the pattern lacks are those of 1970-01-01 00:00.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMERIC: Final = "yYuMLdDFwWHkKhmsS"
LETTERS: Final = NUMERIC + "GEazZX"
TWO_DIGIT_YEARS_AHEAD: Final = 20  # Java's: 80 years back, 20 ahead


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A field (its letter and their count), or literal text."""

    letter: str
    count: int
    text: str


class DateFormat:
    """Raises ValueError for an invalid pattern, and for text that does not match it."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = parts_of(pattern)

    def format(self, moment: datetime.datetime) -> str:
        moment = moment.astimezone(datetime.UTC)
        return "".join(
            FORMATTERS[part.letter](moment, part.count) if part.letter else part.text
            for part in self._parts
        )

    def parse(self, text: str) -> datetime.datetime:
        found: dict[str, int] = {}
        position = 0
        for index, part in enumerate(self._parts):
            if part.letter:
                position = self._field(text, position, index, found)
            elif text.startswith(part.text, position):
                position += len(part.text)
            else:
                raise ValueError(f"{text!r} does not fit {self.pattern!r}")
        return moment_of(found)

    def _field(self, text: str, position: int, index: int, found: dict[str, int]) -> int:
        part = self._parts[index]
        if part.letter in "GEazZX" or (part.letter in "ML" and part.count >= 3):
            return _word(part, text, position, found)
        after = self._parts[index + 1] if index + 1 < len(self._parts) else None
        adjacent = after is not None and bool(after.letter) and after.letter in NUMERIC
        width = rf"{{1,{part.count}}}" if adjacent else "+"
        match = re.compile(rf"\s*([+-]?\d{width})").match(text, position)
        if match is None:
            raise ValueError(f"no number for {part.letter} in {text!r}")
        digits = match.group(1)
        number = int(digits)
        if part.letter in "yY" and part.count <= 2 and len(digits) == 2:
            number = _whole_year(number)
        found["M" if part.letter == "L" else part.letter] = number
        return match.end()


def parts_of(pattern: str) -> list[PatternPart]:
    parts = []
    for token in re.finditer(r"'((?:[^']|'')*)'|'|([A-Za-z])\2*|[^A-Za-z']+", pattern):
        text, letter = token.group(), token.group(2)
        if letter:
            if letter not in LETTERS:
                raise ValueError(f"Illegal pattern character '{letter}'")
            parts.append(PatternPart(letter, len(text), ""))
        elif text == "'":
            raise ValueError("Unterminated quote")
        elif text.startswith("'"):
            parts.append(PatternPart("", 0, token.group(1).replace("''", "'") or "'"))
        else:
            parts.append(PatternPart("", 0, text))
    return parts


# Writing.


def _number(value: Callable[[datetime.datetime], int]) -> Callable[[datetime.datetime, int], str]:
    return lambda moment, count: str(value(moment)).zfill(count)


def _year(moment: datetime.datetime, count: int) -> str:
    return f"{moment.year % 100:02}" if count == 2 else str(moment.year).zfill(count)


def _week_year(moment: datetime.datetime, count: int) -> str:
    year = _week(moment)[0]
    return f"{year % 100:02}" if count == 2 else str(year).zfill(count)


def _week(moment: datetime.datetime) -> tuple[int, int]:
    """Year and week as in the United States: weeks start on Sunday; January 1 is in week 1."""
    day = moment.date()
    to_saturday = datetime.timedelta(days=(5 - day.weekday()) % 7)
    year = (day + to_saturday).year
    first = datetime.date(year, 1, 1)
    sunday = first - datetime.timedelta(days=(first.weekday() + 1) % 7)
    return year, (day - sunday).days // 7 + 1


def _week_of_month(moment: datetime.datetime) -> int:
    first = moment.date().replace(day=1)
    return (moment.day + (first.weekday() + 1) % 7 - 1) // 7 + 1


def _month(moment: datetime.datetime, count: int) -> str:
    if count < 3:
        return str(moment.month).zfill(count)
    name = MONTHS[moment.month - 1]
    return name if count > 3 else name[:3]


def _day_name(moment: datetime.datetime, count: int) -> str:
    name = DAYS[moment.weekday()]
    return name if count > 3 else name[:3]


FORMATTERS: Final[dict[str, Callable[[datetime.datetime, int], str]]] = {
    "G": lambda moment, count: "AD",
    "y": _year,
    "Y": _week_year,
    "M": _month,
    "L": _month,
    "w": _number(lambda moment: _week(moment)[1]),
    "W": _number(_week_of_month),
    "D": _number(lambda moment: moment.timetuple().tm_yday),
    "d": _number(lambda moment: moment.day),
    "F": _number(lambda moment: (moment.day - 1) // 7 + 1),
    "E": _day_name,
    "u": _number(lambda moment: moment.isoweekday()),
    "a": lambda moment, count: "AM" if moment.hour < 12 else "PM",
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "K": _number(lambda moment: moment.hour % 12),
    "h": _number(lambda moment: moment.hour % 12 or 12),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "S": _number(lambda moment: moment.microsecond // 1000),
    "z": lambda moment, count: "Coordinated Universal Time" if count > 3 else "UTC",
    "Z": lambda moment, count: "+0000",
    "X": lambda moment, count: "Z",
}


# Reading.


def _whole_year(number: int) -> int:
    latest = datetime.datetime.now(datetime.UTC).year + TWO_DIGIT_YEARS_AHEAD
    return latest - (latest - number) % 100


def _word(part: PatternPart, text: str, position: int, found: dict[str, int]) -> int:
    if part.letter in "zZX":
        return _zone(text, position, found)
    words: tuple[str, ...] = {"G": ("AD", "BC"), "E": DAYS, "a": ("AM", "PM")}.get(
        part.letter, MONTHS
    )
    rest = text[position:].lower()
    for number, word in enumerate(words):
        for form in (word, word[:3]):
            if rest.startswith(form.lower()):
                found["M" if part.letter in "ML" else part.letter] = number + (
                    1 if part.letter in "ML" else 0
                )
                return position + len(form)
    raise ValueError(f"no {part.letter} in {text!r}")


ZONE: Final = re.compile(
    r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?|(Z\b|UTC\b|GMT\b)|([A-Za-z][A-Za-z/_]*)"
)


def _zone(text: str, position: int, found: dict[str, int]) -> int:
    match = ZONE.match(text, position)
    if match is None:
        raise ValueError(f"no time zone in {text!r}")
    sign, hours, minutes, _, name = match.groups()
    if sign:
        found["zone"] = (int(hours) * 60 + int(minutes or 0)) * (-1 if sign == "-" else 1)
    elif name:
        found["zone"] = _named_zone(name)
    else:
        found["zone"] = 0
    return match.end()


def _named_zone(name: str) -> int:
    """Minutes east of Greenwich. A short name is a fixed offset without daylight-saving rules."""
    short = {"EST": -300, "EDT": -240, "CST": -360, "CDT": -300, "MST": -420, "MDT": -360,
             "PST": -480, "PDT": -420, "CET": 60, "CEST": 120}  # fmt: skip
    if name in short:
        return short[name]
    try:
        offset = ZoneInfo(name).utcoffset(datetime.datetime(1970, 1, 1))
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"{name!r} is not a time zone") from None
    return int(offset.total_seconds() // 60) if offset is not None else 0


def moment_of(found: dict[str, int]) -> datetime.datetime:
    """Fields may overflow into the next larger one."""
    year = found.get("y", found.get("Y", 1970))
    if found.get("G") == 1:
        raise ValueError("years before Christ are not supported")
    if "D" in found:
        months, days = 0, found["D"] - 1
    else:
        months, days = found.get("M", 1) - 1, found.get("d", 1) - 1
    start = datetime.datetime(year + months // 12, months % 12 + 1, 1, tzinfo=datetime.UTC)
    moment = start + datetime.timedelta(
        days=days,
        hours=_hour(found),
        minutes=found.get("m", 0) - found.get("zone", 0),
        seconds=found.get("s", 0),
        milliseconds=found.get("S", 0),
    )
    return moment


def _hour(found: dict[str, int]) -> int:
    if "H" in found:
        return found["H"]
    if "k" in found:
        return found["k"] % 24
    if "h" in found or "K" in found:
        hour = found["h"] % 12 if "h" in found else found["K"]
        return hour + 12 * found.get("a", 0)
    return 12 * found.get("a", 0)
