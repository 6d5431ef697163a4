"""Random schemas and values survive a round trip through JSON, on the first and the cached path."""

from __future__ import annotations

import datetime
import math
import struct
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import (
    Schema,
    Struct,
    Type,
    array_schema,
    date_schema,
    decimal_schema,
    map_schema,
    struct_schema,
    time_schema,
    timestamp_schema,
)
from ottla.connect.schema import INTEGER_BITS
from ottla.rows.java.text import float32

UTC = datetime.UTC
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# JSON writes NaN as a string, and reads it as one: as in Kafka.
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False).map(float32)


def integers(type: Type) -> st.SearchStrategy[int]:
    half = 1 << (INTEGER_BITS[type] - 1)
    return st.integers(-half, half - 1)


def millis(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)


def thousandths(number: int) -> Decimal:
    """With all its digits, whatever the context's precision is."""
    digits = tuple(int(digit) for digit in str(abs(number)))
    return Decimal((int(number < 0), digits, -3))


MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)).map(millis)
SCALARS: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    *((Schema(type), integers(type)) for type in INTEGER_BITS),
    (Schema(Type.FLOAT32), SINGLE),
    (Schema(Type.FLOAT64), FINITE),
    (Schema(Type.BOOLEAN), st.booleans()),
    (Schema(Type.STRING), TEXT),
    (Schema(Type.BYTES), st.binary(max_size=8)),
    (decimal_schema(3), st.integers(-(10**30), 10**30).map(thousandths)),
    (date_schema(), MOMENTS.map(lambda moment: moment.date())),
    (time_schema(), MOMENTS.map(lambda moment: moment.time())),
    (timestamp_schema(), MOMENTS),
]
Typed = tuple[Schema, st.SearchStrategy[Any]]


def maybe(typed: Typed) -> Typed:
    schema, values = typed
    return schema.as_optional(), st.none() | values


def larger(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    lists = inner.map(lambda t: (array_schema(t[0]), st.lists(t[1], max_size=3)))
    maps = inner.map(
        lambda t: (map_schema(Schema(Type.STRING), t[0]), st.dictionaries(TEXT, t[1], max_size=3))
    )
    pairs = inner.map(
        lambda t: (
            map_schema(Schema(Type.INT32), t[0]),
            st.dictionaries(integers(Type.INT32), t[1], max_size=3),
        )
    )
    return lists | maps | pairs | st.dictionaries(TEXT, inner, max_size=4).map(structs)


def structs(fields: dict[str, Typed]) -> Typed:
    schema = struct_schema({name: typed[0] for name, typed in fields.items()}, name="s")
    values = st.fixed_dictionaries({name: typed[1] for name, typed in fields.items()})
    return schema, values.map(lambda chosen: Struct(schema, chosen))


SIMPLE = st.sampled_from(SCALARS)
TYPED = st.recursive(SIMPLE | SIMPLE.map(maybe), larger, max_leaves=8)


@settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(st.data(), TYPED, st.booleans())
def test_values_survive_a_round_trip(data: st.DataObject, typed: Typed, numeric: bool) -> None:
    schema, values = typed
    converter = JsonConverter()
    converter.configure(
        {
            "converter.type": "value",
            "decimal.format": "numeric" if numeric else "base64",
        }
    )
    for _ in range(3):
        value = data.draw(values)
        written = converter.from_connect("t", schema, value)
        read_schema, read = converter.to_connect("t", written)
        assert read_schema == schema
        if numeric:  # numbers have no scale: 1 is 1.000
            assert _numbers(read) == _numbers(value)
        else:
            assert read == value


def _numbers(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _numbers(item) for name, item in value.items()}
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    return [_numbers(item) for item in value] if isinstance(value, list) else value


JSON = st.recursive(
    st.none() | st.booleans() | integers(Type.INT64) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(JSON)
def test_plain_json_survives_a_round_trip(value: Any) -> None:
    converter = JsonConverter()
    converter.configure({"converter.type": "value", "schemas.enable": "false"})
    written = converter.from_connect("t", None, value)
    if value is None:
        assert written is None
        return
    assert converter.to_connect("t", written) == (None, value)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.floats(width=32))
def test_a_float_keeps_its_32_bits_in_few_digits(value: float) -> None:
    shorter = float32(value)
    if math.isnan(value):
        assert math.isnan(shorter)
        return
    assert struct.pack(">f", shorter) == struct.pack(">f", value)
    assert float32(shorter) == shorter
