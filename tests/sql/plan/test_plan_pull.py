"""Pull queries that Spark answers, as Spark is asked them."""

from __future__ import annotations

import pytest
from planned_shop import shop

from ottla.rows.errors import SqlError
from ottla.sql.plan.pull import Pull, plan_pull
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import Select


def pulled(text: str) -> Pull:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return plan_pull(statement.query, shop())


def test_a_plain_query_is_typed_by_us() -> None:
    pull = pulled("SELECT UCASE(name) AS n, id FROM customers WHERE zip > 3 LIMIT 2;")
    assert [(each.name, str(each.type)) for each in pull.columns] == [
        ("N", "STRING"),
        ("ID", "BIGINT"),
    ]
    assert list(pull.views) == ["ottla_pull_CUSTOMERS"]
    assert pull.text.endswith("LIMIT 2")


def test_rows_can_be_counted() -> None:
    pull = pulled("SELECT COUNT(*) AS n, MAX(zip) AS z FROM customers;")
    assert [(each.name, str(each.type)) for each in pull.columns] == [
        ("N", "BIGINT"),
        ("Z", "INTEGER"),
    ]


def test_what_is_beyond_our_grammar_is_sparks_to_type() -> None:
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
def test_what_ksqldb_refuses_of_a_stream(text: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        pulled(text)


def test_spark_may_be_asked_where_records_lie() -> None:
    assert "ROWOFFSET" in pulled("SELECT id, ROWOFFSET FROM orders ORDER BY ROWOFFSET;").text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT nothing FROM customers;",
        "SELECT * FROM nowhere ORDER BY a;",
    ],
)
def test_what_can_not_be_asked(text: str) -> None:
    with pytest.raises(SqlError):
        pulled(text)
