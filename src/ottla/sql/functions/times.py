"""Functions of dates and times. Formats are those of Java's DateTimeFormatter, as in Spark."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.rows.formats.scalars import epoch_ms_of, timestamp_of
from ottla.rows.java.timestamp_pattern import TimestampPattern
from ottla.sql.functions.function_registry import Call, Function
from ottla.sql.functions.python import times as python
from ottla.sql.functions.scalar import scalar, signature
from ottla.sql.spark_strings import spark_string

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


def _format(call: Call, index: int) -> str:
    """The format. A literal is checked here, because Spark would fail the query for a bad one."""
    format_ = call.constants[index]
    if isinstance(format_, str):
        bad = sorted(NOT_IN_SPARK & set(_letters(format_)))
        if bad:
            raise SqlError(
                f"Unknown pattern letter: {bad[0]} in the format '{format_}'",
                remedy="Use y for the year, E for the day of the week, D for the day of the year; "
                "text in a format needs single quotes.",
            )
    return call.texts[index]


def _letters(format_: str) -> str:
    return _QUOTED.sub("", format_)


def _has_zone(format_: Any) -> bool:
    return isinstance(format_, str) and bool(ZONES & set(_letters(format_)))


def _formatted(call: Call, moment: str) -> str:
    """Format a timestamp, in UTC or in the zone of the third argument.

    Spark formats in the session's time zone, except in to_json, which accepts another one; so the
    result can contain the name of the zone. If zone or format are columns, the timestamp is shifted
    instead."""
    format_ = _format(call, 1)
    if len(call.texts) < 3:
        return f"date_format({moment}, {format_})"
    if isinstance(call.constants[1], str) and isinstance(call.constants[2], str):
        options = f"map('timestampFormat', {format_}, 'timeZone', {call.texts[2]})"
        text = f"get_json_object(to_json(array({moment}), {options}), '$[0]')"
        return f"IF({moment} IS NULL, NULL, {text})"  # to_json would make a text of NULL
    return f"date_format(from_utc_timestamp({moment}, {call.texts[2]}), {format_})"


def _parsed(call: Call) -> str:
    """Parse a timestamp, in milliseconds. A zone in the text overrides the argument."""
    moment = f"try_to_timestamp({call.texts[0]}, {_format(call, 1)})"
    if len(call.texts) > 2 and not _has_zone(call.constants[1]):
        moment = f"to_utc_timestamp({moment}, {call.texts[2]})"
    return f"timestamp_millis(unix_millis({moment}))"


def _parsed_date(call: Call) -> str:
    """Parse a date; if the format is a literal, text after the date is ignored."""
    text, format_ = call.texts[0], _format(call, 1)
    if isinstance(call.constants[1], str):
        with suppress(SqlError):
            expression = TimestampPattern(call.constants[1]).expression
            text = f"regexp_substr({text}, {spark_string(f'(?i)^(?:{expression})')})"
    return f"try_to_date({text}, {format_})"


def _millis(call: Call, sign: str) -> str:
    """The milliseconds to add: the first argument is the unit, the second the number."""
    unit = str(call.constants[0]).upper().removesuffix("S")
    if unit not in UNITS_MS:
        raise SqlError(
            f"Unknown time unit: '{call.constants[0]}'",
            remedy=f"There are {', '.join(unit + 'S' for unit in UNITS_MS)}.",
        )
    return f"{sign} CAST({call.texts[1]} AS bigint) * {UNITS_MS[unit]}L"


def _moved(name: str, verb: str, sign: str) -> list[Function]:
    """DATEADD, TIMEADD, TIMESTAMPADD, and the same for subtraction."""

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
            f"A {kind} with units of time {verb}, for example: {kind}{name}(DAYS, 2, COL).",
            signature(
                f"INTERVAL unit, INTEGER count, {kind} value -> {kind}",
                maker,
                python=python.moved(kind, -1 if sign == "-" else 1),
            ),
        )
        for kind, maker in makers.items()
    ]


_ZONE: Final = "in UTC, or in the given time zone"

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
        f"A timestamp as text, {_ZONE}.",
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
        "Parses a date in a format; NULL if the text is invalid.",
        signature(
            "STRING text, STRING format -> DATE",
            _parsed_date,
            python=python.parsed_date,
        ),
    ),
    scalar(
        "PARSE_TIME",
        FAMILY,
        "Parses a time of day in a format; NULL if the text is invalid.",
        signature(
            "STRING text, STRING format -> TIME",
            lambda call: f"CAST(try_to_time({call.texts[0]}, {_format(call, 1)}) AS time(3))",
            python=python.parsed_time,
        ),
    ),
    scalar(
        "PARSE_TIMESTAMP",
        FAMILY,
        f"Parses a timestamp in a format, {_ZONE}; NULL if the text is invalid.",
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
        "Parses a date in a format, as days since 1970. Older than PARSE_DATE.",
        signature(
            "STRING text, STRING format -> INTEGER",
            lambda call: f"unix_date(try_to_date({call.texts[0]}, {_format(call, 1)}))",
            python=python.parsed_days,
        ),
    ),
    scalar(
        "STRINGTOTIMESTAMP",
        FAMILY,
        f"Parses a timestamp in a format, {_ZONE}, as milliseconds since 1970. Older than "
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
        "Converts the local time of one time zone to that of another.",
        signature(
            "TIMESTAMP timestamp, STRING from, STRING to -> TIMESTAMP",
            "from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})",
            python=python.in_zone,
        ),
    ),
    scalar(
        "FROM_DAYS",
        FAMILY,
        "The date for a number of days since 1970-01-01.",
        signature("INTEGER days -> DATE", "date_from_unix_date({0})", python=python.from_days),
    ),
    scalar(
        "FROM_UNIXTIME",
        FAMILY,
        "The timestamp for a number of milliseconds since 1970-01-01.",
        signature("BIGINT millis -> TIMESTAMP", "timestamp_millis({0})", python=timestamp_of),
    ),
    scalar(
        "UNIX_DATE",
        FAMILY,
        "The number of days from 1970-01-01 to a date, or to today.",
        signature("-> INTEGER", "unix_date(current_date())", python=python.today),
        signature("DATE date -> INTEGER", "unix_date({0})", python=python.unix_date),
    ),
    scalar(
        "UNIX_TIMESTAMP",
        FAMILY,
        "The number of milliseconds from 1970-01-01 to a timestamp, or to now.",
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
