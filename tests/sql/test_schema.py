from __future__ import annotations

from ottla.rows.schema import Column, Format, Layout, Role, Schema, Windowed, WindowKind
from ottla.rows.types import BIGINT, DATE, STRING, array, decimal, map_of, quoted, struct


def test_a_type_reads_as_a_statement_has_it() -> None:
    kind = array(struct(("A", decimal(4, 2)), ("b c", map_of(STRING, DATE))))
    assert str(kind) == "ARRAY<STRUCT<A DECIMAL(4, 2), `b c` MAP<STRING, DATE>>>"
    assert kind.spark == "array<struct<`A`:decimal(4,2),`b c`:map<string,date>>>"


def test_a_name_is_quoted_where_its_case_would_change() -> None:
    assert [quoted(each) for each in ("ID", "id", "A-B", "1ST")] == ["ID", "`id`", "`A-B`", "`1ST`"]


def test_a_layout_survives_its_travel_as_text() -> None:
    layout = Layout(
        schema=Schema(
            (
                Column("ID", STRING, Role.KEY),
                Column("V", array(struct(("A", decimal(4, 2)), ("M", map_of(STRING, BIGINT))))),
                Column("H", STRING, Role.HEADER, "trace"),
            )
        ),
        key_format=Format("KAFKA"),
        value_format=Format("DELIMITED", properties={"delimiter": "|"}),
        is_table=True,
        windowed=Windowed(WindowKind.TUMBLING, 60_000),
        timestamp="V",
        timestamp_format="yyyy",
    )
    assert Layout.from_json(layout.to_json()) == layout
    assert layout.spark_schema().endswith(
        "`WINDOWSTART` bigint, `WINDOWEND` bigint, `__DELETED` boolean"
    )
