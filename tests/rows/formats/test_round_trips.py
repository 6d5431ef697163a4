"""Whatever is written is read back, in every format, of every type that it has."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client import serde
from ottla.rows import types as t
from ottla.rows.formats import Decoder, Encoder, arrow_schema
from ottla.rows.formats.arrow import arrow_array, arrow_type, python_values
from ottla.rows.formats.json import Json
from ottla.rows.formats.json_fast import ROWS_MIN
from ottla.rows.formats.json_values import parse_exact
from ottla.rows.schema import Column, Format, Layout, Role, Schema

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
MILLIS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9998, 12, 30)).map(
    lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000, tzinfo=dt.UTC)
)
VALUES: dict[t.SqlType, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    t.INTEGER: st.integers(-(2**31), 2**31 - 1),
    t.BIGINT: st.integers(-(2**63), 2**63 - 1),
    t.DOUBLE: st.floats(allow_nan=False),
    t.STRING: TEXTS,
    t.BYTES: st.binary(max_size=12),
    t.decimal(20, 6): st.decimals(-(10**13), 10**13, places=6),
    t.decimal(38, 30): st.decimals(-(10**7), 10**7, places=30),
    t.TIME: st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    t.DATE: st.dates(),
    t.TIMESTAMP: MILLIS,
}
NESTED: dict[t.SqlType, st.SearchStrategy[Any]] = {
    t.array(t.STRING): st.lists(st.none() | TEXTS, max_size=3),
    t.array(t.array(t.INTEGER)): st.lists(
        st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3), max_size=3
    ),
    t.map_of(t.STRING, t.BIGINT): st.dictionaries(TEXTS, st.none() | st.integers(0, 9), max_size=3),
    t.array(t.map_of(t.STRING, t.TIMESTAMP)): st.lists(
        st.none() | st.dictionaries(TEXTS, st.none() | MILLIS, max_size=2), max_size=2
    ),
    t.struct(("A", t.INTEGER), ("b c", t.map_of(t.STRING, t.decimal(4, 2)))): st.fixed_dictionaries(
        {
            "A": st.none() | st.integers(0, 9),
            "b c": st.none()
            | st.dictionaries(TEXTS, st.none() | st.decimals(-99, 99, places=2), max_size=2),
        }
    ),
}


def layout_of(columns: dict[str, t.SqlType], value: Format, key: Format | None = None) -> Layout:
    keys = (Column("K", t.STRING, Role.KEY),)
    return Layout(
        Schema(keys + tuple(Column(name, each) for name, each in columns.items())),
        key or Format("KAFKA"),
        value,
    )


def rows_to_batch(layout: Layout, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = layout.schema.columns
    arrays = [arrow_array([row[each.name] for row in rows], each.type) for each in columns]
    arrays.append(pa.array([row["ROWTIME"] for row in rows], pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, names=[*(each.name for each in columns), "ROWTIME"])


def batch_to_rows(layout: Layout, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = layout.schema.columns
    values = [python_values(batch.column(each.name), each.type) for each in columns]
    names = [each.name for each in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def check(layout: Layout, rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """By whole columns, and one by one: the bytes and the rows are the same."""
    encoder, decoder = Encoder(layout), Decoder(layout)
    keys, values, times = encoder.encode(rows_to_batch(layout, rows))
    singly = [encoder.record(row) for row in rows]
    assert keys.to_pylist() == [each[0] for each in singly]
    written = values.to_pylist()
    if layout.value_format.name == "JSON":
        assert [None if each is None else json.loads(each) for each in written] == [
            None if each[1] is None else json.loads(each[1]) for each in singly
        ]
    elif layout.value_format.name == "KAFKA":
        assert written == [each[1] for each in singly]
    offsets = pa.array(range(len(rows)), pa.int64())
    partitions = pa.array([3] * len(rows), pa.int32())
    batch, bad = decoder.decode(keys, values, times, partitions, offsets, None)
    assert bad == []
    assert batch.schema == arrow_schema(layout)
    assert batch_to_rows(layout, batch) == expected
    for (key, value, time), row in zip(singly, expected, strict=True):
        assert time is not None
        found = decoder.row(key, value, time)
        assert {name: found[name] for name in row} == row


@pytest.mark.parametrize("type_", [*VALUES, *NESTED], ids=str)
@pytest.mark.parametrize("wrapped", [True, False])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_json_round_trip(type_: t.SqlType, wrapped: bool, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | {**VALUES, **NESTED}[type_], max_size=40))
    layout = layout_of({"V": type_}, Format("JSON", wrapped))
    rows = [{"K": str(n), "V": each, "ROWTIME": n} for n, each in enumerate(values)]
    check(layout, rows, [{"K": row["K"], "V": row["V"]} for row in rows])


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_json_of_all_types_together(data: st.DataObject) -> None:
    kinds = {**VALUES, **NESTED}
    columns = {f"C{n}": each for n, each in enumerate(kinds)}
    row = st.fixed_dictionaries({name: st.none() | kinds[each] for name, each in columns.items()})
    rows = data.draw(st.lists(row, max_size=5))
    given_rows = [{"K": "k", "ROWTIME": 0, **each} for each in rows]
    layout = layout_of(columns, Format("JSON"))
    check(layout, given_rows, [{"K": "k", **each} for each in rows])


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_delimited_round_trip(data: st.DataObject) -> None:
    delimiter = data.draw(st.sampled_from([",", "SPACE", "TAB", "|", ";", "^", "]", "-", "\\"]))
    columns = {f"C{n}": each for n, each in enumerate(VALUES)}
    row = st.fixed_dictionaries({name: st.none() | VALUES[each] for name, each in columns.items()})
    rows = data.draw(st.lists(row, max_size=5))
    layout = layout_of(columns, Format("DELIMITED", properties={"VALUE_DELIMITER": delimiter}))
    given_rows = [{"K": "k", "ROWTIME": 0, **each} for each in rows]
    # An empty field is null: there is no empty text.
    expected = [
        {
            "K": "k",
            **{name: value if value not in ("", b"") else None for name, value in row.items()},
        }
        for row in rows
    ]
    check(layout, given_rows, expected)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(TEXTS.filter(bool), min_size=3, max_size=3), max_size=5))
def test_delimited_is_what_csv_reads(rows: list[list[str]]) -> None:
    layout = layout_of(dict.fromkeys("ABC", t.STRING), Format("DELIMITED"))
    names = [dict(zip("ABC", each, strict=True), K="k", ROWTIME=0) for each in rows]
    _, values, _ = Encoder(layout).encode(rows_to_batch(layout, names))
    for value, row in zip(values.to_pylist(), rows, strict=True):
        found = list(csv.reader(io.StringIO(value.decode(), newline=""), strict=True))
        assert found == [row]
        text = io.StringIO(newline="")
        csv.writer(text).writerow(row)
        read = Decoder(layout).row(b"k", text.getvalue().removesuffix("\r\n").encode(), 0)
        assert [read[name] for name in "ABC"] == row


@pytest.mark.parametrize(
    ("type_", "other"),
    [
        (t.STRING, serde.STRING),
        (t.INTEGER, serde.INTEGER),
        (t.BIGINT, serde.LONG),
        (t.DOUBLE, serde.DOUBLE),
        (t.BYTES, serde.BYTES),
    ],
    ids=["STRING", "INTEGER", "BIGINT", "DOUBLE", "BYTES"],
)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_kafka_is_what_java_writes(type_: t.SqlType, other: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type_], max_size=10))
    layout = layout_of({"V": type_}, Format("KAFKA"))
    rows = [{"K": "k", "V": each, "ROWTIME": 0} for each in values]
    _, written, _ = Encoder(layout).encode(rows_to_batch(layout, rows))
    assert written.to_pylist() == [None if v is None else other.to_bytes(v) for v in values]
    check(layout, rows, [{"K": "k", "V": each} for each in values])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | TEXTS), max_size=5))
def test_a_json_key_of_two_columns(keys: list[tuple[int | None, str | None]]) -> None:
    columns = (Column("A", t.INTEGER, Role.KEY), Column("b", t.STRING, Role.KEY))
    layout = Layout(Schema((*columns, Column("V", t.INTEGER))), Format("JSON"), Format("JSON"))
    rows = [{"A": a, "b": b, "V": 1, "ROWTIME": 0} for a, b in keys]
    check(layout, rows, [{"A": a, "b": b, "V": 1} for a, b in keys])


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_regular_objects_in_large_numbers(data: st.DataObject) -> None:
    """So many that Arrow's own reader is tried."""
    inner = t.struct(("A", t.INTEGER), ("Bb", t.array(t.struct(("X", t.TIMESTAMP)))))
    columns = {f"C{n}": each for n, each in enumerate(VALUES)} | {"U": inner}
    element = st.none() | st.fixed_dictionaries({"X": st.none() | MILLIS})
    value = st.fixed_dictionaries(
        {
            "A": st.none() | VALUES[t.INTEGER],
            "Bb": st.none() | st.lists(element, max_size=3),
        }
    )
    row = st.fixed_dictionaries(
        {name: st.none() | VALUES[each] for name, each in columns.items() if each in VALUES}
        | {"U": st.none() | value}
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=6)) * 600
    # Infinity is text, which only the other way of reading takes for a number.
    rows = [each for each in rows if each["C3"] is None or math.isfinite(each["C3"])]
    layout = layout_of(columns, Format("JSON"))
    given_rows = [{"K": "k", "ROWTIME": 0, **each} for each in rows]
    encoded = Encoder(layout).encode(rows_to_batch(layout, given_rows))
    lowered = [each.replace(b'"Bb"', b'"bB"') for each in encoded[1].to_pylist()]
    half = Json(layout.schema.value)
    arrays = half._fast.read(pa.array(lowered, pa.binary()))
    one_by_one, problems = half._read(lowered, parse_exact, half._exact)
    assert problems == {}
    if len(rows) >= ROWS_MIN:
        assert arrays is not None
        assert [each.to_pylist() for each in arrays] == [each.to_pylist() for each in one_by_one]
        assert [each.type for each in arrays] == [each.type for each in one_by_one]


def test_numbers_that_json_has_not_are_text() -> None:
    layout = layout_of({"V": t.DOUBLE}, Format("JSON"))
    rows = [{"K": "k", "V": each, "ROWTIME": 0} for each in (math.nan, math.inf, -math.inf, 1.0)]
    _, values, times = Encoder(layout).encode(rows_to_batch(layout, rows))
    texts = ["NaN", "Infinity", "-Infinity"]
    assert values.to_pylist() == [
        *(f'{{"V":"{each}"}}'.encode() for each in texts),
        b'{"V":1.0}',
    ]
    batch, bad = Decoder(layout).decode(pa.nulls(4, pa.binary()), values, times, times, times)
    assert not bad
    assert str(batch.column("V").to_pylist()) == "[nan, inf, -inf, 1.0]"


def test_a_decimal_is_written_without_an_exponent() -> None:
    layout = layout_of({"V": t.decimal(10, 8)}, Format("JSON"))
    row = {"K": "k", "V": Decimal("1E-8"), "ROWTIME": 0}
    _, values, _ = Encoder(layout).encode(rows_to_batch(layout, [row]))
    assert values.to_pylist() == [b'{"V":0.00000001}']


def test_arrow_types_are_those_that_spark_takes() -> None:
    assert arrow_type(t.TIME) == pa.time64("ns")
    assert arrow_type(t.TIMESTAMP) == pa.timestamp("us", "UTC")
    assert arrow_type(t.decimal(4, 2)) == pa.decimal128(4, 2)


@pytest.mark.parametrize("name", ["JSON", "DELIMITED", "KAFKA", "NONE"])
def test_rows_without_key_columns_have_no_key(name: str) -> None:
    layout = Layout(Schema((Column("A", t.INTEGER),)), Format(name), Format("JSON"))
    batch = rows_to_batch(layout, [{"A": 1, "ROWTIME": 0}])
    keys, values, _ = Encoder(layout).encode(batch)
    assert (keys.to_pylist(), values.to_pylist()) == ([None], [b'{"A":1}'])
    assert Encoder(layout).record({"A": 1, "ROWTIME": 0})[0] is None
