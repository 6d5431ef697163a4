"""Pull queries that run on Spark, as Spark SQL."""

from __future__ import annotations

import pytest
from planned_shop import shop

from ottla.rows.errors import SqlError
from ottla.sql.plan.spark_pull import SparkPull, plan_spark_pull
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import Select


def pulled(text: str) -> SparkPull:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return plan_spark_pull(statement.query, shop())


def test_a_plain_query_is_typed_by_ottla() -> None:
    pull = pulled("SELECT UCASE(name) AS n, id FROM customers WHERE zip > 3 LIMIT 2;")
    assert [(column.name, str(column.type)) for column in pull.columns] == [
        ("N", "STRING"),
        ("ID", "BIGINT"),
    ]
    assert list(pull.views) == ["ottla_pull_CUSTOMERS"]
    assert pull.text.endswith("LIMIT 2")


def test_rows_can_be_counted() -> None:
    pull = pulled("SELECT COUNT(*) AS n, MAX(zip) AS z FROM customers;")
    assert [(column.name, str(column.type)) for column in pull.columns] == [
        ("N", "BIGINT"),
        ("Z", "INTEGER"),
    ]


def test_queries_beyond_our_grammar_are_typed_by_spark() -> None:
    pull = pulled(
        "WITH big AS (SELECT * FROM orders WHERE amount > 3)"
        " SELECT c.name, COUNT(*) AS n FROM big b JOIN customers c ON b.customer = c.id"
        " GROUP BY c.name ORDER BY n DESC;"
    )
    assert pull.columns == ()
    assert set(pull.views) == {"ottla_pull_ORDERS", "ottla_pull_CUSTOMERS"}
    assert "ottla_pull_CUSTOMERS` AS `C`" in pull.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT id, ROWOFFSET FROM orders;", "in SELECT clauses: `ROWOFFSET`"),
        ("SELECT * FROM orders WHERE ROWPARTITION != 2;", "in WHERE clauses: `ROWPARTITION`"),
        ("SELECT item, item FROM orders;", "Duplicate value columns found in schema: `ITEM`"),
    ],
)
def test_stream_queries_that_ksqldb_refuses_are_refused(text: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        pulled(text)


def test_pull_queries_of_spark_have_partitions_and_offsets() -> None:
    assert "ROWOFFSET" in pulled("SELECT id, ROWOFFSET FROM orders ORDER BY ROWOFFSET;").text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT nothing FROM customers;",
        "SELECT * FROM nowhere ORDER BY a;",
    ],
)
def test_invalid_pull_queries(text: str) -> None:
    with pytest.raises(SqlError):
        pulled(text)
