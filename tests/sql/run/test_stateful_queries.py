"""Aggregates and joins, from topics to topics."""

from __future__ import annotations

import struct

import pytest
from running_shop import WAIT_S, Shop, eventually

from ottla.queries import application_settings
from ottla.queries.states import QueryStatus
from ottla.rows.errors import SqlError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MINUTE = 60_000
SIZES = {b"food": {"N": 0}, b"drink": {"N": 2}}
ORDERS = """CREATE STREAM orders (id STRING KEY, item STRING, amount INT)
    WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);"""
PAYMENTS = """CREATE STREAM payments (id STRING KEY, order_id STRING)
    WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON', PARTITIONS=1);"""


def order(item: str, amount: int, time_ms: int) -> tuple[str, dict[str, object], int]:
    return "k", {"item": item, "amount": amount}, time_ms


def windowed(key: bytes) -> tuple[str, int]:
    """A key as Kafka Streams writes it: the key, then the start of the window."""
    return key[:-8].decode(), struct.unpack(">q", key[-8:])[0]


def test_windows_are_counted_and_closed(shop: Shop) -> None:
    shop.run(ORDERS)
    earliest = {"auto_offset_reset": "earliest"}
    shop.insert("orders", order("tea", 1, 1), order("tea", 2, 1000), order("jam", 5, 2000))
    counts = shop.run(
        "CREATE TABLE counts AS SELECT item, COUNT(*) AS n, SUM(amount) AS total FROM orders"
        " GROUP BY item HAVING COUNT(*) > 1;",
        **earliest,
    )
    window = "WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 SECONDS)"
    shop.run(
        f"CREATE TABLE by_minute AS SELECT item, COUNT(*) AS n FROM orders {window} GROUP BY item;",
        **earliest,
    )
    shop.run(
        f"CREATE TABLE ends AS SELECT item, COUNT(*) AS n FROM orders {window}"
        " GROUP BY item EMIT FINAL;",
        **earliest,
    )
    found = shop.records("COUNTS", 2)
    assert (b"tea", {"N": 2, "TOTAL": 3}) in found
    assert (b"jam", None) in found
    minutes = {windowed(key): value["N"] for key, value in shop.records("BY_MINUTE", 2)}
    assert minutes == {("tea", 0): 2, ("jam", 0): 1}
    # Late, but within the grace; then time passes; then too late.
    shop.insert("orders", order("tea", 1, MINUTE + 9000))
    eventually(lambda: len(shop.records("BY_MINUTE", 3, 1)) == 3)
    shop.insert("orders", order("tea", 1, 5000))
    eventually(lambda: len(shop.records("BY_MINUTE", 4, 1)) == 4)
    shop.insert("orders", order("tea", 1, 2 * MINUTE))
    eventually(lambda: len(shop.records("ENDS", 2, 1)) == 2)
    shop.insert("orders", order("tea", 1, 6000))
    ended = {windowed(key): value["N"] for key, value in shop.records("ENDS", 2)}
    assert ended == {("tea", 0): 3, ("jam", 0): 1}
    eventually(lambda: (b"tea", {"N": 6, "TOTAL": 7}) in shop.records("COUNTS", 4, 1))
    minutes = {windowed(key): value["N"] for key, value in shop.records("BY_MINUTE", 5)}
    assert minutes[("tea", 0)] == 3
    assert shop.queries.state(counts).state is QueryStatus.RUNNING


def test_without_a_cache_each_update_of_a_window_is_written(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.insert("orders", order("tea", 5, 1), order("tea", -9, 2), order("tea", 7, 3))
    shop.run(
        "CREATE TABLE each_one AS SELECT item, SUM(amount) AS total FROM orders"
        " WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY item HAVING SUM(amount) > 0;",
        auto_offset_reset="earliest",
        cache_max_bytes_buffering="0",
    )
    found = [(windowed(key), value) for key, value in shop.records("EACH_ONE", 3)]
    assert found == [(("tea", 0), value) for value in ({"TOTAL": 5}, None, {"TOTAL": 3})]


def test_collected_values_keep_their_order_after_a_restart(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.insert("orders", *(order("tea", amount, 1) for amount in (7, 2, 7, 9)))
    query = shop.run(
        "CREATE TABLE sets AS SELECT item, COLLECT_SET(amount) AS s FROM orders GROUP BY item;",
        auto_offset_reset="earliest",
    )
    assert shop.records("SETS", 1) == [(b"tea", {"S": [7, 2, 9]})]  # one update for the batch
    shop.queries.close()
    shop.insert("orders", *(order("tea", amount, 1) for amount in (9, 8, 1)))
    shop.reopen()
    eventually(lambda: (b"tea", {"S": [7, 2, 9, 8, 1]}) in shop.records("SETS", 1, 1))
    assert shop.queries.state(query).state is QueryStatus.RUNNING


def test_state_of_another_executor_is_refused(shop: Shop) -> None:
    shop.run(ORDERS)
    counted = "CREATE TABLE counts AS SELECT item, {} AS n FROM orders GROUP BY item;"
    query = shop.run(counted.format("COUNT(*)"))
    shop.queries.stop(query, keep=True)
    shop.forget(query)  # so that the next one has its id
    with pytest.raises(SqlError, match="an earlier version ran this query"):
        shop.run(counted.format("COLLECT_SET(amount)"))


def test_a_stream_join_resumes_after_a_restart(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.run(PAYMENTS)
    paid = shop.run(
        "CREATE STREAM paid AS SELECT o.id AS id, item, p.id AS payment FROM orders o"
        " LEFT JOIN payments p WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS ON o.id = p.order_id;",
        auto_offset_reset="earliest",
    )
    shop.insert("orders", ("a", {"item": "tea"}, 1000), ("b", {"item": "jam"}, 2000))
    shop.insert("payments", ("p1", {"order_id": "a"}, 5000), ("p2", {"order_id": "b"}, 50_000))
    # p2 lets time pass: b, unpaid, may follow a before the queries close, or after they reopen.
    assert shop.records("PAID", 1)[0] == (b"a", {"ITEM": "tea", "PAYMENT": "p1"})
    shop.queries.close()
    shop.insert("orders", ("c", {"item": "nut"}, 90_000))
    shop.reopen()
    eventually(lambda: len(shop.records("PAID", 2, 1)) == 2)
    assert sorted(shop.records("PAID", 2), key=str) == [
        (b"a", {"ITEM": "tea", "PAYMENT": "p1"}),
        (b"b", {"ITEM": "jam", "PAYMENT": None}),
    ]
    shop.queries.stop(paid)
    assert not (shop.state_dir / "queries" / paid).exists()


def test_a_stream_joined_with_a_table_is_counted_by_stages(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.run(
        "CREATE TABLE items (item STRING PRIMARY KEY, kind STRING)"
        " WITH (KAFKA_TOPIC='items', VALUE_FORMAT='JSON', PARTITIONS=1);"
    )
    shop.insert("items", ("tea", {"kind": "drink"}, 1), ("jam", {"kind": "food"}, 1))
    query = shop.run(
        "CREATE TABLE kinds AS SELECT kind, COUNT(*) AS n, SUM(amount) AS total FROM orders o"
        " JOIN items i ON o.item = i.item GROUP BY kind;",
        auto_offset_reset="earliest",
    )
    tables = shop.run("CREATE TABLE sizes AS SELECT kind, COUNT(*) AS n FROM items GROUP BY kind;")
    shop.insert("orders", order("tea", 2, 1000), order("jam", 3, 1000), order("tea", 4, 1000))
    eventually(lambda: (b"drink", {"N": 2, "TOTAL": 6}) in shop.records("KINDS", 1, 1))
    eventually(lambda: dict(shop.records("SIZES", 2, 1)).get(b"food") == {"N": 1})
    shop.insert("items", ("jam", {"kind": "drink"}, 2000))
    eventually(lambda: dict(shop.records("SIZES", 4, 1)) == SIZES)
    internal = [topic for topic in _topics(shop) if topic.startswith("_ottla-sql-")]
    ends = {topic.rpartition("-")[2] for topic in internal}
    assert ends == {"changelog", "repartition"}
    shop.queries.stop(query)
    shop.queries.stop(tables)
    assert not [topic for topic in _topics(shop) if topic.startswith("_ottla-sql-")]


def test_a_backlog_larger_than_a_batch_is_joined_like_any_other(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_settings, "BATCH_RECORDS_MAX", 1)
    shop.run(ORDERS)
    shop.run(PAYMENTS)
    shop.run(
        "CREATE TABLE items (item STRING PRIMARY KEY, kind STRING)"
        " WITH (KAFKA_TOPIC='items', VALUE_FORMAT='JSON', PARTITIONS=1);"
    )
    names = ("tea", "jam", "nut", "oil")
    shop.insert("items", *((name, {"kind": "food"}, 1) for name in reversed(names)))
    shop.insert("orders", *((name, {"item": name}, 5000 * n) for n, name in enumerate(names, 1)))
    shop.insert("payments", *((f"p{n}", {"order_id": "oil"}, n * MINUTE) for n in (1, 2, 3)))
    shop.run(
        "CREATE STREAM known AS SELECT o.id AS id, i.item AS item, kind FROM orders o"
        " JOIN items i ON o.item = i.item PARTITION BY o.id;",
        auto_offset_reset="earliest",
    )
    shop.run(
        "CREATE STREAM paid AS SELECT o.id AS id, item, p.id AS payment FROM orders o"
        " JOIN payments p WITHIN 50 SECONDS GRACE PERIOD 0 SECONDS ON o.id = p.order_id;",
        auto_offset_reset="earliest",
    )
    known = shop.records("KNOWN", 4)
    assert sorted(key.decode() for key, _ in known) == sorted(names)
    # The second payment is a minute ahead of the orders when the last of them is read.
    assert shop.records("PAID", 1) == [(b"oil", {"ITEM": "oil", "PAYMENT": "p1"})]


def _topics(shop: Shop) -> list[str]:
    with shop.cluster.admin() as admin:
        return admin.topics.names()


def test_pull_and_push_queries_are_answered(shop: Shop) -> None:
    shop.run(ORDERS)
    shop.insert("orders", *(order(item, n, n + 1) for n, item in enumerate(["tea", "jam", "nut"])))
    push = shop.pushed(
        "SELECT UCASE(item) AS item, amount FROM orders WHERE amount > 0 EMIT CHANGES LIMIT 2;",
        auto_offset_reset="earliest",
    )
    assert [column.name for column in push.columns] == ["ITEM", "AMOUNT"]
    assert [row.values for row in push.rows(WAIT_S)] == [("JAM", 1), ("NUT", 2)]
    eventually(lambda: push.closed)
    endless = shop.pushed("SELECT * FROM orders EMIT CHANGES;")
    eventually(lambda: endless.state.state is QueryStatus.RUNNING)
    shop.insert("orders", order("fig", 9, 9))
    assert endless.next(WAIT_S).values == ("k", "fig", 9)
    endless.close()
    assert endless.next(5) is None
    answer = shop.pulled("SELECT item, amount FROM orders ORDER BY amount DESC LIMIT 2;")
    assert answer.rows == [("fig", 9), ("nut", 2)]
    assert [(column.name, str(column.type)) for column in answer.columns] == [
        ("ITEM", "STRING"),
        ("AMOUNT", "INTEGER"),
    ]


def test_push_queries_emit_a_tombstone_for_rows_they_have_shown(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE items (item STRING PRIMARY KEY, kind STRING, n INT)"
        " WITH (KAFKA_TOPIC='items', VALUE_FORMAT='JSON', PARTITIONS=1);"
    )
    shop.insert(
        "items",
        ("ink", {"kind": "tool", "n": 1}, 1),
        ("tea", {"kind": "food", "n": 2}, 2),
        ("tea", {"kind": "tool", "n": 3}, 3),
        ("tea", {"kind": "tool", "n": 4}, 4),
        ("jam", {"kind": "food", "n": 5}, 5),
        ("ink", None, 6),  # an earlier client may have seen it
    )
    push = shop.pushed(
        "SELECT n, item FROM items WHERE kind = 'food' EMIT CHANGES LIMIT 4;",
        auto_offset_reset="earliest",
    )
    rows = [(row.values, row.deleted) for row in push.rows(WAIT_S)]
    assert rows == [
        ((2, "tea"), False),
        ((None, "tea"), True),
        ((5, "jam"), False),
        ((None, "ink"), True),
    ]


def test_a_failed_query_has_its_cause_and_can_be_resumed(shop: Shop) -> None:
    shop.run(ORDERS)
    counts = shop.run(
        "CREATE TABLE counts AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;",
        auto_offset_reset="earliest",
    )
    shop.insert("orders", order("tea", 1, 1))
    assert shop.records("COUNTS", 1) == [(b"tea", {"N": 1})]
    with shop.cluster.admin() as admin:
        admin.topics.delete("COUNTS")
    shop.insert("orders", order("tea", 1, 1))
    eventually(lambda: shop.queries.state(counts).state is QueryStatus.FAILED)
    assert shop.queries.state(counts).cause
    with shop.cluster.admin() as admin:
        admin.topics.create("COUNTS", 1)
    shop.queries.resume(counts)
    assert shop.records("COUNTS", 1) == [(b"tea", {"N": 2})]
    # A broker that disappears and returns is not a failure.
    shop.cluster.restart()
    shop.insert("orders", order("tea", 1, 1))
    eventually(lambda: (b"tea", {"N": 3}) in shop.records("COUNTS", 2, 1))
    assert shop.queries.state(counts).state is QueryStatus.RUNNING
