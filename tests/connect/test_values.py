"""Header values as text, and Java's date patterns, regular expressions and numbers."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import pytest

from ottla.connect.data import Type
from ottla.connect.errors import DataException
from ottla.connect.values import parse_string, text_of
from ottla.rows.java.date_format import DateFormat
from ottla.rows.java.regular_expressions import compile_regular_expression, replace_first
from ottla.rows.java.text import float32, java_double

UTC = datetime.UTC
MOMENT = datetime.datetime(2021, 3, 4, 5, 6, 7, 89000, tzinfo=UTC)


# The results of Kafka 4.3.1.
@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("", Type.STRING, ""),
        ("  ", Type.STRING, "  "),
        ("text", Type.STRING, "text"),
        ("true", Type.BOOLEAN, True),
        ("true}", Type.STRING, "true}"),
        ("127", Type.INT8, 127),
        ("128", Type.INT16, 128),
        ("32768", Type.INT32, 32768),
        ("2147483648", Type.INT64, 2147483648),
        ("9223372036854775808", Type.BYTES, Decimal("9223372036854775808")),
        ("1.5", Type.FLOAT32, 1.5),
        ("3.14159265358979", Type.FLOAT32, 3.1415927),
        ("1e40", Type.FLOAT64, 1e40),
        ("1e3", Type.INT16, 1000),
        ("1.0", Type.INT8, 1),
        ("12abc", Type.STRING, "12abc"),
        ("1:2", Type.INT8, 1),
        ("2021-03-04", Type.INT32, MOMENT.date()),
        ("05:06:07.089Z", Type.INT32, MOMENT.time()),
        ("2021-03-04T05:06:07.089Z", Type.INT64, MOMENT),
        ("[1,300]", Type.ARRAY, [1, 300]),
        ("[1, 2.5]", Type.ARRAY, [1.0, 2.5]),
        ("[1,null]", Type.STRING, "[1,null]"),
        ("[1,,2]", Type.STRING, "[1,,2]"),
        ("[1", Type.STRING, "[1"),
        ("[a]", Type.STRING, "[a]"),
        ('{"a":1,"b":2}', Type.MAP, {"a": 1, "b": 2}),
        ('{"a":[1]}', Type.MAP, {"a": [1]}),
        ('{"a"}', Type.STRING, '{"a"}'),
        ('"quoted"', Type.STRING, '"quoted"'),
        ("NaN", Type.STRING, "NaN"),
    ],
)
def test_the_type_is_inferred_from_the_text(text: str, type: Type, value: Any) -> None:
    schema, found = parse_string(text)
    assert schema is not None
    assert (schema.type, found) == (type, value)


def test_null_has_no_type() -> None:
    assert parse_string(None) == (None, None)
    assert parse_string("null") == (None, None)


def test_values_become_text() -> None:
    assert text_of({"a": ['x"y', None, b"\x00"], "b": {1: True}}) == (
        '{"a":["x\\"y",null,"AA=="],"b":{1:true}}'
    )
    assert text_of(MOMENT) == "2021-03-04T05:06:07.089Z"
    assert text_of(None) is None
    with pytest.raises(DataException, match="Failed to serialize unexpected value type object"):
        text_of(object())


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2021-03-04T05:06:07.089Z"),
        ("EEE, d MMM yy hh:mm a z", "Thu, 4 Mar 21 05:06 AM UTC"),
        ("EEEE MMMM D DDD u F W ww YYYY", "Thursday March 63 063 4 1 1 10 2021"),
        ("k K h H 'o''clock' Z G", "5 5 5 5 o'clock +0000 AD"),
        ("yyyyMMddHHmmss", "20210304050607"),
    ],
)
def test_javas_date_patterns_are_supported(pattern: str, text: str) -> None:
    assert DateFormat(pattern).format(MOMENT) == text


@pytest.mark.parametrize(
    ("pattern", "text", "moment"),
    [
        ("yyyyMMddHHmmss", "20210304050607", MOMENT.replace(microsecond=0)),
        ("yyyy-MM-dd HH:mm:ss Z", "2021-03-04 07:06:07 +0200", MOMENT.replace(microsecond=0)),
        (
            "d MMM yy",
            "4 Mar 21 and more",
            MOMENT.replace(hour=0, minute=0, second=0, microsecond=0),
        ),
        ("yyyy-MM-dd", "2021-02-32", datetime.datetime(2021, 3, 4, tzinfo=UTC)),
        ("yyyy D", "2021 63", datetime.datetime(2021, 3, 4, tzinfo=UTC)),
        ("hh:mm a", "05:06 PM", datetime.datetime(1970, 1, 1, 17, 6, tzinfo=UTC)),
        ("yyyy zzz", "2021 PST", datetime.datetime(2021, 1, 1, 8, tzinfo=UTC)),
    ],
)
def test_dates_are_read_leniently(pattern: str, text: str, moment: datetime.datetime) -> None:
    assert DateFormat(pattern).parse(text) == moment


@pytest.mark.parametrize(
    ("pattern", "text"), [("yyyy-MM", "2021/03"), ("MMM", "Nope"), ("HH", "x"), ("z", "?")]
)
def test_invalid_dates_are_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError):
        DateFormat(pattern).parse(text)


@pytest.mark.parametrize("pattern", ["b", "'open", "yyyy-PP"])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        DateFormat(pattern)


def test_expressions_as_java_writes_them() -> None:
    assert compile_regular_expression(r"(?<a>\p{Alpha}+)[\p{Digit}_]*\z").fullmatch("ab1_2")
    assert compile_regular_expression(r"\Qa.b\E(?<=b)c").fullmatch("a.bc")
    assert replace_first(compile_regular_expression("(a)(b)?"), "$1$2\\$", "xaay") == "xa$ay"
    assert replace_first(compile_regular_expression("z"), "$1", "none") == "none"
    with pytest.raises(re.error, match="unknown character class"):
        compile_regular_expression(r"\p{IsGreek}")
    with pytest.raises(re.error, match="No group with name"):
        replace_first(compile_regular_expression("a"), "${b}", "a")


def test_numbers_as_java_writes_them() -> None:
    for value, text in (
        (0.0, "0.0"), (1e6, "1000000.0"), (1e7, "1.0E7"), (-1.25e-5, "-1.25E-5"), (100.0, "100.0"),
        (math.nan, "NaN"), (-math.inf, "-Infinity"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ):  # fmt: skip
        assert java_double(value) == text
    assert float32(0.10000000149011612) == 0.1
    assert float32(16777217.0) == 16777216.0
    assert float32(1e39) == math.inf
    assert math.isnan(float32(math.nan))
