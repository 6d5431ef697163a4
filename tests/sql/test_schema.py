from __future__ import annotations

from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.rows.types import BIGINT, DATE, STRING, array, decimal, map_of, quoted, struct


def test_a_type_reads_as_a_statement_has_it() -> None:
    kind = array(struct(("A", decimal(4, 2)), ("b c", map_of(STRING, DATE))))
    assert str(kind) == "ARRAY<STRUCT<A DECIMAL(4, 2), `b c` MAP<STRING, DATE>>>"
    assert kind.spark == "array<struct<`A`:decimal(4,2),`b c`:map<string,date>>>"


def test_a_name_is_quoted_where_its_case_would_change() -> None:
    assert [quoted(name) for name in ("ID", "id", "A-B", "1ST")] == ["ID", "`id`", "`A-B`", "`1ST`"]


def test_a_layout_survives_json() -> None:
    layout = Layout(
        schema=LogicalSchema(
            (
                Column("ID", STRING, Role.KEY),
                Column("V", array(struct(("A", decimal(4, 2)), ("M", map_of(STRING, BIGINT))))),
                Column("H", STRING, Role.HEADER, "trace"),
            )
        ),
        key_format=FormatInfo("KAFKA"),
        value_format=FormatInfo("DELIMITED", properties={"delimiter": "|"}),
        is_table=True,
        windowed=WindowInfo(WindowKind.TUMBLING, 60_000),
        timestamp="V",
        timestamp_format="yyyy",
    )
    assert Layout.from_json(layout.to_json()) == layout
    assert layout.spark_schema().endswith(
        "`WINDOWSTART` bigint, `WINDOWEND` bigint, `__DELETED` boolean"
    )
