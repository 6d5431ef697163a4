"""Lines written by DELIMITED, as by ksqlDB."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ottla.rows import types as t
from ottla.rows.formats import Encoder
from ottla.rows.formats.arrow import arrow_type
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema, Role
from ottla.rows.types import SqlType


def written(type_: SqlType, value: Any) -> tuple[bytes | None, bytes | None]:
    """Key and value of a row with this value in both of them, whichever way it is encoded."""
    columns = (
        Column("K", type_, Role.KEY),
        Column("A", type_),
        Column("B", type_),
    )
    encoder = Encoder(
        Layout(LogicalSchema(columns), FormatInfo("DELIMITED"), FormatInfo("DELIMITED"))
    )
    row = dict.fromkeys("KAB", value)
    batch = pa.record_batch({name: pa.array([value], arrow_type(type_)) for name in row})
    keys, values, _ = encoder.encode(batch)
    key, single, _ = encoder.record({**row, "ROWTIME": 1})
    assert (keys[0].as_py(), values[0].as_py()) == (key, single)
    return key, single


def test_a_line_begins_with_a_letter_a_digit_or_a_quote() -> None:
    assert written(t.INTEGER, -10) == (b'"-10"', b'"-10",-10')
    assert written(t.INTEGER, 10) == (b"10", b"10,10")
    assert written(t.STRING, "(x)") == (b'"(x)"', b'"(x)",(x)')


def test_a_null_key_is_not_written() -> None:
    assert written(t.STRING, None) == (None, b",")
    assert written(t.STRING, "") == (b'""', b'"",')


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (0.001, "0.001"),
        (0.00015, "1.5E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (1.25e300, "1.25E300"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles_are_as_java_writes_them(number: float, text: str) -> None:
    assert written(t.DOUBLE, number)[0] == text.encode()
