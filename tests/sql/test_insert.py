"""INSERT INTO ... VALUES."""

from __future__ import annotations

import pytest

from ottla.rows import types as t
from ottla.rows.errors import SqlError
from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.sql.catalog import DataSource
from ottla.sql.insert import Inserts
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import InsertValues, SourceKind

COLUMNS = (
    Column("ID", t.STRING, Role.KEY),
    Column("N", t.BIGINT),
    Column("X", t.decimal(5, 2)),
    Column("MOMENT", t.TIMESTAMP),
    Column("TAGS", t.array(t.STRING)),
    Column("H", t.BYTES, Role.HEADER, "h"),
)


def source(kind: SourceKind = SourceKind.STREAM, **more: object) -> DataSource:
    layout = Layout(
        LogicalSchema(COLUMNS),
        FormatInfo("KAFKA"),
        FormatInfo("JSON"),
        is_table=kind is SourceKind.TABLE,
        **{name: value for name, value in more.items() if name != "read_only"},  # type: ignore[arg-type]
    )
    return DataSource("S", kind, layout, "s", read_only=bool(more.get("read_only")))


def record(text: str, into: DataSource | None = None) -> tuple[bytes | None, bytes | None, int]:
    (statement,) = parse(text)
    assert isinstance(statement, InsertValues)
    return Inserts(into or source(), now_ms=lambda: 777).of_statement(statement)


def test_all_columns_in_their_order() -> None:
    text = "INSERT INTO S VALUES ('a', 5, 1.25, '2020-01-01T00:00:00', ARRAY['x', NULL]);"
    assert record(text) == (
        b"a",
        b'{"N":5,"X":1.25,"MOMENT":1577836800000,"TAGS":["x",null]}',
        777,
    )


def test_a_null_map_key_is_text_in_json() -> None:
    columns = (Column("M", t.map_of(t.STRING, t.INTEGER)),)
    layout = Layout(LogicalSchema(columns), FormatInfo("NONE"), FormatInfo("JSON"))
    into = DataSource("S", SourceKind.STREAM, layout, "s")
    value = record("INSERT INTO S VALUES (MAP(CAST(NULL AS STRING) := 1));", into)[1]
    assert value == b'{"M":{"null":1}}'


def test_unknown_struct_fields_are_left_out() -> None:
    columns = (Column("U", t.struct(("A", t.INTEGER), ("B", t.STRING))),)
    layout = Layout(LogicalSchema(columns), FormatInfo("NONE"), FormatInfo("JSON"))
    into = DataSource("S", SourceKind.STREAM, layout, "s")
    value = record("INSERT INTO S VALUES (STRUCT(B := 'b', C := 5));", into)[1]
    assert value == b'{"U":{"A":null,"B":"b"}}'


def test_key_columns_come_first() -> None:
    columns = (Column("N", t.INTEGER), Column("ID", t.STRING, Role.KEY))
    layout = Layout(LogicalSchema(columns), FormatInfo("KAFKA"), FormatInfo("JSON"))
    into = DataSource("S", SourceKind.STREAM, layout, "s")
    assert record("INSERT INTO S VALUES ('a', 5);", into) == (b"a", b'{"N":5}', 777)


def test_some_columns_and_rowtime() -> None:
    assert record("INSERT INTO S (N, ID, ROWTIME) VALUES (-5, 'a', 1234);") == (
        b"a",
        b'{"N":-5,"X":null,"MOMENT":null,"TAGS":null}',
        1234,
    )
    assert record("INSERT INTO S (N) VALUES (1 + 2);")[0] is None


def test_the_timestamp_column_gives_the_time() -> None:
    text = "INSERT INTO S (ID, MOMENT) VALUES ('a', '1970-01-01T00:00:05');"
    assert record(text, source(timestamp="MOMENT"))[2] == 5000


def test_rows_of_values() -> None:
    inserts = Inserts(source(), now_ms=lambda: 1)
    assert inserts.of_row({"ID": "k", "N": 3})[:1] == (b"k",)
    with pytest.raises(SqlError, match="does not exist"):
        inserts.of_row({"NOPE": 3})
    with pytest.raises(SqlError, match="Failed to insert"):
        Inserts(
            DataSource(
                "S",
                SourceKind.STREAM,
                Layout(
                    LogicalSchema((Column("N", t.INTEGER),)),
                    FormatInfo("NONE"),
                    FormatInfo("KAFKA"),
                ),
                "s",
            )
        ).of_row({"N": 2**40})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("INSERT INTO S VALUES ('a', 5);", "Expected a value for each column"),
        ("INSERT INTO S (ID, N) VALUES ('a');", "Expected a value for each column"),
        ("INSERT INTO S (ID, NOPE) VALUES ('a', 1);", "Column name NOPE does not exist"),
        (
            "INSERT INTO S (ID, ROWOFFSET) VALUES ('a', 1);",
            "Inserting into column `ROWOFFSET` is not allowed",
        ),
        ("INSERT INTO S (ID, N) VALUES ('a', 'x');", "Expected type BIGINT but got STRING"),
        ("INSERT INTO S (ID, N) VALUES (5, 5);", "Expected type STRING but got INTEGER"),
        ("INSERT INTO S (ID, X) VALUES ('a', 1.255);", "Expected type DECIMAL"),
        ("INSERT INTO S (ID, H) VALUES ('a', 'x');", "Cannot insert into HEADER columns: H"),
        ("INSERT INTO S (ROWTIME) VALUES (-1);", "ROWTIME"),
    ],
)
def test_invalid_statements_are_refused(text: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        record(text)


def test_targets_that_take_no_rows() -> None:
    with pytest.raises(SqlError, match="primary key column\\(s\\) ID is required for tables"):
        record("INSERT INTO S (N) VALUES (1);", source(SourceKind.TABLE))
    with pytest.raises(SqlError, match="read-only table: S"):
        record("INSERT INTO S (N) VALUES (1);", source(SourceKind.TABLE, read_only=True))
    with pytest.raises(SqlError, match="windowed"):
        record(
            "INSERT INTO S (N) VALUES (1);",
            source(SourceKind.TABLE, windowed=WindowInfo(WindowKind.TUMBLING, 5)),
        )
