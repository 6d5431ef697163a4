"""Records that are malformed or unusual."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ottla.rows import types as t
from ottla.rows.errors import SqlError
from ottla.rows.formats import BadRecord, Decoder, Encoder
from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)

JSON = FormatInfo("JSON")
KAFKA = FormatInfo("KAFKA")


def layout_of(*columns: Column, **more: Any) -> Layout:
    more = {"key_format": KAFKA, "value_format": JSON, **more}
    return Layout(LogicalSchema((Column("K", t.STRING, Role.KEY), *columns)), **more)


def decode(
    layout: Layout,
    values: list[bytes | None],
    keys: list[bytes | None] | None = None,
    headers: pa.Array | None = None,
) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    """Decodes in bulk, and compares with decoding each record alone."""
    decoder = Decoder(layout)
    count = len(values)
    keys = keys or [b"k"] * count
    batch, bad = decoder.decode(
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(range(1000, 1000 + count), pa.int64()),
        pa.array([7] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        headers,
    )
    rows = batch.to_pylist()
    if headers is None:
        singly = []
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                singly.append(decoder.row(key, value, 1000 + number, 7, number))
            except ValueError:
                assert number in [bad_record.offset for bad_record in bad]
        maps = [name for name in batch.schema.names if "map" in str(batch.schema.field(name).type)]
        for row in singly:
            row |= {name: list(row[name].items()) for name in maps if row[name] is not None}
        assert rows == singly
    return rows, bad


def columns_of(rows: list[dict[str, Any]], *names: str) -> list[Any]:
    if len(names) == 1:
        return [row[names[0]] for row in rows]
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("repeat", [1, 400], ids=["few", "many"])
def test_field_names_match_whatever_their_case(repeat: int) -> None:
    layout = layout_of(Column("ID", t.INTEGER), Column("name", t.STRING))
    values: list[bytes | None] = [
        b'{"id":1,"NAME":"a"}',
        b'{"ID":2,"Name":"b"}',
        b'{"id":3,"ID":4,"other":[1]}',
    ]
    rows, bad = decode(layout, values * repeat)
    assert not bad
    assert columns_of(rows, "ID", "name") == [(1, "a"), (2, "b"), (4, None)] * repeat


def test_regular_objects_are_read_equally_in_bulk() -> None:
    layout = layout_of(
        Column("A", t.BIGINT),
        Column("B", t.TIMESTAMP),
        Column("C", t.DATE),
        Column("D", t.TIME),
        Column("E", t.BYTES),
        Column("F", t.decimal(6, 2)),
        Column("G", t.array(t.STRING)),
        Column("H", t.BOOLEAN),
    )
    value = b'{"a":1,"b":-1,"c":1,"d":1001,"e":"YQ==","f":1.5,"g":["x",null],'
    value += b'"h":true,\n "more":{"x":1}}'
    rows, bad = decode(layout, [value] * 600)
    assert not bad
    assert (
        columns_of(rows, *"ABCDEFGH")
        == [
            (
                1,
                dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC),
                dt.date(1970, 1, 2),
                dt.time(0, 0, 1, 1000),
                b"a",
                Decimal("1.50"),
                ["x", None],
                True,
            )
        ]
        * 600
    )


def test_any_value_is_accepted_as_text() -> None:
    layout = layout_of(Column("S", t.STRING))
    texts = ["1", "1.10", "1e2", "true", '{"b":1.50,"a":[null,"ü\\""]}', "[1, 2]", "null", '"x"']
    rows, bad = decode(layout, [f'{{"S":{text}}}'.encode() for text in texts])
    assert not bad
    assert columns_of(rows, "S") == [
        "1",
        "1.10",
        "1E+2",
        "true",
        '{"b":1.50,"a":[null,"ü\\""]}',
        "[1,2]",
        None,
        "x",
    ]


def test_numeric_text_is_accepted_as_a_number() -> None:
    layout = layout_of(
        Column("I", t.INTEGER), Column("D", t.DOUBLE), Column("X", t.decimal(20, 18))
    )
    value = b'{"I":"-5","D":"1.5","X":"1.123456789012345678"}'
    rows, bad = decode(layout, [value, b'{"I":2.9,"D":3,"X":0.123456789012345678}'])
    assert not bad
    assert columns_of(rows, "I", "D", "X") == [
        (-5, 1.5, Decimal("1.123456789012345678")),
        (2, 3.0, Decimal("0.123456789012345678")),
    ]


@pytest.mark.parametrize("repeat", [1, 400], ids=["few", "many"])
def test_records_that_do_not_fit_are_skipped_and_reported(repeat: int) -> None:
    layout = layout_of(
        Column("I", t.INTEGER), Column("B", t.BOOLEAN), Column("A", t.array(t.INTEGER))
    )
    wrong: list[bytes | None] = [
        b'{"I":3000000000}',
        b'{"I":"x"}',
        b'{"I":true}',
        b'{"I":{}}',
        b'{"B":1}',
        b'{"A":5}',
        b'{"A":["y"]}',
        b"[1]",
        b"5",
        b"",
        b"{",
        b'{"I":1} {"I":2}',
        b'{"I":NaN}',
        b"\xff",
        b'{"I":1_0}',
        b'{"I":"1_0"}',
    ]
    right: list[bytes | None] = [b'{"I":1}', b" {} ", b'{"I":-2147483648,"B":false}']
    rows, bad = decode(layout, (wrong + right) * repeat)
    assert columns_of(rows, "I") == [1, None, -2147483648] * repeat
    assert len(bad) == len(wrong) * repeat
    assert [bad_record.offset for bad_record in bad[: len(wrong)]] == list(range(len(wrong)))
    assert {bad_record.partition for bad_record in bad} == {7}
    assert {bad_record.half for bad_record in bad} == {"value"}
    assert bad[0].cause == "3000000000 does not fit into INTEGER"
    assert bad[0].data == b'{"I":3000000000}'


def test_numbers_outside_json_are_refused_in_bulk_too() -> None:
    layout = layout_of(Column("D", t.DOUBLE))
    rows, bad = decode(layout, [b'{"D":1}'] * 999 + [b'{"D":NaN}'])
    assert (len(rows), len(bad)) == (999, 1)


@pytest.mark.parametrize("tail", [b'{"S":"\\ud800"}', b'{"S":"\xff"}'])
def test_invalid_unicode_is_a_bad_record(tail: bytes) -> None:
    layout = layout_of(Column("S", t.STRING), Column("X", t.decimal(4, 2)))
    rows, bad = Decoder(layout).decode(
        pa.nulls(1000, pa.binary()),
        pa.array([b'{"S":"a"}'] * 999 + [tail], pa.binary()),
        pa.array(range(1000), pa.int64()),
        pa.array([0] * 1000, pa.int32()),
        pa.array(range(1000), pa.int64()),
    )
    assert (rows.num_rows, [bad_record.offset for bad_record in bad]) == (999, [999])


def test_tombstones_and_json_null() -> None:
    layout = layout_of(Column("I", t.INTEGER))
    rows, bad = decode(layout, [b'{"I":1}', None, b"null"])
    assert not bad
    assert columns_of(rows, "I", "__DELETED") == [(1, False), (None, True), (None, True)]
    keys, values, times = Encoder(layout).encode(
        pa.RecordBatch.from_pylist(rows, Decoder(layout).schema)
    )
    assert keys.to_pylist() == [b"k"] * 3
    assert values.to_pylist() == [b'{"I":1}', None, None]
    assert times.to_pylist() == [1000, 1001, 1002]


def test_a_table_needs_keys_and_a_stream_does_not() -> None:
    column = Column("I", t.INTEGER)
    values: list[bytes | None] = [b'{"I":1}', b'{"I":2}']
    rows, bad = decode(layout_of(column), values, [None, b"k"])
    assert columns_of(rows, "K", "I") == [(None, 1), ("k", 2)]
    rows, bad = decode(layout_of(column, is_table=True), values, [None, b"k"])
    assert columns_of(rows, "K", "I") == [("k", 2)]
    assert bad == [BadRecord(7, 0, "key", "a record of a table needs a key", None)]


def test_a_json_key_of_one_column_stands_alone() -> None:
    layout = Layout(
        LogicalSchema((Column("K", t.INTEGER, Role.KEY), Column("V", t.INTEGER))), JSON, JSON
    )
    rows, bad = decode(layout, [b'{"V":1}'] * 3, [b"5", b"null", b'{"K":5}'])
    assert columns_of(rows, "K") == [5, None]
    assert [(bad_record.half, bad_record.offset) for bad_record in bad] == [("key", 2)]
    assert Encoder(layout).record({"K": 5, "V": 1, "ROWTIME": 3}) == (b"5", b'{"V":1}', 3)


def test_kafka_numbers_have_one_size() -> None:
    layout = layout_of(Column("N", t.BIGINT), value_format=KAFKA)
    rows, bad = decode(layout, [struct.pack(">q", 5), b"1234", b"", None, struct.pack(">q", -1)])
    assert columns_of(rows, "N") == [5, None, -1]
    assert [bad_record.cause for bad_record in bad] == [
        "Size of data received by BIGINT is not 8 but 4",
        "Size of data received by BIGINT is not 8 but 0",
    ]


@pytest.mark.parametrize("number", [10**15, -(10**14)])
def test_years_out_of_range_are_bad_records(number: int) -> None:
    layout = layout_of(Column("T", t.TIMESTAMP), Column("D", t.DATE))
    values: list[bytes | None] = [b'{"T":1,"D":1}'] * 600
    rows, bad = decode(layout, [*values, b'{"T":%d}' % number, b'{"D":%d}' % (number // 10**7)])
    assert (len(rows), len(bad)) == (600, 2)


def test_delimited_numbers_as_java_reads_them() -> None:
    kinds = (t.INTEGER, t.DOUBLE, t.BOOLEAN, t.BIGINT)
    columns = [Column(name, kind) for name, kind in zip("ABCD", kinds, strict=True)]
    layout = layout_of(*columns, value_format=FormatInfo("DELIMITED"))
    values: list[bytes | None] = [
        b"1,1.5,true,-9223372036854775808",
        b"+2,1e3,TRUE,5",
        b",,,",
        b"0x1F,1,true,1",
        b" 1,1,true,1",
        b"1, 2.5f ,yes,1",
        b"1_0,1,true,1",
        b"2147483648,1,true,1",
        b"1,nan,true,1",
        b"1,1,true,9223372036854775808",
    ]
    rows, bad = decode(layout, values)
    assert columns_of(rows, *"ABCD") == [
        (1, 1.5, True, -(2**63)),
        (2, 1000.0, True, 5),
        (None, None, None, None),
        (1, 2.5, False, 1),
    ]
    assert [bad_record.offset for bad_record in bad] == [3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize("tail", [b'1,"x', b'1,"x"y', b"1", b'"1\n2",3', b""])
def test_quotes_in_delimited_lines(tail: bytes) -> None:
    columns = (Column("A", t.STRING), Column("B", t.STRING))
    layout = layout_of(*columns, value_format=FormatInfo("DELIMITED"))
    values: list[bytes | None] = [b'1,"a,b"', b'"",x"y', b"1,2"] * 3
    rows, bad = decode(layout, values)
    assert not bad
    assert columns_of(rows, "A", "B") == [("1", "a,b"), (None, 'x"y'), ("1", "2")] * 3
    rows, bad = decode(layout, [tail, *values, tail])
    assert len(rows) + len(bad) == 11
    assert len(bad) == (0 if b"\n" in tail else 2)


def test_delimited_fields() -> None:
    layout = layout_of(
        Column("A", t.INTEGER),
        Column("B", t.STRING),
        Column("C", t.DOUBLE),
        value_format=FormatInfo("DELIMITED", properties={"VALUE_DELIMITER": "|"}),
    )
    values: list[bytes | None] = [
        b'1|"x|""y""\nz"|1.5',
        b"||NaN",
        b"1|2",
        b"1|2|3|4",
        b"x|y|1",
        b"1|y|z",
        b'1|"y|1',
        b"",
    ]
    rows, bad = decode(layout, [value for value in values if value != b"||NaN"])
    assert columns_of(rows, "A", "B", "C") == [(1, 'x|"y"\nz', 1.5)]
    assert [bad_record.offset for bad_record in bad] == [1, 2, 3, 4, 5, 6]
    assert bad[0].cause == "Unexpected field count, csvFields:2 schemaFields:3"
    found = Decoder(layout).row(b"k", b"||NaN", 0)
    assert str((found["A"], found["B"], found["C"])) == "(None, None, nan)"


@pytest.mark.parametrize("kind", [WindowKind.TUMBLING, WindowKind.SESSION])
def test_windows_in_keys_as_kafka_streams_writes_them(kind: WindowKind) -> None:
    size_ms = 100 if kind is WindowKind.TUMBLING else 0
    layout = layout_of(Column("V", t.INTEGER), is_table=True, windowed=WindowInfo(kind, size_ms))
    suffix = struct.pack(">q", 1000)
    if kind is WindowKind.SESSION:
        suffix = struct.pack(">qq", 1100, 1000)  # the end comes first
    rows, bad = decode(layout, [b'{"V":1}'] * 3, [b"ab" + suffix, suffix, b"short"])
    assert columns_of(rows, "K", "WINDOWSTART", "WINDOWEND") == [
        ("ab", 1000, 1100),
        ("", 1000, 1100),
    ]
    assert [(bad_record.half, bad_record.data) for bad_record in bad] == [("key", b"short")]
    keys, _, _ = Encoder(layout).encode(pa.RecordBatch.from_pylist(rows, Decoder(layout).schema))
    assert keys.to_pylist() == [b"ab" + suffix, suffix]
    assert Encoder(layout).record(rows[0])[0] == b"ab" + suffix


def test_headers() -> None:
    every = t.array(t.struct(("KEY", t.STRING), ("VALUE", t.BYTES)))
    layout = layout_of(
        Column("V", t.INTEGER),
        Column("H", every, Role.HEADERS),
        Column("X", t.BYTES, Role.HEADER, "x"),
    )
    pairs = [("x", b"1"), ("y", None), ("x", b"2")]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": k, "value": v} for k, v in pairs], []], kind)
    rows, bad = decode(layout, [b'{"V":1}', b'{"V":1}'], headers=headers)
    assert not bad
    assert columns_of(rows, "H", "X") == [
        ([{"KEY": k, "VALUE": v} for k, v in pairs], b"2"),
        ([], None),
    ]
    row = Decoder(layout).row(b"k", b'{"V":1}', 0, headers=pairs)
    assert (row["H"], row["X"]) == columns_of(rows, "H", "X")[0]
    assert Encoder(layout).record(row) == (b"k", b'{"V":1}', 0)


def test_rowtime_from_a_column() -> None:
    layout = layout_of(Column("AT", t.BIGINT), timestamp="AT")
    rows, bad = decode(layout, [b'{"AT":5}', None, b'{"AT":null}', b'{"AT":-1}'])
    assert columns_of(rows, "ROWTIME") == [5, 1001]
    assert [bad_record.half for bad_record in bad] == ["timestamp", "timestamp"]
    assert Encoder(layout).record({"AT": 5, "ROWTIME": 9}) == (None, b'{"AT":5}', 5)


def test_rowtime_from_text() -> None:
    layout = layout_of(
        Column("AT", t.STRING), timestamp="AT", timestamp_format="yyyy-MM-dd''T''HH:mm:ssX"
    )
    with pytest.raises(SqlError, match="not supported"):
        Decoder(layout_of(Column("AT", t.STRING), timestamp="AT", timestamp_format="GGGG"))
    layout = layout_of(
        Column("AT", t.STRING), timestamp="AT", timestamp_format="yyyy-MM-dd'T'HH:mm:ssX"
    )
    rows, bad = decode(layout, [b'{"AT":"1970-01-01T00:00:01Z"}', b'{"AT":"yesterday"}'])
    assert columns_of(rows, "ROWTIME") == [1000]
    assert bad[0].cause.startswith("Text 'yesterday' does not fit")
    batch = pa.RecordBatch.from_pylist(rows, Decoder(layout).schema)
    assert Encoder(layout).encode(batch)[2].to_pylist() == [1000]


def test_rowtime_from_a_timestamp() -> None:
    layout = layout_of(Column("AT", t.TIMESTAMP), timestamp="AT")
    rows, _ = decode(layout, [b'{"AT":1234567890123}'])
    assert columns_of(rows, "ROWTIME") == [1234567890123]


def test_an_empty_batch_has_no_rows() -> None:
    layout = layout_of(Column("V", t.map_of(t.STRING, t.INTEGER)), Column("D", t.DATE))
    assert decode(layout, []) == ([], [])
    for windowed in (None, WindowInfo(WindowKind.SESSION)):
        layout = layout_of(Column("V", t.BIGINT), windowed=windowed, value_format=KAFKA)
        assert decode(layout, []) == ([], [])
        empty = pa.RecordBatch.from_pylist([], Decoder(layout).schema)
        assert [len(array) for array in Encoder(layout).encode(empty)] == [0, 0, 0]


def test_slices_of_arrays_are_read() -> None:
    layout = layout_of(Column("N", t.INTEGER), value_format=KAFKA)
    values = pa.array([struct.pack(">i", n) for n in range(10)], pa.binary())[4:7]
    keys = pa.array([str(n).encode() for n in range(10)], pa.binary())[4:7]
    times = pa.array(range(10), pa.int64())[4:7]
    batch, _ = Decoder(layout).decode(keys, values, times, times.cast(pa.int32()), times)
    assert batch.column("N").to_pylist() == [4, 5, 6]
    assert batch.column("K").to_pylist() == ["4", "5", "6"]
    sliced = batch.slice(1, 2)
    assert Encoder(layout).encode(sliced)[1].to_pylist() == values[1:].to_pylist()


def test_nested_columns_of_a_slice_are_written() -> None:
    kind = t.struct(("L", t.array(t.INTEGER)), ("M", t.map_of(t.STRING, t.INTEGER)))
    layout = layout_of(Column("V", kind))
    values: list[bytes | None] = [
        b'{"V":{"L":[%d],"M":{"x":%d}}}' % (n, n) if n % 3 else b'{"V":null}' for n in range(9)
    ]
    times = pa.array(range(9), pa.int64())
    keys = pa.array([b"k"] * 9, pa.binary())
    batch, bad = Decoder(layout).decode(
        keys, pa.array(values, pa.binary()), times, times.cast(pa.int32()), times
    )
    assert not bad
    assert Encoder(layout).encode(batch.slice(2, 5))[1].to_pylist() == values[2:7]


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (layout_of(Column("V", t.INTEGER), value_format=FormatInfo("XML")), "Unknown format: XML"),
        (
            layout_of(Column("V", t.array(t.INTEGER)), value_format=FormatInfo("DELIMITED")),
            "The 'DELIMITED' format does not support type 'ARRAY'",
        ),
        (
            layout_of(Column("V", t.BOOLEAN), value_format=KAFKA),
            "The 'KAFKA' format does not support type 'BOOLEAN'",
        ),
        (
            layout_of(Column("V", t.INTEGER), Column("W", t.INTEGER), value_format=KAFKA),
            "only supports a single field",
        ),
        (layout_of(Column("V", t.map_of(t.INTEGER, t.INTEGER))), "MAP types with STRING keys"),
        (layout_of(Column("V", t.INTEGER), timestamp="W"), "does not exist in the schema: 'W'"),
        (layout_of(Column("V", t.STRING), timestamp="V"), "TIMESTAMP_FORMAT"),
        (layout_of(Column("V", t.DOUBLE), timestamp="V"), "should be LONG"),
        (
            layout_of(
                Column("V", t.INTEGER),
                value_format=FormatInfo("DELIMITED", properties={"VALUE_DELIMITER": "ab"}),
            ),
            "Invalid delimiter value: 'ab'",
        ),
        (layout_of(Column("V", t.INTEGER), key_format=FormatInfo("NONE")), "The 'NONE' format"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_impossible_layouts_are_refused(layout: Layout, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        Decoder(layout)
    with pytest.raises(SqlError, match=words):
        Encoder(layout)
