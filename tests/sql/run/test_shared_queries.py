"""Stateless queries share a Spark query, without losing or duplicating rows on changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from running_shop import Shop, eventually

from ottla.queries.states import QueryStatus

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ORDERS = """CREATE STREAM orders (id STRING KEY, amount INT)
    WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=2);"""


def rows(first: int, last: int) -> list[tuple[str, dict[str, Any], int]]:
    return [(f"k{n}", {"amount": n}, 1000 + n) for n in range(first, last)]


def amounts(shop: Shop, topic: str, count: int) -> list[int]:
    return sorted(value["AMOUNT"] for _, value in shop.records(topic, count))


def test_every_row_comes_once_while_members_join_and_leave(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.insert("orders", *rows(0, 10))
    big = "CREATE STREAM big AS SELECT * FROM orders WHERE amount >= 5;"
    every = "CREATE STREAM every AS SELECT id, amount, amount * 2 AS twice FROM orders;"
    first = shop.run(big, auto_offset_reset="earliest")
    second = shop.run(every)
    assert amounts(shop, "BIG", 5) == list(range(5, 10))
    shop.insert("orders", *rows(10, 20))
    assert amounts(shop, "EVERY", 10) == list(range(10, 20))
    assert shop.queries.spark_queries == 1
    # A new member that reads from the beginning catches up alone, while the others continue.
    third = shop.run("CREATE STREAM late AS SELECT * FROM orders;", auto_offset_reset="earliest")
    shop.insert("orders", *rows(20, 30))
    assert amounts(shop, "LATE", 30) == list(range(30))
    eventually(lambda: shop.queries.spark_queries == 1)
    assert amounts(shop, "BIG", 25) == list(range(5, 30))
    # One pauses: it misses no row, and the others are not affected.
    shop.queries.pause(first)
    assert shop.queries.state(first).state is QueryStatus.PAUSED
    shop.insert("orders", *rows(30, 40))
    assert amounts(shop, "LATE", 40) == list(range(40))
    assert amounts(shop, "BIG", 25) == list(range(5, 30))
    shop.queries.resume(first)
    assert amounts(shop, "BIG", 35) == list(range(5, 40))
    assert amounts(shop, "EVERY", 30) == list(range(10, 40))
    states = shop.queries.states()
    assert {states[query_id].state for query_id in (first, second, third)} == {QueryStatus.RUNNING}


def test_a_new_process_resumes_exactly(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.run("CREATE STREAM a AS SELECT * FROM orders;", auto_offset_reset="earliest")
    gone = shop.run("CREATE STREAM b AS SELECT id, amount FROM orders WHERE amount > 2;")
    shop.insert("orders", *rows(0, 10))
    assert amounts(shop, "A", 10) == list(range(10))
    assert amounts(shop, "B", 7) == list(range(3, 10))
    shop.queries.close()
    shop.insert("orders", *rows(10, 20))
    shop.reopen()
    assert amounts(shop, "A", 20) == list(range(20))
    assert amounts(shop, "B", 17) == list(range(3, 20))
    shop.queries.stop(gone)
    folder: Path = shop.state_dir / "queries" / gone
    assert not folder.exists()
    shop.insert("orders", *rows(20, 25))
    assert amounts(shop, "A", 25) == list(range(25))
    assert amounts(shop, "B", 17) == list(range(3, 20))


def test_a_row_without_a_valid_time_is_skipped(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.insert("orders", ("a", {"amount": 5}, 1000), ("b", {"amount": -5}, 1000))
    shop.insert("orders", ("c", {"amount": None}, 1000), ("d", {"amount": 7}, 1000))
    shop.run(
        "CREATE STREAM by_amount WITH (TIMESTAMP='t') AS SELECT id, CAST(amount AS BIGINT) AS t"
        " FROM orders;",
        auto_offset_reset="earliest",
    )
    shop.run(
        "CREATE STREAM by_word WITH (TIMESTAMP='t', TIMESTAMP_FORMAT='yyyy') AS"
        " SELECT id, EXPLODE(ARRAY['1999', 'soon']) AS t FROM orders;",
        auto_offset_reset="earliest",
    )
    assert sorted(shop.records("BY_AMOUNT", 2)) == [(b"a", {"T": 5}), (b"d", {"T": 7})]
    assert [value["T"] for _, value in shop.records("BY_WORD", 4)] == ["1999"] * 4


def test_a_failing_query_affects_no_other(shop: Shop) -> None:
    shop.run(ORDERS)
    good = shop.run("CREATE STREAM good AS SELECT * FROM orders;", auto_offset_reset="earliest")
    bad = shop.run("CREATE STREAM bad AS SELECT * FROM orders;", auto_offset_reset="earliest")
    shop.insert("orders", *rows(0, 5))
    assert amounts(shop, "BAD", 5) == list(range(5))
    with shop.cluster.admin() as admin:
        admin.topics.delete("BAD")
    shop.insert("orders", *rows(5, 10))
    assert amounts(shop, "GOOD", 10) == list(range(10))
    eventually(lambda: shop.queries.state(bad).state is QueryStatus.FAILED)
    assert shop.queries.state(bad).cause
    assert shop.queries.state(good).state is QueryStatus.RUNNING
