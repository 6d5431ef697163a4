"""Queries that the planner rejects, and their errors."""

from __future__ import annotations

import pytest
from planned_shop import planned, shop, with_source

from ottla.rows.errors import SqlError

WRONG = [
    ("CREATE STREAM x AS SELECT * FROM nowhere", "NOWHERE does not exist"),
    ("CREATE STREAM x AS SELECT id, amont FROM payments",
     "SELECT column 'AMONT' cannot be resolved"),
    ("CREATE STREAM x AS SELECT id, q.amount FROM payments",
     "'Q' is not a valid stream/table name or alias"),
    ("CREATE STREAM x AS SELECT id, payments.amont FROM payments",
     "SELECT column 'PAYMENTS.AMONT' cannot be resolved"),
    ("CREATE STREAM x AS SELECT id, amount FROM payments PARTITION BY id, NULL",
     "Cannot PARTITION BY multiple columns including NULL"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) FROM orders GROUP BY item, SUM(amount)",
     "GROUP BY does not support aggregate functions: SUM is an aggregate function"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) FROM orders GROUP BY item, (item)",
     "Duplicate GROUP BY expression: ORDERS.ITEM"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) FROM orders GROUP BY item HAVING SUM(amount) > 'a'",
     "Cannot compare SUM(ORDERS.AMOUNT) (INTEGER) to 'a' (STRING) with GREATER_THAN"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) FROM orders WINDOW TUMBLING (SIZE 1 MINUTE)"
     " GROUP BY item, WINDOWSTART", "Window bounds column WINDOWSTART can only be used in"),
    ("CREATE STREAM x AS SELECT * FROM payments WHERE nope = 1",
     "WHERE column 'NOPE' cannot be resolved"),
    ("CREATE STREAM x AS SELECT * FROM payments WHERE amount",
     "Should evaluate to boolean but is"),
    ("CREATE STREAM x AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item",
     "Your SELECT query produces a TABLE. Please use CREATE TABLE AS SELECT"),
    ("CREATE TABLE x AS SELECT * FROM orders",
     "Your SELECT query produces a STREAM. Please use CREATE STREAM AS SELECT"),
    ("CREATE STREAM x AS SELECT amount FROM payments",
     "must include the key column ID in its projection"),
    ("CREATE STREAM x AS SELECT id, id AS other FROM payments",
     "contains a key column (`ID`) more than once, aliased as: `ID` and `OTHER`"),
    ("CREATE STREAM x AS SELECT id FROM payments", "The projection contains no value columns"),
    ("CREATE STREAM x AS SELECT id, ROWTIME FROM payments",
     "Reserved column name in select: `ROWTIME`"),
    ("CREATE STREAM x AS SELECT id, amount, order_id AS amount FROM payments",
     "duplicate column name: AMOUNT"),
    ("CREATE STREAM x AS SELECT id FROM payments PARTITION BY order_id",
     "must include the partitioning expression ORDER_ID"),
    ("CREATE TABLE x AS SELECT id, name FROM customers PARTITION BY name",
     "PARTITION BY is only supported on streams"),
    ("CREATE TABLE x AS SELECT COUNT(*) AS n FROM orders GROUP BY item",
     "must include the grouping expression ITEM"),
    ("CREATE TABLE x AS SELECT item, amount, COUNT(*) AS n FROM orders GROUP BY item",
     "Non-aggregate SELECT expression(s) not part of GROUP BY"),
    ("CREATE TABLE x WITH (KEY_FORMAT='JSON') AS SELECT MAP('a' := zip) AS k, COUNT(*) AS n"
     " FROM customers GROUP BY MAP('a' := zip)", "Map keys, including types that contain maps"),
    ("CREATE STREAM x WITH (KEY_FORMAT='JSON') AS SELECT MAP('a' := amount) AS k, item FROM orders"
     " PARTITION BY MAP('a' := amount)", "Map keys, including types that contain maps"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item HAVING amount > 1",
     "Non-aggregate HAVING expression not part of GROUP BY"),
    ("CREATE TABLE x AS SELECT item, SUM(COUNT(*)) AS n FROM orders GROUP BY item",
     "can not be nested"),
    ("CREATE TABLE x AS SELECT item, id FROM orders GROUP BY item, id",
     "GROUP BY requires aggregate functions"),
    ("CREATE STREAM x AS SELECT id, COUNT(*) AS n FROM orders",
     "requires a GROUP BY clause. Aggregate function(s): COUNT"),
    ("CREATE STREAM x AS SELECT * FROM orders WINDOW TUMBLING (SIZE 1 MINUTE)",
     "WINDOW clause requires a GROUP BY clause"),
    ("CREATE STREAM x AS SELECT * FROM orders HAVING amount > 1",
     "HAVING requires a GROUP BY clause"),
    ("CREATE STREAM x AS SELECT * FROM orders WHERE COUNT(*) > 1", "WHERE can't contain aggregate"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item EMIT FINAL",
     "EMIT FINAL is only supported for windowed"),
    ("CREATE TABLE x AS SELECT region, MAX(zip) AS n FROM customers GROUP BY region",
     "cannot be applied to a table source, only to a stream source"),
    ("CREATE TABLE x AS SELECT region, COUNT(*) AS n FROM customers"
     " WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY region", "WINDOW clause is not supported"),
    ("CREATE STREAM x AS SELECT * FROM orders LIMIT 3", "do not support LIMIT"),
    ("CREATE STREAM x WITH (NOPE=1) AS SELECT * FROM orders", "NOPE"),
    ("CREATE STREAM x WITH (PARTITIONS=0) AS SELECT * FROM orders", "PARTITIONS"),
    ("CREATE TABLE x WITH (RETENTION_MS=5) AS SELECT * FROM customers",
     "Non-windowed tables do not support retention"),
    ("CREATE STREAM x AS SELECT o.id, p.id FROM orders o JOIN payments p ON o.id = p.order_id",
     "Stream-Stream joins must have a WITHIN clause"),
    ("SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id AND o.amount = 1"
     " EMIT CHANGES", "JOINs on multiple conditions are not yet supported"),
    ("SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id > p.order_id EMIT CHANGES",
     "Unsupported join expression"),
    ("SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = o.item EMIT CHANGES",
     "each side must reference exactly one source"),
    ("SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = p.amount EMIT CHANGES",
     "types don't match"),
    ("SELECT amount FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id EMIT CHANGES",
     "Column 'AMOUNT' is ambiguous. Could be O.AMOUNT or P.AMOUNT"),
    ("SELECT * FROM orders o JOIN customers c WITHIN 1 HOUR ON o.customer = c.id EMIT CHANGES",
     "A window definition was provided for a Stream-Table join"),
    ("SELECT * FROM orders o JOIN customers c ON o.item = c.name EMIT CHANGES",
     "require to join on the primary key"),
    ("SELECT * FROM orders o RIGHT JOIN customers c ON o.customer = c.id EMIT CHANGES",
     "Right outer joins between streams and tables are not supported"),
    ("SELECT * FROM customers c JOIN orders o ON o.customer = c.id EMIT CHANGES",
     "Invalid join order: table-stream joins are not supported"),
    ("SELECT * FROM customers c FULL OUTER JOIN regions r ON c.region = r.region EMIT CHANGES",
     "FULL OUTER JOIN is not supported for foreign-key"),
    ("CREATE STREAM x AS SELECT item FROM orders o JOIN payments p WITHIN 1 HOUR"
     " ON o.id = p.order_id", "must include the join expressions O.ID or P.ORDER_ID"),
    ("CREATE STREAM x AS SELECT STRUCT(m := MAP('a' := id)) AS k, id FROM payments"
     " PARTITION BY STRUCT(m := MAP('a' := id))", "Map keys, including types that contain maps"),
    ("CREATE STREAM x AS SELECT id, MAP(amount := id) FROM payments",
     "JSON only supports MAP types with STRING keys"),
    ("CREATE STREAM x WITH (KEY_FORMAT='JSON') AS SELECT id, amount FROM payments"
     " PARTITION BY NULL", "Key format specified for stream without key columns"),
    ("CREATE STREAM x AS SELECT * FROM payments PARTITION BY ()",
     "PARTITION BY requires at least one expression"),
    ("CREATE STREAM x AS SELECT amount FROM payments PARTITION BY ROWTIME",
     "must include the partitioning expression ROWTIME"),
    ("CREATE TABLE x AS SELECT item, MIN(WINDOWSTART) FROM orders"
     " WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY item",
     "Window bounds column WINDOWSTART can only be used in the SELECT clause"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) FROM orders WINDOW TUMBLING (SIZE 1 MINUTE)"
     " WHERE WINDOWSTART > 5 GROUP BY item", "WHERE column 'WINDOWSTART' cannot be resolved"),
    ("CREATE STREAM x WITH (VALUE_SCHEMA_FULL_NAME='y') AS SELECT * FROM orders",
     "does not support the following configs: [fullSchemaName]"),
    ("SELECT * FROM by_minute m JOIN regions r ON m.item = r.region EMIT CHANGES",
     "Can not join windowed source to non-windowed source.\n`M` is TUMBLING windowed\n"
     "`R` is not windowed"),
    ("SELECT * FROM by_minute a JOIN by_minute b ON a.item = b.item EMIT CHANGES",
     "does not support persistent queries on windowed tables"),
    ("INSERT INTO payments SELECT id, amount FROM orders",
     "Incompatible schema between results and sink"),
    ("INSERT INTO customers SELECT * FROM orders",
     "type is TABLE but select query result is STREAM"),
    ("SELECT EXPLODE(name) FROM customers EMIT CHANGES", ""),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message"), WRONG)
def test_errors_of_the_planner(statement: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        planned(statement)
    assert message in caught.value.message
    assert caught.value.remedy or not message


@pytest.mark.parametrize(
    ("window", "on", "message"),
    [
        ("WINDOW_TYPE='SESSION'", "id", "Incompatible windowed sources.\nLeft source: HOPPING"),
        ("WINDOW_TYPE='HOPPING', WINDOW_SIZE='2 SECONDS'", "id", "Implicit repartitioning"),
        ("WINDOW_TYPE='HOPPING', WINDOW_SIZE='1 SECONDS'", "v", "Implicit repartitioning"),
    ],
)
def test_windows_that_do_not_fit_are_not_joined(window: str, on: str, message: str) -> None:
    text = "CREATE STREAM {} (id INT KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', {});"
    first = text.format("a", "WINDOW_TYPE='HOPPING', WINDOW_SIZE='1 SECONDS'")
    catalog = with_source(with_source(shop(), first), text.format("b", window))
    with pytest.raises(SqlError) as caught:
        planned(f"SELECT * FROM a JOIN b WITHIN 1 HOUR ON a.{on} = b.{on} EMIT CHANGES", catalog)
    assert caught.value.message.startswith(message)
    assert caught.value.remedy


def test_a_wrong_name_has_its_place_and_a_suggestion() -> None:
    with pytest.raises(SqlError) as caught:
        planned("CREATE STREAM x AS SELECT id,\n  amont FROM payments")
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert "AMOUNT" in caught.value.remedy
