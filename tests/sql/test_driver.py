"""SqlTestDriver: statements on given records, row by row, as in ksqlDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.engine.records import Window, Windowed
from ottla.rows.errors import SqlError
from ottla.sql import SqlTestDriver
from ottla.testing.manual_clock import ManualClock

ORDERS = """
CREATE STREAM orders (id INT KEY, item STRING, amount INT)
    WITH (KAFKA_TOPIC='orders', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
"""
ITEMS = """
CREATE TABLE items (item STRING PRIMARY KEY, price INT)
    WITH (KAFKA_TOPIC='items', FORMAT='JSON');
"""


@pytest.fixture
def driver() -> Iterator[SqlTestDriver]:
    with SqlTestDriver(clock=ManualClock(1_000)) as made:
        yield made


def values(driver: SqlTestDriver, topic: str) -> list[bytes | None]:
    return [record.value for record in driver.records(topic)]


def test_rows_of_a_stream_are_processed_one_by_one(driver: SqlTestDriver) -> None:
    driver.execute(ORDERS + "CREATE STREAM big AS SELECT * FROM orders WHERE amount > 5;")
    driver.pipe("orders", 1, {"ITEM": "pen", "AMOUNT": 7}, timestamp=10, headers=(("a", b"1"),))
    driver.pipe("orders", 2, {"ITEM": "ink", "AMOUNT": 3}, timestamp=11)
    (record,) = driver.records("BIG")
    assert (record.key, record.value) == (b"\x00\x00\x00\x01", b'{"ITEM":"pen","AMOUNT":7}')
    assert (record.timestamp, record.headers) == (10, (("a", b"1"),))
    assert driver.rows("big") == [{"ID": 1, "ITEM": "pen", "AMOUNT": 7}]


def test_a_tombstone_stays_a_tombstone(driver: SqlTestDriver) -> None:
    driver.execute(ORDERS + "CREATE STREAM copy AS SELECT id, item FROM orders;")
    driver.pipe("orders", 1, None)
    assert values(driver, "COPY") == [None]


def test_every_update_of_an_aggregate_comes(driver: SqlTestDriver) -> None:
    driver.execute(
        ORDERS
        + "CREATE TABLE totals AS SELECT item, SUM(amount) AS total FROM orders GROUP BY item"
        " HAVING SUM(amount) < 10;"
    )
    for amount in (4, 5, 6):
        driver.pipe("orders", 1, {"ITEM": "pen", "AMOUNT": amount})
    driver.pipe("orders", 1, {"ITEM": None, "AMOUNT": 1})
    # A group that no longer satisfies HAVING is deleted; a row without a group is in none.
    assert values(driver, "TOTALS") == [b'{"TOTAL":4}', b'{"TOTAL":9}', None]
    assert driver.rows("totals") == []


def test_windows_that_are_final_come_when_they_close(driver: SqlTestDriver) -> None:
    driver.execute(
        ORDERS + "CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM orders"
        " WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)"
        " GROUP BY id EMIT FINAL;"
    )
    for timestamp in (1, 12, 3, 14):
        driver.pipe("orders", 1, {"AMOUNT": 1}, timestamp=timestamp)
    assert driver.rows("counts") == []
    driver.pipe("orders", 1, {"AMOUNT": 1}, timestamp=16)
    assert driver.rows("counts") == [{"ID": 1, "N": 2, "WINDOWSTART": 0, "WINDOWEND": 10}]


def test_sessions_that_merge_are_deleted(driver: SqlTestDriver) -> None:
    driver.execute(
        ORDERS + "CREATE TABLE visits AS SELECT id, COUNT(*) AS n FROM orders"
        " WINDOW SESSION (10 MILLISECONDS) GROUP BY id;"
    )
    for timestamp in (0, 20, 10):
        driver.pipe("orders", 1, {"AMOUNT": 1}, timestamp=timestamp)
    assert values(driver, "VISITS") == [b'{"N":1}', b'{"N":1}', None, None, b'{"N":3}']
    assert driver.rows("visits") == [{"ID": 1, "N": 3, "WINDOWSTART": 0, "WINDOWEND": 20}]


def test_a_stream_joins_the_current_row_of_a_table(driver: SqlTestDriver) -> None:
    driver.execute(
        ORDERS + ITEMS + "CREATE STREAM priced AS SELECT o.item AS item, id, price FROM orders o"
        " LEFT JOIN items i ON o.item = i.item;"
    )
    order = {"ITEM": "pen", "AMOUNT": 1}
    driver.pipe("orders", 1, order)
    driver.pipe("items", "pen", {"PRICE": 3})
    driver.pipe("orders", 2, order)
    driver.pipe("items", "pen", None)
    driver.pipe("orders", 3, order)
    assert [row["PRICE"] for row in driver.rows("priced")] == [None, 3, None]


def test_an_outer_stream_join_without_grace_emits_at_once(driver: SqlTestDriver) -> None:
    driver.execute(
        "CREATE STREAM l (k INT KEY, a INT) WITH (KAFKA_TOPIC='l', FORMAT='JSON');"
        "CREATE STREAM r (k INT KEY, b INT) WITH (KAFKA_TOPIC='r', FORMAT='JSON');"
        "CREATE STREAM eager AS SELECT l.k AS k, a, b FROM l LEFT JOIN r WITHIN 10 MILLISECONDS"
        " ON l.k = r.k;"
        "CREATE STREAM patient AS SELECT l.k AS k, a, b FROM l LEFT JOIN r"
        " WITHIN 10 MILLISECONDS GRACE PERIOD 5 MILLISECONDS ON l.k = r.k;"
    )
    driver.pipe("l", 1, {"A": 1}, timestamp=0)
    driver.pipe("r", 1, {"B": 2}, timestamp=5)
    driver.pipe("l", 2, {"A": 3}, timestamp=6)
    driver.pipe("l", 3, {"A": 4}, timestamp=100)
    eager = [(row["A"], row["B"]) for row in driver.rows("eager")]
    assert eager == [(1, None), (1, 2), (3, None), (4, None)]
    assert [(row["A"], row["B"]) for row in driver.rows("patient")] == [(1, 2), (3, None)]


def test_tables_join_by_keys_and_by_foreign_keys(driver: SqlTestDriver) -> None:
    driver.execute(
        ITEMS + "CREATE TABLE stock (item STRING PRIMARY KEY, n INT)"
        " WITH (KAFKA_TOPIC='stock', FORMAT='JSON');"
        "CREATE TABLE carts (id INT PRIMARY KEY, item STRING)"
        " WITH (KAFKA_TOPIC='carts', FORMAT='JSON');"
        "CREATE TABLE worth AS SELECT i.item AS item, price * n AS w FROM items i"
        " JOIN stock s ON i.item = s.item;"
        "CREATE TABLE bill AS SELECT c.id AS id, price FROM carts c"
        " JOIN items i ON c.item = i.item;"
    )
    driver.pipe("carts", 7, {"ITEM": "pen"})
    driver.pipe("items", "pen", {"PRICE": 3})
    driver.pipe("stock", "pen", {"N": 2})
    driver.pipe("items", "pen", {"PRICE": 4})
    assert [row["W"] for row in map(decoded, values(driver, "WORTH"))] == [6, 8]
    assert [row["PRICE"] for row in map(decoded, values(driver, "BILL"))] == [3, 4]
    driver.pipe("stock", "pen", None)
    assert driver.rows("worth") == []
    assert driver.rows("bill") == [{"ID": 7, "PRICE": 4}]


def decoded(value: bytes | None) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(value or b"{}")
    return found


def test_an_aggregate_of_a_table_undoes_old_rows(driver: SqlTestDriver) -> None:
    driver.execute(
        "CREATE TABLE carts (id INT PRIMARY KEY, item STRING, n INT)"
        " WITH (KAFKA_TOPIC='carts', FORMAT='JSON');"
        "CREATE TABLE sums AS SELECT item, SUM(n) AS total FROM carts GROUP BY item;"
    )
    driver.pipe("carts", 1, {"ITEM": "pen", "N": 2})
    driver.pipe("carts", 2, {"ITEM": "pen", "N": 3})
    driver.pipe("carts", 1, {"ITEM": "ink", "N": 2})
    assert driver.rows("sums") == [{"ITEM": "pen", "TOTAL": 3}, {"ITEM": "ink", "TOTAL": 2}]


def test_rows_of_a_join_meet_in_one_partition() -> None:
    """Even if the key of one differs from the join key, or has another format."""
    with SqlTestDriver() as driver:
        for topic in ("orders", "items", "stock", "carts"):
            driver.topic(topic, 4)
        driver.execute(
            ORDERS + ITEMS + "CREATE TABLE stock (item STRING PRIMARY KEY, n INT)"
            " WITH (KAFKA_TOPIC='stock', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');"
            "CREATE TABLE carts (id INT PRIMARY KEY, item STRING)"
            " WITH (KAFKA_TOPIC='carts', FORMAT='JSON');"
            "CREATE STREAM priced AS SELECT o.item AS item, price FROM orders o"
            " JOIN items i ON o.item = i.item;"
            "CREATE TABLE worth AS SELECT i.item AS item, price * n AS w FROM items i"
            " JOIN stock s ON i.item = s.item;"
            "CREATE TABLE bill AS SELECT c.id AS id, price FROM carts c"
            " JOIN items i ON c.item = i.item;"
            "CREATE TABLE counts AS SELECT item, COUNT(*) AS n FROM carts GROUP BY item;"
        )
        names = [f"item-{number}" for number in range(12)]
        for number, name in enumerate(names):
            driver.pipe("items", name, {"PRICE": number})
            driver.pipe("stock", name, {"N": 2})
        for number, name in enumerate(names):
            driver.pipe("orders", number, {"ITEM": name, "AMOUNT": 1})
            driver.pipe("carts", number, {"ITEM": name})
        assert len({record.partition for record in driver.records("items")}) > 1
        assert [row["ITEM"] for row in driver.rows("priced")] == names
        assert [row["W"] for row in driver.rows("worth")] == [2 * number for number in range(12)]
        assert [row["PRICE"] for row in driver.rows("bill")] == list(range(12))
        assert len(driver.rows("counts")) == 12


def test_a_composite_key_of_nulls_is_a_key(driver: SqlTestDriver) -> None:
    driver.execute(
        "CREATE STREAM s (a INT, b INT, c INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"
        "CREATE STREAM two AS SELECT * FROM s PARTITION BY a, b;"
        "CREATE STREAM one AS SELECT * FROM s PARTITION BY a;"
    )
    driver.pipe("s", None, {"C": 1})
    assert driver.records("TWO")[0].key == b'{"A":null,"B":null}'
    assert driver.records("ONE")[0].key is None


def test_windowed_keys_can_be_read(driver: SqlTestDriver) -> None:
    driver.execute(
        "CREATE STREAM w (id INT KEY, n INT) WITH (KAFKA_TOPIC='w', FORMAT='JSON',"
        " WINDOW_TYPE='Tumbling', WINDOW_SIZE='10 MILLISECONDS');"
        "CREATE STREAM copy AS SELECT id, n, WINDOWSTART AS s, WINDOWEND AS e FROM w;"
    )
    driver.pipe("w", Windowed(1, Window(20, 30)), {"N": 4})
    (row,) = driver.rows("copy")
    assert (row["S"], row["E"], row["WINDOWSTART"]) == (20, 30, 20)


@pytest.mark.parametrize("form", ["AVRO", "JSON_SR", "PROTOBUF", "DELIMITED"])
def test_formats_are_those_of_the_server(driver: SqlTestDriver, form: str) -> None:
    driver.execute(
        "CREATE STREAM s (k INT KEY, a STRING, n INT)"
        f" WITH (KAFKA_TOPIC='s', VALUE_FORMAT='{form}');"
        "CREATE STREAM t AS SELECT k, UCASE(a) AS a, n + 1 AS n FROM s;"
    )
    driver.execute("INSERT INTO s (k, a, n) VALUES (1, 'x', 2);")
    assert driver.rows("t") == [{"K": 1, "A": "X", "N": 3}]
    if form == "AVRO":
        assert driver.records("T")[0].value[:1] == b"\x00"  # type: ignore[index]
        assert driver.registry.subjects() == ["s-value", "T-value"]


def test_inserted_rows_have_the_time_of_the_clock(driver: SqlTestDriver) -> None:
    driver.execute(ORDERS + "INSERT INTO orders (id, amount) VALUES (1, 2);")
    driver.insert("orders", {"id": 2, "amount": 3, "ROWTIME": 5})
    assert [record.timestamp for record in driver.records("orders")] == [1_000, 5]


def test_pull_queries_read_what_a_table_has(driver: SqlTestDriver) -> None:
    driver.execute(
        ORDERS + "CREATE TABLE totals AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id;"
    )
    for id_ in (1, 2, 1):
        driver.pipe("orders", id_, {"AMOUNT": 5})
    assert driver.query("SELECT total FROM totals WHERE id = 1;").rows == [{"TOTAL": 10}]
    assert len(driver.query("SELECT * FROM totals;").rows) == 2
    assert driver.query("SELECT id FROM orders WHERE amount > 4;").rows == [
        {"ID": 1},
        {"ID": 2},
        {"ID": 1},
    ]


def test_push_queries_get_rows_until_their_limit(driver: SqlTestDriver) -> None:
    driver.execute(ORDERS)
    driver.pipe("orders", 1, {"AMOUNT": 1})
    late = driver.query("SELECT id FROM orders EMIT CHANGES LIMIT 2;")
    early = driver.query("SELECT id FROM orders EMIT CHANGES;", {"auto.offset.reset": "earliest"})
    for id_ in (2, 3, 4):
        driver.pipe("orders", id_, {"AMOUNT": 1})
    assert [row["ID"] for row in late.rows] == [2, 3]
    assert (late.closed, late.message) == (True, "Limit Reached")
    assert [row["ID"] for row in early.rows] == [1, 2, 3, 4]


def test_a_query_that_was_terminated_or_paused_gets_nothing(driver: SqlTestDriver) -> None:
    driver.execute(ORDERS + "CREATE STREAM copy AS SELECT * FROM orders;")
    (query,) = driver.engine.state.catalog.queries
    driver.execute(f"PAUSE {query};")
    driver.pipe("orders", 1, {"AMOUNT": 1})
    driver.execute(f"RESUME {query};")
    driver.pipe("orders", 2, {"AMOUNT": 1})
    driver.execute(f"TERMINATE {query};")
    driver.pipe("orders", 3, {"AMOUNT": 1})
    assert [row["ID"] for row in driver.rows("copy")] == [2]


def test_errors_have_the_messages_of_the_server() -> None:
    with SqlTestDriver(create_topics=False) as driver:
        with pytest.raises(SqlError, match="Topic 'orders' does not exist"):
            driver.execute(ORDERS)
        driver.topic("orders")
        driver.execute(ORDERS)
        with pytest.raises(SqlError, match="SELECT column 'AMOUNTS' cannot be resolved"):
            driver.execute("CREATE STREAM x AS SELECT id, amounts FROM orders;")


def test_an_unreadable_record_is_skipped_and_reported(driver: SqlTestDriver) -> None:
    driver.execute(ORDERS + "CREATE STREAM copy AS SELECT * FROM orders;")
    driver.pipe("orders", b"\x00\x00\x00\x01", b"{")
    driver.pipe("orders", 2, {"AMOUNT": 1})
    assert [row["ID"] for row in driver.rows("copy")] == [2]
    (failure,) = driver.failures
    assert "Deserialization" in failure


def test_topics_with_other_counts_of_partitions_are_not_joined() -> None:
    with SqlTestDriver() as driver:
        driver.topic("stock", 2)
        with pytest.raises(SqlError, match="the number of partitions don't match"):
            driver.execute(
                ITEMS + "CREATE TABLE stock (item STRING PRIMARY KEY, n INT)"
                " WITH (KAFKA_TOPIC='stock', FORMAT='JSON');"
                "CREATE TABLE worth AS SELECT i.item AS item, price * n AS w FROM items i"
                " JOIN stock s ON i.item = s.item;"
            )
