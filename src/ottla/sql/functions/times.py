"""Dates and times. Formats are Java's (DateTimeFormatter), which are Spark's, too."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.rows.formats.scalars import epoch_ms_of, timestamp_of
from ottla.rows.java.date_patterns import TimestampPattern
from ottla.sql.functions.declare import scalar, signature
from ottla.sql.functions.python import times as python
from ottla.sql.functions.table import Call, Function
from ottla.sql.spark_text import string

FAMILY: Final = "Dates and times"
DAY_MS: Final = 86_400_000
UNITS_MS: Final = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": DAY_MS,
}
NOT_IN_SPARK: Final = frozenset("ABNWYcenpuw")
ZONES: Final = frozenset("zVOXxZ")
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'")


def _format(call: Call, place: int) -> str:
    """The format, checked where it is a literal: Spark would end the query for a bad one."""
    format_ = call.constants[place]
    if isinstance(format_, str):
        bad = sorted(NOT_IN_SPARK & set(_letters(format_)))
        if bad:
            raise SqlError(
                f"Unknown pattern letter: {bad[0]} in the format '{format_}'",
                remedy="Letters for the day of the week or of the year are E and D, y is the year; "
                "text in a format stands in single quotes.",
            )
    return call.texts[place]


def _letters(format_: str) -> str:
    return _QUOTED.sub("", format_)


def _has_zone(format_: Any) -> bool:
    return isinstance(format_, str) and bool(ZONES & set(_letters(format_)))


def _formatted(call: Call, moment: str) -> str:
    """A moment as text, in UTC or in the zone of the third argument.

    Spark formats in the session's zone only, but for JSON it takes another: so the zone's name can
    be part of the text. Where zone or format come from a column, the clock is moved instead."""
    format_ = _format(call, 1)
    if len(call.texts) < 3:
        return f"date_format({moment}, {format_})"
    if isinstance(call.constants[1], str) and isinstance(call.constants[2], str):
        options = f"map('timestampFormat', {format_}, 'timeZone', {call.texts[2]})"
        text = f"get_json_object(to_json(array({moment}), {options}), '$[0]')"
        return f"IF({moment} IS NULL, NULL, {text})"  # which JSON would have as text
    return f"date_format(from_utc_timestamp({moment}, {call.texts[2]}), {format_})"


def _parsed(call: Call) -> str:
    """Text as a moment, to the millisecond. A zone in the text counts more than the argument."""
    moment = f"try_to_timestamp({call.texts[0]}, {_format(call, 1)})"
    if len(call.texts) > 2 and not _has_zone(call.constants[1]):
        moment = f"to_utc_timestamp({moment}, {call.texts[2]})"
    return f"timestamp_millis(unix_millis({moment}))"


def _parsed_date(call: Call) -> str:
    """What follows the date is not looked at: so far as the format is known beforehand."""
    text, format_ = call.texts[0], _format(call, 1)
    if isinstance(call.constants[1], str):
        with suppress(SqlError):
            expression = TimestampPattern(call.constants[1]).expression
            text = f"regexp_substr({text}, {string(f'(?i)^(?:{expression})')})"
    return f"try_to_date({text}, {format_})"


def _millis(call: Call, sign: str) -> str:
    """How much is added: the first argument is the unit, the second how many."""
    unit = str(call.constants[0]).upper().removesuffix("S")
    if unit not in UNITS_MS:
        raise SqlError(
            f"Unknown time unit: '{call.constants[0]}'",
            remedy=f"There are {', '.join(each + 'S' for each in UNITS_MS)}.",
        )
    return f"{sign} CAST({call.texts[1]} AS bigint) * {UNITS_MS[unit]}L"


def _moved(name: str, verb: str, sign: str) -> list[Function]:
    """DATEADD, TIMEADD, TIMESTAMPADD and those that take away."""

    def date(call: Call) -> str:
        millis = f"unix_date({call.texts[2]}) * {DAY_MS}L {_millis(call, sign)}"
        return f"date_from_unix_date(CAST(floor(({millis}) / {DAY_MS}L) AS int))"

    def time(call: Call) -> str:
        millis = f"time_to_millis({call.texts[2]}) {_millis(call, sign)}"
        return f"CAST(time_from_millis(pmod({millis}, {DAY_MS}L)) AS time(3))"

    def timestamp(call: Call) -> str:
        return f"timestamp_millis(unix_millis({call.texts[2]}) {_millis(call, sign)})"

    makers = {"DATE": date, "TIME": time, "TIMESTAMP": timestamp}
    return [
        scalar(
            kind + name,
            FAMILY,
            f"A {kind} with so many units of time {verb}, as in {kind}{name}(DAYS, 2, COL).",
            signature(
                f"INTERVAL unit, INTEGER count, {kind} value -> {kind}",
                maker,
                python=python.moved(kind, -1 if sign == "-" else 1),
            ),
        )
        for kind, maker in makers.items()
    ]


_ZONE: Final = "in UTC, or in the time zone that is given"

FORMATS: Final = (
    scalar(
        "FORMAT_DATE",
        FAMILY,
        "A date as text, in a format such as 'yyyy-MM-dd'.",
        signature(
            "DATE date, STRING format -> STRING",
            lambda call: _formatted(call, call.texts[0]),
            python=python.formatted_date,
        ),
    ),
    scalar(
        "FORMAT_TIME",
        FAMILY,
        "A time of day as text, in a format such as 'HH:mm:ss.SSS'.",
        signature(
            "TIME time, STRING format -> STRING",
            lambda call: _formatted(call, call.texts[0]),
            python=python.formatted_time,
        ),
    ),
    scalar(
        "FORMAT_TIMESTAMP",
        FAMILY,
        f"A moment as text, {_ZONE}.",
        *[
            signature(
                f"TIMESTAMP timestamp, STRING format{zone} -> STRING",
                lambda call: _formatted(call, call.texts[0]),
                python=python.formatted,
            )
            for zone in ("", ", STRING zone")
        ],
    ),
    scalar(
        "TIMESTAMPTOSTRING",
        FAMILY,
        f"Milliseconds since 1970 as text, {_ZONE}. Older than FORMAT_TIMESTAMP.",
        *[
            signature(
                f"BIGINT millis, STRING format{zone} -> STRING",
                lambda call: _formatted(call, f"timestamp_millis({call.texts[0]})"),
                python=python.formatted_millis,
            )
            for zone in ("", ", STRING zone")
        ],
    ),
    scalar(
        "DATETOSTRING",
        FAMILY,
        "Days since 1970 as text. Older than FORMAT_DATE.",
        signature(
            "INTEGER days, STRING format -> STRING",
            lambda call: _formatted(call, f"date_from_unix_date({call.texts[0]})"),
            python=python.formatted_days,
        ),
    ),
)

PARSERS: Final = (
    scalar(
        "PARSE_DATE",
        FAMILY,
        "The date that a text in that format is; NULL where it is none.",
        signature(
            "STRING text, STRING format -> DATE",
            _parsed_date,
            python=python.parsed_date,
        ),
    ),
    scalar(
        "PARSE_TIME",
        FAMILY,
        "The time of day that a text in that format is; NULL where it is none.",
        signature(
            "STRING text, STRING format -> TIME",
            lambda call: f"CAST(try_to_time({call.texts[0]}, {_format(call, 1)}) AS time(3))",
            python=python.parsed_time,
        ),
    ),
    scalar(
        "PARSE_TIMESTAMP",
        FAMILY,
        f"The moment that a text in that format is, {_ZONE}; NULL where it is none.",
        *[
            signature(
                f"STRING text, STRING format{zone} -> TIMESTAMP", _parsed, python=python.parsed
            )
            for zone in ("", ", STRING zone")
        ],
    ),
    scalar(
        "STRINGTODATE",
        FAMILY,
        "The days since 1970 of a text in that format. Older than PARSE_DATE.",
        signature(
            "STRING text, STRING format -> INTEGER",
            lambda call: f"unix_date(try_to_date({call.texts[0]}, {_format(call, 1)}))",
            python=python.parsed_days,
        ),
    ),
    scalar(
        "STRINGTOTIMESTAMP",
        FAMILY,
        f"The milliseconds since 1970 of a text in that format, {_ZONE}. Older than "
        "PARSE_TIMESTAMP.",
        *[
            signature(
                f"STRING text, STRING format{zone} -> BIGINT",
                lambda call: f"unix_millis({_parsed(call)})",
                python=python.parsed_millis,
            )
            for zone in ("", ", STRING zone")
        ],
    ),
)

CONVERSIONS: Final = (
    scalar(
        "CONVERT_TZ",
        FAMILY,
        "What clocks in the second time zone show when those in the first show this.",
        signature(
            "TIMESTAMP timestamp, STRING from, STRING to -> TIMESTAMP",
            "from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})",
            python=python.in_zone,
        ),
    ),
    scalar(
        "FROM_DAYS",
        FAMILY,
        "The date so many days after 1970-01-01.",
        signature("INTEGER days -> DATE", "date_from_unix_date({0})", python=python.from_days),
    ),
    scalar(
        "FROM_UNIXTIME",
        FAMILY,
        "The moment so many milliseconds after the beginning of 1970.",
        signature("BIGINT millis -> TIMESTAMP", "timestamp_millis({0})", python=timestamp_of),
    ),
    scalar(
        "UNIX_DATE",
        FAMILY,
        "The days from 1970-01-01 to a date, or until today.",
        signature("-> INTEGER", "unix_date(current_date())", python=python.today),
        signature("DATE date -> INTEGER", "unix_date({0})", python=python.unix_date),
    ),
    scalar(
        "UNIX_TIMESTAMP",
        FAMILY,
        "The milliseconds from the beginning of 1970 to a moment, or until now.",
        signature("-> BIGINT", "unix_millis(current_timestamp())", python=python.now),
        signature("TIMESTAMP timestamp -> BIGINT", "unix_millis({0})", python=epoch_ms_of),
    ),
)

TIMES: Final = (
    *FORMATS,
    *PARSERS,
    *CONVERSIONS,
    *_moved("ADD", "added", "+"),
    *_moved("SUB", "taken away", "-"),
)
