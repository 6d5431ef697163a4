"""The key of a join's result."""

from __future__ import annotations

import struct

import pytest
from running_shop import Shop

from ottla.client import Producer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EARLIEST = {"auto_offset_reset": "earliest"}


def test_a_foreign_key_join_of_a_table_with_two_key_columns(shop: Shop) -> None:
    shop.run("""CREATE TABLE seats (hall STRING PRIMARY KEY, no INT PRIMARY KEY, price STRING)
        WITH (KAFKA_TOPIC='seats', FORMAT='JSON', PARTITIONS=1);""")
    shop.run("""CREATE TABLE prices (id STRING PRIMARY KEY, amount INT)
        WITH (KAFKA_TOPIC='prices', VALUE_FORMAT='JSON', PARTITIONS=1);""")
    shop.insert("prices", ("low", {"amount": 5}, 1000))
    shop.insert(
        "seats",
        ('{"HALL":"a","NO":1}', {"price": "low"}, 1000),
        ('{"HALL":"a","NO":2}', {"price": "low"}, 1000),
    )
    shop.run(
        "CREATE TABLE offers AS SELECT s.no, s.hall, amount FROM seats s"
        " JOIN prices p ON s.price = p.id;",
        **EARLIEST,
    )
    assert sorted(shop.records("OFFERS", 2)) == [
        (b'{"HALL":"a","NO":1}', {"AMOUNT": 5}),
        (b'{"HALL":"a","NO":2}', {"AMOUNT": 5}),
    ]


def test_streams_join_by_key_and_window_and_the_key_is_never_missing(shop: Shop) -> None:
    for name in "asked", "given":
        shop.run(f"""CREATE STREAM {name} (id STRING KEY, v INT) WITH (KAFKA_TOPIC='{name}',
            VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 SECOND', PARTITIONS=1);""")
    within = "WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS ON a.id = g.id"
    shop.run(
        f"CREATE STREAM both AS SELECT a.id, a.v, g.v FROM asked a RIGHT JOIN given g {within};",
        **EARLIEST,
    )
    with Producer(shop.cluster.bootstrap_servers) as producer:
        for topic, start, v, time_ms in (
            ("asked", 1000, 1, 1500),
            ("given", 1000, 2, 1600),
            ("given", 2000, 3, 1700),
            ("asked", 90_000, 4, 90_000),
            ("given", 90_000, 5, 90_000),
        ):
            key = b"k" + struct.pack(">q", start)
            producer.send(topic, f'{{"v":{v}}}'.encode(), key=key, timestamp_ms=time_ms)
        producer.flush()
    found = {struct.unpack(">q", key[1:])[0]: value for key, value in shop.records("BOTH", 3)}
    assert found == {
        1000: {"A_V": 1, "G_V": 2},
        2000: {"A_V": None, "G_V": 3},
        90_000: {"A_V": 4, "G_V": 5},
    }


def test_a_push_query_counts_all_rows(shop: Shop) -> None:
    shop.run("CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);")
    shop.insert("s", (None, {"v": 1}, 1), (None, {"v": 2}, 2))
    query = shop.pushed("SELECT COUNT(*), SUM(v) FROM s EMIT CHANGES;", **EARLIEST)
    rows = [query.next(240) for _ in range(2)]
    query.close()
    assert [row.values for row in rows if row] == [(1, 1), (2, 3)]


def test_a_push_query_counts_windows_of_a_stream_without_key(shop: Shop) -> None:
    """Its rows go to no topic, so the format NONE never encodes their keys."""
    shop.run("CREATE STREAM w (v INT) WITH (KAFKA_TOPIC='w', VALUE_FORMAT='JSON', PARTITIONS=1);")
    shop.insert("w", (None, {"v": 7}, 1), (None, {"v": 7}, 2), (None, {"v": 7}, 1001))
    sql = "SELECT v, COUNT(*) FROM w WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY v EMIT CHANGES;"
    query = shop.pushed(sql, **EARLIEST)
    rows = [query.next(240) for _ in range(3)]
    query.close()
    assert [row.values for row in rows if row] == [(7, 1), (7, 2), (7, 1)]
