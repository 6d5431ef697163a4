"""Parsing statements."""

from __future__ import annotations

from ottla.rows.schema import Role, WindowKind
from ottla.rows.types import BIGINT, STRING
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import (
    CreateAsSelect,
    CreateSource,
    Element,
    Emit,
    Select,
    SourceKind,
    WindowExpression,
)


def test_a_stream_has_its_columns_and_properties() -> None:
    (found,) = parse(
        "CREATE STREAM IF NOT EXISTS orders (id STRING KEY, amount BIGINT)"
        " WITH (kafka_topic='orders', value_format='JSON', partitions=3);"
    )
    assert found == CreateSource(
        SourceKind.STREAM,
        "ORDERS",
        (Element("ID", STRING, Role.KEY), Element("AMOUNT", BIGINT)),
        {"KAFKA_TOPIC": "orders", "VALUE_FORMAT": "JSON", "PARTITIONS": 3},
        if_not_exists=True,
    )


def test_a_table_is_made_of_a_query() -> None:
    (found,) = parse(
        "CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM orders"
        " WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 5 SECONDS) GROUP BY id EMIT FINAL;"
    )
    assert isinstance(found, CreateAsSelect)
    assert found.query.window == WindowExpression(
        WindowKind.TUMBLING, size_ms=60_000, grace_ms=5_000
    )
    assert found.query.emit is Emit.FINAL
    assert [item.alias for item in found.query.select] == ["", "N"]


def test_a_pull_query_beyond_ksqldbs_grammar_is_left_to_spark() -> None:
    (found,) = parse("SELECT id FROM t ORDER BY n DESC LIMIT 3;")
    assert isinstance(found, Select)
    assert found.query.beyond is not None
    assert found.query.beyond.sql("spark") == "SELECT `ID` FROM `T` ORDER BY `N` DESC LIMIT 3"
    assert found.query.limit == 3
