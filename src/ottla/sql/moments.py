"""Parsing of dates and times: ISO 8601, possibly shortened at the end, in UTC by default."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Final

from ottla.rows.errors import SqlError

_MOMENT: Final = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{1,2})"
    r"(?::(\d{1,2})(?:[.,](\d{1,9}))?)?)?)?)?)?\s*(Z|z|UTC|[+-]\d{2}:?\d{2})?"
)
DAY_END: Final = "24"
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")


def timestamp_of(text: str) -> datetime:
    """`2020`, `2020-02-03T10:11`, `2020-02-03T10:11:12.345+0100` in UTC. `T24:00` is midnight at
    the end of the day, as in Java."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise SqlError(
            f"Failed to parse timestamp '{text}'",
            remedy="Write 2020-02-03T10:11:12.345, and append +01:00 if it is not in UTC.",
        )
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    ends_day = hour == DAY_END and not any(int(part or 0) for part in (minute, second, fraction))
    try:
        moment = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            0 if ends_day else int(hour or 0),
            int(minute or 0),
            int(second or 0),
            _micros(fraction),
            tzinfo=_zone(zone),
        )
        return (moment + timedelta(days=ends_day)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise SqlError(f"Failed to parse timestamp '{text}': {error}") from None


def millis_of(text: str) -> int:
    moment = timestamp_of(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return moment // timedelta(milliseconds=1)


def date_of(text: str) -> date:
    return timestamp_of(text).date()


def time_of(text: str) -> time:
    found = _TIME.fullmatch(text.strip())
    try:
        if found is not None:
            hour, minute, second, fraction = found.groups()
            return time(int(hour), int(minute), int(second or 0), _micros(fraction))
    except ValueError:
        pass
    raise SqlError(f"Failed to parse time '{text}'", remedy="Write 10:11:12.345.")


def _micros(fraction: str | None) -> int:
    """Truncated to milliseconds, as in ksqlDB."""
    return int((fraction or "0").ljust(9, "0")[:3]) * 1000


def _zone(text: str | None) -> timezone:
    if text is None or text in ("Z", "z", "UTC"):
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))
