"""Functions of dates, times and timestamps. Formats and time zones are Java's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from ottla.rows.formats.scalars import EPOCH, FIRST_DAY, epoch_ms_of, timestamp_of
from ottla.rows.java.date_time_text import date_time_text
from ottla.rows.java.timestamp_pattern import TimestampPattern, zone_of

UNITS_MS: Final = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}
DAY: Final = dt.timedelta(days=1)


@lru_cache(maxsize=1024)
def _pattern(format_: str) -> TimestampPattern:
    return TimestampPattern(format_, ignore_case=True)


def formatted(moment: dt.datetime, format_: str, zone: str = "UTC") -> str:
    return date_time_text(moment.astimezone(zone_of(zone)), format_)


def formatted_date(day: dt.date, format_: str) -> str:
    return date_time_text(dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC), format_)


def formatted_time(time: dt.time, format_: str) -> str:
    return date_time_text(dt.datetime.combine(FIRST_DAY, time, dt.UTC), format_)


def formatted_millis(millis: int, format_: str, zone: str = "UTC") -> str:
    return formatted(timestamp_of(millis), format_, zone)


def formatted_days(days: int, format_: str) -> str:
    return formatted_date(from_days(days), format_)


def parsed(text: str, format_: str, zone: str = "UTC") -> dt.datetime:
    """Parse a timestamp, in milliseconds. A zone in the text overrides the argument."""
    moment = _pattern(format_).moment(text, zone_of(zone))
    return moment.astimezone(dt.UTC).replace(microsecond=moment.microsecond // 1000 * 1000)


def parsed_date(text: str, format_: str) -> dt.date:
    """Parse a date; text after the date is ignored."""
    return _pattern(format_).moment(text, more=True).date()


def parsed_time(text: str, format_: str) -> dt.time:
    return parsed(text, format_).time()


def parsed_millis(text: str, format_: str, zone: str = "UTC") -> int:
    return epoch_ms_of(parsed(text, format_, zone))


def parsed_days(text: str, format_: str) -> int:
    return unix_date(_pattern(format_).moment(text).date())


def in_zone(moment: dt.datetime, from_: str, to: str) -> dt.datetime:
    """Convert a local time of one zone to the local time of another."""
    there = moment.replace(tzinfo=zone_of(from_)).astimezone(zone_of(to))
    return there.replace(tzinfo=dt.UTC)


def from_days(days: int) -> dt.date:
    return FIRST_DAY + dt.timedelta(days=days)


def unix_date(day: dt.date) -> int:
    return (day - FIRST_DAY).days


def today() -> int:
    return unix_date(dt.datetime.now(dt.UTC).date())


def now() -> int:
    return (dt.datetime.now(dt.UTC) - EPOCH) // dt.timedelta(milliseconds=1)


def _span(unit: str, count: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=UNITS_MS[unit.upper().removesuffix("S")] * count)


def moved(kind: str, sign: int) -> Callable[[str, int, Any], Any]:
    """DATEADD, DATESUB and so on: `sign` is -1 for subtraction."""

    def date(unit: str, count: int, day: dt.date) -> dt.date:
        return day + dt.timedelta(days=_span(unit, sign * count) // DAY)

    def time(unit: str, count: int, time: dt.time) -> dt.time:
        day = dt.datetime.combine(dt.date(2000, 1, 1), time)
        return (day + _span(unit, sign * count) % DAY).time()

    def timestamp(unit: str, count: int, moment: dt.datetime) -> dt.datetime:
        return moment + _span(unit, sign * count)

    moves: dict[str, Callable[[str, int, Any], Any]]
    moves = {"DATE": date, "TIME": time, "TIMESTAMP": timestamp}
    return moves[kind]
