"""Java's date patterns."""

from __future__ import annotations

import datetime as dt

import pytest

from ottla.rows.errors import SqlError
from ottla.rows.java.timestamp_pattern import TimestampPattern


def ms(*moment: int) -> int:
    return int(dt.datetime(*moment, tzinfo=dt.UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss", "2024-02-29 23:59:58", ms(2024, 2, 29, 23, 59, 58)),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2024-02-29T01:02:03.045", ms(2024, 2, 29, 1, 2, 3, 45000)),
        ("yyyy-MM-dd''HH", "2024-02-29'05", ms(2024, 2, 29, 5)),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-01-01T01:00:00+01:00", ms(2024, 1, 1)),
        ("yyyy-MM-dd'T'HH:mm:ssZ", "2024-01-01T01:00:00-0230", ms(2024, 1, 1, 3, 30)),
        ("yyyy-MM-dd HH:mm VV", "2024-07-01 12:00 Europe/Berlin", ms(2024, 7, 1, 10)),
        ("d/M/yy h:mm a", "1/2/23 12:05 AM", ms(2023, 2, 1, 0, 5)),
        ("EEE, dd MMM yyyy", "Mon, 05 Aug 2024", ms(2024, 8, 5)),
        ("MMMM d yyyy", "August 5 2024", ms(2024, 8, 5)),
        ("yyyy-DDD", "2024-060", ms(2024, 2, 29)),
        ("yyyy-MM-dd[ HH:mm]", "2024-01-02", ms(2024, 1, 2)),
        ("yyyy-MM-dd[ HH:mm]", "2024-01-02 03:04", ms(2024, 1, 2, 3, 4)),
        ("yyyyMMddHHmmssSSS", "20240102030405006", ms(2024, 1, 2, 3, 4, 5, 6000)),
        ("HH:mm", "00:01", 60_000),
        (
            "yyyy-MM-dd HH:mm:ss.SSSSSS",
            "2024-01-01 00:00:00.123456",
            ms(2024, 1, 1, 0, 0, 0, 123000),
        ),
    ],
)
def test_patterns(pattern: str, text: str, expected: int) -> None:
    assert TimestampPattern(pattern).epoch_ms(text) == expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2023-02-29"),
        ("yyyy-MM-dd", "2023-2-9"),
        ("HH:mm", "24:00"),
        ("hh a", "13 PM"),
        ("yyyy-DDD", "2023-366"),
        ("yyyy VV", "2023 Nowhere/City"),
    ],
)
def test_invalid_timestamps_are_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match="Text"):
        TimestampPattern(pattern).epoch_ms(text)


@pytest.mark.parametrize("pattern", ["GGGG", "yyyyy", "Q", "yyyy yyyy", "w"])
def test_unknown_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(SqlError, match="not supported"):
        TimestampPattern(pattern)
