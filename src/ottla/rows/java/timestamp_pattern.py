"""TIMESTAMP_FORMAT: the commonly used part of Java's DateTimeFormatter patterns."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.rows.errors import SqlError
from ottla.rows.formats.scalars import epoch_ms_of

MONTHS: Final = [
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
]
DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

_OFFSET: Final = r"(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?)"
_REGION: Final = r"(?P<zone>Z|[+-]\d{2}:?\d{2}|[A-Za-z][A-Za-z0-9_+\-/]*)"


def _numbers(name: str, letters: str, digits_max: int) -> dict[str, str]:
    """One letter matches any number of digits; several match exactly that many."""
    exact = {letters * size: rf"(?P<{name}>\d{{{size}}})" for size in range(2, digits_max + 1)}
    return {letters: rf"(?P<{name}>\d{{1,{digits_max}}})", **exact}


def _words(name: str, words: list[str], size: int | None) -> str:
    return rf"(?P<{name}>{'|'.join(word[:size] for word in words)})"


FIELDS: Final[dict[str, str]] = {
    **_numbers("month", "M", 2),
    **_numbers("month", "L", 2),
    **_numbers("day", "d", 2),
    **_numbers("yearday", "D", 3),
    **_numbers("hour", "H", 2),
    **_numbers("clock", "h", 2),
    **_numbers("hour24", "k", 2),
    **_numbers("hour12", "K", 2),
    **_numbers("minute", "m", 2),
    **_numbers("second", "s", 2),
    **{"S" * size: rf"(?P<fraction>\d{{{size}}})" for size in range(1, 10)},
    **{letter * size: r"(?P<year>\d{4,9})" for letter in "yu" for size in (1, 4)},
    **{letter * 2: r"(?P<century>\d{2})" for letter in "yu"},
    "MMM": _words("name", MONTHS, 3),
    "MMMM": _words("name", MONTHS, None),
    "E": _words("weekday", DAYS, 3),
    "EE": _words("weekday", DAYS, 3),
    "EEE": _words("weekday", DAYS, 3),
    "EEEE": _words("weekday", DAYS, None),
    "a": r"(?P<half>AM|PM|am|pm)",
    "n": r"(?P<nano>\d{1,9})",
    **{letter * size: _OFFSET for letter in "XxZ" for size in (1, 2, 3)},
    "O": _OFFSET,
    "VV": _REGION,
    **{"z" * size: _REGION for size in (1, 2, 3, 4)},
}


SHORT_NAMES: Final = {
    **dict.fromkeys(("PST", "PDT", "PT"), "America/Los_Angeles"),
    **dict.fromkeys(("MST", "MDT", "MT"), "America/Denver"),
    **dict.fromkeys(("CST", "CDT", "CT"), "America/Chicago"),
    **dict.fromkeys(("EST", "EDT", "ET"), "America/New_York"),
    **dict.fromkeys(("BST",), "Europe/London"),
    **dict.fromkeys(("CET", "CEST"), "Europe/Paris"),
    **dict.fromkeys(("Z", "UTC", "UT", "GMT"), "UTC"),
}


class TimestampPattern:
    """Missing fields are those of 1970-01-01 00:00; the default zone is UTC."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        self.pattern = pattern
        try:
            flags = re.IGNORECASE if ignore_case else re.NOFLAG
            self._expression = re.compile(_translated(pattern), flags)
        except re.error:
            raise SqlError(
                f"The timestamp pattern '{pattern}' has a field twice: that is not supported."
            ) from None

    @property
    def expression(self) -> str:
        """The pattern as a Java regular expression."""
        return self._expression.pattern.replace("(?P<", "(?<")

    def epoch_ms(self, text: str) -> int:
        """Raises ValueError."""
        return epoch_ms_of(self.moment(text))

    def moment(self, text: str, zone: dt.tzinfo = dt.UTC, *, more: bool = False) -> dt.datetime:
        """`zone` is the default; `more` allows text after the match. Raises ValueError."""
        find = self._expression.match if more else self._expression.fullmatch
        match = find(text)
        if match is None:
            raise ValueError(f"Text '{text}' does not fit the pattern '{self.pattern}'")
        found = {name: value for name, value in match.groupdict().items() if value is not None}
        try:
            return _moment(found, zone)
        except (ValueError, OverflowError, ZoneInfoNotFoundError) as error:
            raise ValueError(f"Text '{text}' is not a timestamp: {error}") from None


def _translated(pattern: str) -> str:
    parts = []
    for token in re.finditer(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", pattern, re.DOTALL):
        text = token.group()
        if text == "''":
            parts.append("'")
        elif text.startswith("'") and len(text) > 1:
            parts.append(re.escape(text[1:-1].replace("''", "'")))
        elif text == "[":
            parts.append("(?:")
        elif text == "]":
            parts.append(")?")
        elif text.isalpha():
            parts.append(_field(text, pattern))
        else:
            parts.append(re.escape(text))
    return "".join(parts)


def _field(letters: str, pattern: str) -> str:
    if letters not in FIELDS:
        raise SqlError(
            f"'{letters}' in the timestamp pattern '{pattern}' is not supported.",
            remedy="Supported are y u M d D H h m s S n a E and the zones X x Z O z VV,"
            " text in quotes, and optional parts in brackets.",
        )
    return FIELDS[letters]


def _moment(found: dict[str, str], zone: dt.tzinfo) -> dt.datetime:
    zone = zone_of(found["zone"]) if "zone" in found else zone
    day = _day(found)
    fraction = found.get("fraction", "").ljust(9, "0") if "fraction" in found else "0"
    nano = int(found.get("nano", fraction))
    return dt.datetime(
        day.year,
        day.month,
        day.day,
        _hour(found),
        int(found.get("minute", 0)),
        int(found.get("second", 0)),
        nano // 1000,
        zone,
    )


def _day(found: dict[str, str]) -> dt.date:
    year = int(found.get("year", 1970))
    if "century" in found:
        year = 2000 + int(found["century"])
    if "yearday" in found:
        day = dt.date(year, 1, 1) + dt.timedelta(days=int(found["yearday"]) - 1)
        if day.year != year:
            raise ValueError(f"there is no day {found['yearday']} in {year}")
        return day
    month = int(found.get("month", 1))
    if "name" in found:
        short = found["name"][:3].capitalize()
        month = 1 + next(n for n, month in enumerate(MONTHS) if month.startswith(short))
    return dt.date(year, month, int(found.get("day", 1)))


def _hour(found: dict[str, str]) -> int:
    afternoon = found.get("half", "AM").upper() == "PM"
    if "hour24" in found:
        return int(found["hour24"]) % 24
    if "hour12" in found:
        return int(found["hour12"]) + 12 * afternoon
    if "clock" not in found:
        return int(found.get("hour", 0))
    hour = int(found["clock"])
    if not 1 <= hour <= 12:
        raise ValueError(f"{hour} is not an hour of a 12-hour clock")
    return hour % 12 + 12 * afternoon


def zone_of(text: str) -> dt.tzinfo:
    """`Z`, `+0200`, `Europe/London`, or a name such as PST, with its region's daylight saving."""
    text = SHORT_NAMES.get(text.upper(), text)
    if text in ("Z", "UTC", "GMT"):
        return dt.UTC
    text = text.removeprefix("UTC").removeprefix("GMT") if text[3:4] in ("+", "-") else text
    if text[0] not in "+-":
        return ZoneInfo(text)
    digits = text[1:].replace(":", "")
    digits = digits.zfill(len(digits) + len(digits) % 2).ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:6])
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-offset if text[0] == "-" else offset)
