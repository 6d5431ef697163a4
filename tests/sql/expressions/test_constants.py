"""Values of expressions without columns."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.expressions import constant
from ottla.sql.syntax import parse_expression, parse_type


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("1", "INTEGER", 1),
        ("-9223372036854775808", "BIGINT", -(2**63)),
        ("1", "DOUBLE", 1.0),
        ("1", "DECIMAL(4, 2)", Decimal("1.00")),
        ("1.5", "DOUBLE", 1.5),
        ("1.5", "DECIMAL(4, 2)", Decimal("1.50")),
        ("'a'", "STRING", "a"),
        ("true", "BOOLEAN", True),
        ("NULL", "STRING", None),
        ("1 + 2 * 3", "INTEGER", 7),
        ("-7 / 2", "INTEGER", -3),
        ("7 / 0", "INTEGER", None),
        ("'a' + 'b'", "STRING", "ab"),
        ("'2020-02-03'", "DATE", date(2020, 2, 3)),
        ("'10:11'", "TIME", time(10, 11)),
        ("'2020-02-03T10:11:12.345+0100'", "TIMESTAMP",
         datetime(2020, 2, 3, 9, 11, 12, 345000, UTC)),
        ("FROM_UNIXTIME(5)", "TIMESTAMP", datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)),
        ("'YWJj'", "BYTES", b"abc"),
        ("TO_BYTES('616263', 'hex')", "BYTES", b"abc"),
        ("ARRAY[1, NULL]", "ARRAY<DOUBLE>", [1.0, None]),
        ("MAP('a' := 1)", "MAP<STRING, BIGINT>", {"a": 1}),
        ("STRUCT(X := 1)", "STRUCT<X INTEGER, Y STRING>", {"X": 1, "Y": None}),
        ("STRUCT(X := 1, Z := 2)", "STRUCT<X INTEGER>", {"X": 1}),
        ("CAST('12' AS INTEGER)", "BIGINT", 12),
        ("CAST(1.7 AS INTEGER)", "INTEGER", 1),
        ("(3)", "INTEGER", 3),
    ],
)  # fmt: skip
def test_a_constant_has_its_value(text: str, type_: str, expected: Any) -> None:
    found = constant(parse_expression(text), parse_type(type_))

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "type_", "message"),
    [
        ("'a'", "INTEGER", "Expected type INTEGER but got STRING('a')"),
        ("1.5", "INTEGER", "Expected type INTEGER but got DECIMAL(1.5)"),
        ("2147483648", "INTEGER", "Expected type INTEGER but got INTEGER(2147483648)"),
        ("123.45", "DECIMAL(4, 2)", "Expected type DECIMAL(4, 2) but got DECIMAL(123.45)"),
        ("1", "STRING", "Expected type STRING but got INTEGER(1)"),
        ("'noon'", "TIME", "Expected type TIME but got STRING('noon')"),
        ("COL", "STRING", "COL is not a constant."),
        ("MASK('x')", "STRING", "MASK('x') is not a constant."),
        ("1 + 'a'", "STRING", "Unsupported arithmetic types"),
    ],
)
def test_constants_of_another_type_are_refused(text: str, type_: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        constant(parse_expression(text), parse_type(type_))

    assert message in caught.value.message
    assert caught.value.line == 1
