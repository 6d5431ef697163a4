"""Dates and times as text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.moments import timestamp_of


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020", datetime(2020, 1, 1, tzinfo=UTC)),
        ("2020-02-03T10:11:12.345+0100", datetime(2020, 2, 3, 9, 11, 12, 345_000, tzinfo=UTC)),
        ("2020-02-29T24", datetime(2020, 3, 1, tzinfo=UTC)),
        ("2020-12-31T24:00:00.000Z", datetime(2021, 1, 1, tzinfo=UTC)),
    ],
)
def test_partial_timestamps_are_completed(text: str, moment: datetime) -> None:
    assert timestamp_of(text) == moment


@pytest.mark.parametrize(
    "text", ["2020-02-03T24:00:01", "2020-02-03T25", "2020-02-30", "9999-12-31T24", "soon"]
)
def test_invalid_timestamps_are_refused(text: str) -> None:
    with pytest.raises(SqlError, match="Failed to parse timestamp"):
        timestamp_of(text)
