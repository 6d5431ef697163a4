"""Avro payloads as columns, beside fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.rows import types as t
from ottla.rows.formats.arrow import arrow_array, python_values
from ottla.rows.formats.avro.payload_reader import PayloadReader, TypeMismatchError
from ottla.rows.formats.avro.payload_writer import PayloadWriter
from ottla.rows.formats.avro.types import AvroTypeInference, avro_schema
from ottla.rows.formats.type_inference import RecursiveSchemaError
from ottla.rows.types import SqlField
from ottla.schemas.avro.schema import AvroSchema

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
MILLIS = st.datetimes(dt.datetime(1900, 1, 2), dt.datetime(2200, 12, 30)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=dt.UTC)
)
COLUMNS: dict[str, tuple[t.SqlType, st.SearchStrategy[Any]]] = {
    "B": (t.BOOLEAN, st.booleans()),
    "I": (t.INTEGER, st.integers(-(2**31), 2**31 - 1)),
    "L": (t.BIGINT, st.integers(-(2**63), 2**63 - 1)),
    "D": (t.DOUBLE, st.floats(allow_nan=False)),
    "S": (t.STRING, TEXTS),
    "Y": (t.BYTES, st.binary(max_size=12)),
    "M": (t.decimal(38, 6), st.decimals(-(10**30), 10**30, places=6)),
    "T": (t.TIME, st.times().map(lambda at: at.replace(microsecond=0))),
    "A": (t.DATE, st.dates()),
    "Z": (t.TIMESTAMP, MILLIS),
    "LS": (t.array(t.STRING), st.lists(st.none() | TEXTS, max_size=3)),
    "LL": (
        t.array(t.array(t.INTEGER)),
        st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3), max_size=3),
    ),
    "ML": (
        t.map_of(t.STRING, t.BIGINT),
        st.dictionaries(TEXTS, st.none() | st.integers(-99, 99), max_size=3),
    ),
    "R": (
        t.struct(("X", t.INTEGER), ("W", t.map_of(t.STRING, t.decimal(4, 2)))),
        st.fixed_dictionaries(
            {
                "X": st.none() | st.integers(0, 9),
                "W": st.none()
                | st.dictionaries(TEXTS, st.none() | st.decimals(-99, 99, places=2), max_size=2),
            }
        ),
    ),
}
FIELDS = [SqlField(name, type_) for name, (type_, _) in COLUMNS.items()]
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()}),
    max_size=4,
)


def node_of(schema: Any) -> Any:
    return AvroSchema(json.dumps(schema), {}).root


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(
    schema: Any, fields: list[SqlField], payloads: list[bytes], *, wrapped: bool = True
) -> tuple[list[list[Any]], dict[int, str]]:
    """Payloads follow each other, with other bytes between them, as in a batch."""
    data, places = b"", []
    for payload in payloads:
        data += b"\0\0\0\0\7"
        places += [len(data), len(data) + len(payload)]
        data += payload
    reader = PayloadReader(node_of(schema), fields, wrapped=wrapped)
    for _ in range(2):  # the second batch is independent of the first
        arrays, problems = reader.read(data, np.array(places, np.int32).tobytes(), len(payloads))
    for array in arrays:
        array.validate(full=True)
        assert len(array) == len(payloads)
    columns = [python_values(a, f.type) for a, f in zip(arrays, fields, strict=True)]
    return columns, problems


def entries(row: Any) -> Any:
    """Maps as the arrays of entries that the schema has."""
    made = dict(row)
    if row["ML"] is not None:
        made["ML"] = [{"key": k, "value": v} for k, v in row["ML"].items()]
    if row["R"] is not None and row["R"]["W"] is not None:
        pairs = [{"key": k, "value": v} for k, v in row["R"]["W"].items()]
        made["R"] = {**row["R"], "W": pairs}
    return made


@settings(max_examples=15, deadline=None)
@given(ROWS)
def test_columns_equal_what_fastavro_wrote(rows: list[dict[str, Any]]) -> None:
    schema = avro_schema(FIELDS, wrapped=True)
    columns, problems = read(schema, FIELDS, [written(schema, entries(row)) for row in rows])
    assert not problems
    assert columns == [[row[field.name] for row in rows] for field in FIELDS]


@settings(max_examples=15, deadline=None)
@given(ROWS)
def test_fastavro_reads_what_is_written(rows: list[dict[str, Any]]) -> None:
    schema = avro_schema(FIELDS, wrapped=True)
    writer = PayloadWriter(node_of(schema), FIELDS, wrapped=True, prefix=b"!")
    columns = [arrow_array([row[f.name] for row in rows], f.type) for f in FIELDS]
    # Spark sometimes passes a slice of a longer batch.
    padded = [pa.concat_arrays([array[:0], array]).slice(0) for array in columns]
    payloads = writer.write(padded, len(rows)).to_pylist()
    parsed = fastavro.parse_schema(schema)
    for row, payload in zip(rows, payloads, strict=True):
        assert payload[:1] == b"!"
        source = io.BytesIO(payload[1:])
        assert fastavro.schemaless_reader(source, parsed, None) == entries(row)
        assert not source.read()


@settings(max_examples=25, deadline=None)
@given(ROWS.filter(len), st.data())
def test_a_broken_payload_affects_no_other(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    schema = avro_schema(FIELDS, wrapped=True)
    payloads = [written(schema, entries(row)) for row in rows]
    broken = data.draw(st.integers(0, len(rows) - 1))
    place = data.draw(st.integers(0, len(payloads[broken]) - 1))
    cut = data.draw(st.booleans())
    before = payloads[broken]
    payloads[broken] = before[:place] if cut else before[:place] + b"\xff\xff" + before[place + 1 :]
    columns, problems = read(schema, FIELDS, payloads)
    assert set(problems) <= {broken}
    assert not cut or problems
    for row in set(range(len(rows))) - {broken}:
        assert [column[row] for column in columns] == [rows[row][f.name] for f in FIELDS]


WRITER: Any = {
    "type": "record",
    "name": "com.acme.Order",
    "fields": [
        {"name": "skipped", "type": {"type": "map", "values": ["null", "string", "double"]}},
        {"name": "id", "type": "int"},
        {"name": "price", "type": "float"},
        {
            "name": "next",
            "type": ["null", "Order"],
            "doc": "an order within itself, which no column wants",
        },
        {"name": "Colour", "type": {"type": "enum", "name": "C", "symbols": ["RED", "BLUE"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "F", "size": 4}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "either", "type": ["null", "int", "string"]},
        {"name": "one", "type": ["string"]},
        {"name": "last", "type": ["string", "null"]},
    ],
}
VALUE: dict[str, Any] = {
    "skipped": {"a": None, "b": "x", "c": 2.5},
    "id": 7,
    "price": 1.5,
    "next": None,
    "Colour": "BLUE",
    "hash": b"abcd",
    "tags": {"x": 1},
    "either": "text",
    "one": "1",
    "last": None,
}


def test_a_writer_schema_may_differ_from_the_columns() -> None:
    fields = [
        SqlField("LAST", t.STRING),
        SqlField("ID", t.BIGINT),
        SqlField("PRICE", t.DOUBLE),
        SqlField("COLOUR", t.STRING),
        SqlField("HASH", t.BYTES),
        SqlField("TAGS", t.map_of(t.STRING, t.STRING)),
        SqlField("EITHER", t.struct(("STRING", t.STRING), ("INT", t.INTEGER))),
        SqlField("ONE", t.STRING),
        SqlField("MISSING", t.array(t.DATE)),
    ]
    rows = [VALUE, {**VALUE, "next": VALUE, "either": 3, "last": "z"}, {**VALUE, "either": None}]
    columns, problems = read(WRITER, fields, [written(WRITER, row) for row in rows])
    assert not problems
    assert columns[:6] == [
        [None, "z", None],
        [7, 7, 7],
        [1.5, 1.5, 1.5],
        ["BLUE"] * 3,
        [b"abcd"] * 3,
        [{"x": "1"}] * 3,
    ]
    assert columns[6] == [
        {"STRING": "text", "INT": None},
        {"STRING": None, "INT": 3},
        None,
    ]
    assert columns[7:] == [["1"] * 3, [None] * 3]


def test_an_exact_name_wins_over_another_case() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "int"}, {"name": "ID", "type": "int"}],
    }
    columns, _ = read(schema, [SqlField("ID", t.INTEGER)], [written(schema, {"id": 1, "ID": 2})])
    assert columns == [[2]]


def test_blocks_with_their_size_are_read() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "skipped", "type": {"type": "array", "items": "long"}},
            {"name": "kept", "type": {"type": "array", "items": "long"}},
        ],
    }
    block = b"\x03\x04\x02\x04\x00"  # -2 items in 2 bytes: 1, 2
    columns, problems = read(schema, [SqlField("KEPT", t.array(t.BIGINT))], [block + block])
    assert (columns, problems) == ([[[1, 2]]], {})


@pytest.mark.parametrize(
    ("schema", "payload", "cause"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x01", "is not between"),
        ("long", b"\xff" * 10 + b"\x01", "more than 64 bits"),
        ("boolean", b"\x02", "is not a boolean"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\x0f\0", "items in"),
        (["null", "long"], b"\x08", "no branch number 4"),
        ("string", b"\x09abc", "ends after the record"),
        ("string", b"\x02\xff", "can't decode"),
        ("long", b"\x02\x02", "left over"),
        ("double", b"\0\0", "end too early"),
    ],
)
def test_malformed_avro_is_refused(schema: Any, payload: bytes, cause: str) -> None:
    kinds = {"int": t.INTEGER, "boolean": t.BOOLEAN, "string": t.STRING, "double": t.DOUBLE}
    type_ = kinds.get(str(schema), t.BIGINT)
    if isinstance(schema, dict):
        type_ = t.array(t.BIGINT)
    good = {"boolean": b"\1", "string": b"\2a", "double": struct.pack("<d", 1)}
    other = good.get(str(schema), b"\2\2\0" if isinstance(schema, dict) else b"\2")
    other = b"\2\2" if isinstance(schema, list) else other
    columns, problems = read(schema, [SqlField("V", type_)], [other, payload, other], wrapped=False)
    assert set(problems) == {1}
    assert cause in problems[1]
    assert columns[0][0] == columns[0][2] is not None


def test_items_that_take_no_bytes_are_bounded_by_the_record_and_not_by_the_block() -> None:
    nothing = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}
    lists = {"type": "array", "items": {"type": "array", "items": nothing}}
    schema = {"type": "record", "name": "R", "fields": [{"name": "kept", "type": lists}]}
    fields = [SqlField("KEPT", t.array(t.array(t.struct(("A", t.INTEGER)))))]
    few = b"\2" + b"\xd0\x0f\0" + b"\0"  # 1,000 items
    many = b"\x04" + b"\xd0\x0f\0" * 2 + b"\0"
    blocks = b"\xd0\x0f" * 50_000  # each is less than the record has bytes
    huge = b"\2" + b"\xfe" + b"\xff" * 8 + b"\0" * 3
    columns, problems = read(schema, fields, [few, many, few, b"\2" + blocks + b"\0\0", huge, few])
    assert set(problems) == {1, 3, 4}
    assert "1000 items in" in problems[1]
    assert [None if column is None else len(column[0]) for column in columns[0]] == [
        *(1000, None, 1000, None, None, 1000)
    ]
    # Items without a column are skipped, not decoded.
    wide = {**schema, "fields": [*schema["fields"], {"name": "v", "type": "int"}]}
    columns, problems = read(wide, [SqlField("V", t.INTEGER)], [huge + b"\2", many + b"\4"])
    assert (columns, problems) == ([[1, 2]], {})


def test_recursive_records_have_a_depth_limit() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "next", "type": ["null", "R"]}, {"name": "v", "type": "int"}],
    }
    deep = b"\2" * 100_000 + b"\0" + b"\2" * 100_001
    _, problems = read(schema, [SqlField("V", t.INTEGER)], [deep])
    assert "nested more than 200 deep" in problems[0]
    columns, problems = read(schema, [SqlField("V", t.INTEGER)], [b"\2\0\2\4"])
    assert (columns, problems) == ([[2]], {})
    with pytest.raises(RecursiveSchemaError):
        AvroTypeInference().type(node_of(schema))


def test_incompatible_types_are_named() -> None:
    schema = avro_schema([SqlField("A", t.struct(("B", t.STRING)))], wrapped=True)
    with pytest.raises(
        TypeMismatchError, match=r"A\.B is string in its schema, and can't be INTEGER"
    ):
        read(schema, [SqlField("A", t.struct(("B", t.INTEGER)))], [])
    with pytest.raises(TypeMismatchError, match="has no field C"):
        PayloadWriter(node_of(schema), [SqlField("C", t.STRING)], wrapped=True, prefix=b"")


def test_top_level_bytes_have_no_size() -> None:
    """As Confluent's serializers write them."""
    fields = [SqlField("K", t.BYTES)]
    writer = PayloadWriter(node_of("bytes"), fields, wrapped=False, prefix=b"!")
    assert writer.write([pa.array([b"abc", None], pa.binary())], 2).to_pylist() == [b"!abc", None]
    assert read("bytes", fields, [b"abc", b""], wrapped=False) == ([[b"abc", b""]], {})


def test_a_schema_with_more_than_the_columns_takes_its_defaults() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "v", "type": "long"},
            {"name": "note", "type": "string", "default": "none"},
            {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
            {"name": "free", "type": ["null", "int"]},
        ],
    }
    writer = PayloadWriter(node_of(schema), [SqlField("v", t.INTEGER)], wrapped=True, prefix=b"")
    (payload,) = writer.write([pa.array([5], pa.int32())], 1).to_pylist()
    parsed = fastavro.parse_schema(schema)
    found = fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
    assert found == {"v": 5, "note": "none", "list": [1, 2], "free": None}
    with pytest.raises(ValueError, match="v is null"):
        writer.write([pa.array([None], pa.int32())], 1)


def test_a_null_becomes_the_default_of_a_field_without_null() -> None:
    inner = {
        "type": "record",
        "name": "In",
        "fields": [
            {"name": "n", "type": "long", "default": 10},
            {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
            {"name": "free", "type": ["null", "int"], "default": None},
        ],
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": "inner", "type": inner}]}
    type_ = t.struct(("n", t.BIGINT), ("list", t.array(t.INTEGER)), ("free", t.INTEGER))
    writer = PayloadWriter(node_of(schema), [SqlField("inner", type_)], wrapped=True, prefix=b"")
    rows = [{"n": 5, "list": [7], "free": 1}, {"n": None, "list": None, "free": None}]
    payloads = writer.write([arrow_array(rows, type_)], 2).to_pylist()
    parsed = fastavro.parse_schema(schema)
    found: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(payload), parsed, None) for payload in payloads
    ]
    assert [row["inner"] for row in found] == [rows[0], {"n": 10, "list": [1, 2], "free": None}]


def test_decimals_beyond_their_precision_are_refused() -> None:
    schema = avro_schema([SqlField("M", t.decimal(38, 2))], wrapped=True)
    payloads = [written(schema, {"M": Decimal("1.25")}), written(schema, {"M": Decimal("999.25")})]
    columns, problems = read(schema, [SqlField("M", t.decimal(4, 2))], payloads)
    assert columns == [[Decimal("1.25"), None]]
    assert set(problems) == {1}


def test_a_top_level_decimal_has_no_size() -> None:
    """As Java's serializer and Connect's AvroConverter write it: the unscaled number alone."""
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    fields = [SqlField("K", t.decimal(6, 2))]
    writer = PayloadWriter(node_of(schema), fields, wrapped=False, prefix=b"!")
    values = [Decimal("12.34"), None, Decimal("-0.01")]
    written = writer.write([pa.array(values, pa.decimal128(6, 2))], 3).to_pylist()
    assert written == [b"!\x04\xd2", None, b"!\xff"]
    payloads = [b"\x04\xd2", b"\xff", b"\0" * 70 + b"\x01"]
    assert read(schema, fields, payloads, wrapped=False) == (
        [[Decimal("12.34"), Decimal("-0.01"), Decimal("0.01")]],
        {},
    )
