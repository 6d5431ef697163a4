"""Written values are read back, in every format, of every type."""

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
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.client import serde
from ottla.rows import types as t
from ottla.rows.formats import Decoder, Encoder, arrow_schema
from ottla.rows.formats.arrow import arrow_array, arrow_type, python_values
from ottla.rows.formats.json import JsonFormat
from ottla.rows.formats.json_fast import ROWS_MIN
from ottla.rows.formats.json_values import parse_exact
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema, Role

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
MILLIS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9998, 12, 30)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=dt.UTC)
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


def layout_of(
    columns: dict[str, t.SqlType], value: FormatInfo, key: FormatInfo | None = None
) -> Layout:
    keys = (Column("K", t.STRING, Role.KEY),)
    return Layout(
        LogicalSchema(keys + tuple(Column(name, type_) for name, type_ in columns.items())),
        key or FormatInfo("KAFKA"),
        value,
    )


def rows_to_batch(layout: Layout, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = layout.schema.columns
    arrays = [arrow_array([row[column.name] for row in rows], column.type) for column in columns]
    arrays.append(pa.array([row["ROWTIME"] for row in rows], pa.int64()))
    return pa.RecordBatch.from_arrays(
        arrays, names=[*(column.name for column in columns), "ROWTIME"]
    )


def batch_to_rows(layout: Layout, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = layout.schema.columns
    values = [python_values(batch.column(column.name), column.type) for column in columns]
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def check(layout: Layout, rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """By columns and one by one: bytes and rows are equal."""
    encoder, decoder = Encoder(layout), Decoder(layout)
    keys, values, times = encoder.encode(rows_to_batch(layout, rows))
    singly = [encoder.record(row) for row in rows]
    assert keys.to_pylist() == [pair[0] for pair in singly]
    written = values.to_pylist()
    if layout.value_format.name == "JSON":
        assert [None if text is None else json.loads(text) for text in written] == [
            None if pair[1] is None else json.loads(pair[1]) for pair in singly
        ]
    elif layout.value_format.name == "KAFKA":
        assert written == [pair[1] for pair in singly]
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
    layout = layout_of({"V": type_}, FormatInfo("JSON", wrapped))
    rows = [{"K": str(n), "V": value, "ROWTIME": n} for n, value in enumerate(values)]
    check(layout, rows, [{"K": row["K"], "V": row["V"]} for row in rows])


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_json_of_all_types_together(data: st.DataObject) -> None:
    kinds = {**VALUES, **NESTED}
    columns = {f"C{n}": kind for n, kind in enumerate(kinds)}
    row = st.fixed_dictionaries({name: st.none() | kinds[kind] for name, kind in columns.items()})
    rows = data.draw(st.lists(row, max_size=5))
    given_rows = [{"K": "k", "ROWTIME": 0, **given_row} for given_row in rows]
    layout = layout_of(columns, FormatInfo("JSON"))
    check(layout, given_rows, [{"K": "k", **row} for row in rows])


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_delimited_round_trip(data: st.DataObject) -> None:
    delimiter = data.draw(st.sampled_from([",", "SPACE", "TAB", "|", ";", "^", "]", "-", "\\"]))
    columns = {f"C{n}": kind for n, kind in enumerate(VALUES)}
    row = st.fixed_dictionaries({name: st.none() | VALUES[kind] for name, kind in columns.items()})
    rows = data.draw(st.lists(row, max_size=5))
    layout = layout_of(columns, FormatInfo("DELIMITED", properties={"VALUE_DELIMITER": delimiter}))
    given_rows = [{"K": "k", "ROWTIME": 0, **given_row} for given_row in rows]
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
    layout = layout_of(dict.fromkeys("ABC", t.STRING), FormatInfo("DELIMITED"))
    names = [dict(zip("ABC", row, strict=True), K="k", ROWTIME=0) for row in rows]
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
    layout = layout_of({"V": type_}, FormatInfo("KAFKA"))
    rows = [{"K": "k", "V": value, "ROWTIME": 0} for value in values]
    _, written, _ = Encoder(layout).encode(rows_to_batch(layout, rows))
    assert written.to_pylist() == [None if v is None else other.to_bytes(v) for v in values]
    check(layout, rows, [{"K": "k", "V": value} for value in values])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | TEXTS), max_size=5))
def test_a_json_key_of_two_columns(keys: list[tuple[int | None, str | None]]) -> None:
    columns = (Column("A", t.INTEGER, Role.KEY), Column("b", t.STRING, Role.KEY))
    layout = Layout(
        LogicalSchema((*columns, Column("V", t.INTEGER))), FormatInfo("JSON"), FormatInfo("JSON")
    )
    rows = [{"A": a, "b": b, "V": 1, "ROWTIME": 0} for a, b in keys]
    check(layout, rows, [{"A": a, "b": b, "V": 1} for a, b in keys])


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_regular_objects_are_written_in_bulk(data: st.DataObject) -> None:
    """Enough rows that Arrow's reader is used."""
    inner = t.struct(("A", t.INTEGER), ("Bb", t.array(t.struct(("X", t.TIMESTAMP)))))
    columns = {f"C{n}": kind for n, kind in enumerate(VALUES)} | {"U": inner}
    element = st.none() | st.fixed_dictionaries({"X": st.none() | MILLIS})
    value = st.fixed_dictionaries(
        {
            "A": st.none() | VALUES[t.INTEGER],
            "Bb": st.none() | st.lists(element, max_size=3),
        }
    )
    row = st.fixed_dictionaries(
        {name: st.none() | VALUES[kind] for name, kind in columns.items() if kind in VALUES}
        | {"U": st.none() | value}
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=6)) * 600
    # Infinity is text, which only the slow path reads as a number.
    rows = [
        given_row for given_row in rows if given_row["C3"] is None or math.isfinite(given_row["C3"])
    ]
    layout = layout_of(columns, FormatInfo("JSON"))
    given_rows = [{"K": "k", "ROWTIME": 0, **row} for row in rows]
    encoded = Encoder(layout).encode(rows_to_batch(layout, given_rows))
    lowered = [text.replace(b'"Bb"', b'"bB"') for text in encoded[1].to_pylist()]
    half = JsonFormat(layout.schema.value)
    arrays = half._fast.read(pa.array(lowered, pa.binary()))
    one_by_one, problems = half._read(lowered, parse_exact, half._exact)
    assert problems == {}
    if len(rows) >= ROWS_MIN:
        assert arrays is not None
        assert [array.to_pylist() for array in arrays] == [
            array.to_pylist() for array in one_by_one
        ]
        assert [array.type for array in arrays] == [array.type for array in one_by_one]


def test_numbers_outside_json_are_written_as_text() -> None:
    layout = layout_of({"V": t.DOUBLE}, FormatInfo("JSON"))
    rows = [
        {"K": "k", "V": number, "ROWTIME": 0} for number in (math.nan, math.inf, -math.inf, 1.0)
    ]
    _, values, times = Encoder(layout).encode(rows_to_batch(layout, rows))
    texts = ["NaN", "Infinity", "-Infinity"]
    assert values.to_pylist() == [
        *(f'{{"V":"{text}"}}'.encode() for text in texts),
        b'{"V":1.0}',
    ]
    batch, bad = Decoder(layout).decode(pa.nulls(4, pa.binary()), values, times, times, times)
    assert not bad
    assert str(batch.column("V").to_pylist()) == "[nan, inf, -inf, 1.0]"


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.floats() | st.floats(1e-12, 1e-3) | st.floats(1e8, 1e18), min_size=1))
@example(numbers=[1e-4, 1e-5, 1e-7, 0.00012, 1e10, 12345678901.5, 1e15, 1e16, -0.0, 0.0])
@pytest.mark.parametrize("type_", [t.DOUBLE, t.array(t.DOUBLE)], ids=str)
def test_the_bytes_of_a_number_are_those_of_a_row_of_its_own(
    type_: t.SqlType, numbers: list[float]
) -> None:
    """The bytes of a key decide its partition."""
    values = numbers if type_ is t.DOUBLE else [[number, None] for number in numbers]
    codec = JsonFormat((Column("K", type_, Role.KEY),), wrapped=False)
    written = codec.write([arrow_array([*values, None], type_)], len(values) + 1).to_pylist()
    assert written == [codec.write_row([value]) for value in [*values, None]]


@given(
    rows=st.lists(st.tuples(st.integers() | st.none(), TEXTS | st.none(), st.floats(0, 1))),
    double=st.booleans(),
)
def test_json_of_many_rows_is_that_of_each(rows: list[tuple[Any, ...]], double: bool) -> None:
    """A DOUBLE is not written as orjson does."""
    types = (t.BIGINT, t.STRING, t.DOUBLE)[: 3 if double else 2]
    codec = JsonFormat([Column(f"c'{n}", type_, Role.VALUE) for n, type_ in enumerate(types)])
    some = [
        tuple(values[: len(types)])
        for values in rows
        if values[0] is None or abs(values[0]) < 2**63
    ]
    assert codec.write_rows(some) == [codec.write_row(values) for values in some]


def test_a_decimal_is_written_without_an_exponent() -> None:
    layout = layout_of({"V": t.decimal(10, 8)}, FormatInfo("JSON"))
    row = {"K": "k", "V": Decimal("1E-8"), "ROWTIME": 0}
    _, values, _ = Encoder(layout).encode(rows_to_batch(layout, [row]))
    assert values.to_pylist() == [b'{"V":0.00000001}']


def test_arrow_types_are_those_that_spark_takes() -> None:
    assert arrow_type(t.TIME) == pa.time64("ns")
    assert arrow_type(t.TIMESTAMP) == pa.timestamp("us", "UTC")
    assert arrow_type(t.decimal(4, 2)) == pa.decimal128(4, 2)


@pytest.mark.parametrize("name", ["JSON", "DELIMITED", "KAFKA", "NONE"])
def test_rows_without_key_columns_have_no_key(name: str) -> None:
    layout = Layout(LogicalSchema((Column("A", t.INTEGER),)), FormatInfo(name), FormatInfo("JSON"))
    batch = rows_to_batch(layout, [{"A": 1, "ROWTIME": 0}])
    keys, values, _ = Encoder(layout).encode(batch)
    assert (keys.to_pylist(), values.to_pylist()) == ([None], [b'{"A":1}'])
    assert Encoder(layout).record({"A": 1, "ROWTIME": 0})[0] is None


def test_a_record_without_value_has_no_key_of_its_time() -> None:
    """PARTITION BY id, ROWTIME: the timestamp stays."""
    columns = (Column("ID", t.INTEGER, Role.KEY), Column("ROWTIME", t.BIGINT, Role.KEY))
    schema = LogicalSchema((*columns, Column("V", t.INTEGER)))
    layout = Layout(schema, FormatInfo("JSON"), FormatInfo("JSON"), always_keyed=True)
    rows = [
        {"ID": 1, "V": 2, "ROWTIME": 10, "__DELETED": False},
        {"ID": None, "V": None, "ROWTIME": 12, "__DELETED": True},
    ]
    batch = pa.RecordBatch.from_pylist(rows)
    keys, values, timestamps = Encoder(layout).encode(batch)
    assert keys.to_pylist() == [b'{"ID":1,"ROWTIME":10}', b'{"ID":null,"ROWTIME":null}']
    assert values.to_pylist() == [b'{"V":2}', None]
    assert timestamps.to_pylist() == [10, 12]
