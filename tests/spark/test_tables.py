"""Tables follow their topics."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ottla.rows import types as t
from ottla.rows.errors import SqlError
from ottla.rows.formats import Encoder, arrow_schema
from ottla.rows.formats.decoder import BadRecord
from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.spark.table_store import Bounds
from ottla.spark.tables import MaterializedTable, MaterializedTables, TableState
from ottla.sql.definitions import HEADERS_TYPE
from ottla.testing import LocalCluster

LAYOUT = Layout(
    LogicalSchema(
        (Column("ID", t.INTEGER, Role.KEY), Column("NAME", t.STRING), Column("N", t.BIGINT))
    ),
    FormatInfo("KAFKA"),
    FormatInfo("JSON"),
    is_table=True,
)
TUMBLING = Layout(
    LogicalSchema((Column("ID", t.STRING, Role.KEY), Column("N", t.BIGINT))),
    FormatInfo("KAFKA"),
    FormatInfo("JSON"),
    is_table=True,
    windowed=WindowInfo(WindowKind.TUMBLING, 100),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def send(cluster: LocalCluster, topic: str, layout: Layout, rows: list[dict[str, Any]]) -> None:
    encoder = Encoder(layout)
    with cluster.producer() as producer:
        for row in rows:
            key, value, timestamp_ms = encoder.record(row)
            producer.send(topic, value, key=key, timestamp_ms=timestamp_ms)


def until(true: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def names(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted((row["ID"], row["NAME"]) for row in rows)


def test_a_table_has_the_last_value_of_each_key(cluster: LocalCluster) -> None:
    cluster.create_topic("people", partitions=3)
    send(cluster, "people", LAYOUT, [{"ID": n, "NAME": "x", "N": n} for n in range(100)])
    with MaterializedTable(cluster.bootstrap_servers, "people", LAYOUT) as table:
        send(
            cluster,
            "people",
            LAYOUT,
            [
                {"ID": 5, "NAME": "five", "N": 5, "ROWTIME": 1234},
                {"ID": 6, "__DELETED": True},
                {"ID": 777, "__DELETED": True},
            ],
        )
        assert table.catch_up()
        assert table.caught_up
        assert (table.count, table.lag, table.state) == (99, 0, TableState.RUNNING)
        assert sum(table.position.values()) == 103
        (row,) = table.get([(5,)])
        assert (row["ID"], row["NAME"], row["N"], row["ROWTIME"]) == (5, "five", 5, 1234)
        assert list(row) == ["ID", "NAME", "N", "ROWTIME", "ROWPARTITION", "ROWOFFSET"]
        assert names(table.get([(6,), (7,), (7,), (1000,)])) == [(7, "x")]
        assert names(table.range(lambda key: 95 <= key[0] < 98)) == [(n, "x") for n in (95, 96, 97)]
        assert len(table.scan()) == 99
        arrow = table.arrow()
        assert arrow.schema == arrow_schema(LAYOUT)
        assert sorted(arrow.column("ID").to_pylist()) == [n for n in range(100) if n != 6]
        assert 0 < table.size_bytes < 99 * 1000


def test_headers_are_columns_of_a_table(cluster: LocalCluster) -> None:
    columns = (
        *LAYOUT.schema.columns,
        Column("SOURCE", t.BYTES, Role.HEADER, header="source"),
        Column("ALL_OF_THEM", HEADERS_TYPE, Role.HEADERS),
    )
    layout = replace(LAYOUT, schema=LogicalSchema(columns))
    cluster.create_topic("labelled")
    with MaterializedTable(cluster.bootstrap_servers, "labelled", layout) as table:
        with cluster.producer() as producer:
            for number, headers in enumerate(([("source", b"shop")], [], [("other", None)])):
                key, value, _ = Encoder(LAYOUT).record({"ID": number, "NAME": "x"})
                producer.send("labelled", value, key=key, headers=headers)
            key, _, _ = Encoder(LAYOUT).record({"ID": 2})
            producer.send("labelled", None, key=key, headers=[("source", b"shop")])
        assert table.catch_up()
        rows = {row["ID"]: (row["SOURCE"], row["ALL_OF_THEM"]) for row in table.scan()}
        assert rows == {0: (b"shop", [{"KEY": "source", "VALUE": b"shop"}]), 1: (None, [])}
        assert table.arrow().schema == arrow_schema(layout)
        assert sorted(table.arrow().column("SOURCE").to_pylist(), key=str) == [None, b"shop"]


def test_a_row_is_visible_to_queries_after_its_write(cluster: LocalCluster) -> None:
    """Also if the topic ends with a marker, which is not a record."""
    cluster.create_topic("asked")
    with (
        MaterializedTable(cluster.bootstrap_servers, "asked", LAYOUT) as table,
        cluster.producer(delivery="exactly_once", transactional_id="tables") as producer,
    ):
        key, _, _ = Encoder(LAYOUT).record({"ID": 1})
        for number in range(10):
            with producer.transaction():
                producer.send("asked", b'{"N":%d}' % number, key=key)
            begin = time.monotonic()
            assert table.catch_up(timeout_s=100)
            assert time.monotonic() - begin < 50
            assert [row["N"] for row in table.get([(1,)])] == [number]
        with suppress(ZeroDivisionError), producer.transaction():
            producer.send("asked", b'{"N":-1}', key=key).result()
            assert [row["N"] for row in table.get([(1,)])] == [9]
            raise ZeroDivisionError
        assert table.catch_up()
        assert [row["N"] for row in table.get([(1,)])] == [9]


def test_windows(cluster: LocalCluster) -> None:
    cluster.create_topic("windows")
    rows = [
        {"ID": name, "N": start, "WINDOWSTART": start}
        for name in "ab"
        for start in range(0, 1000, 100)
    ]
    deleted = {"ID": "a", "WINDOWSTART": 300, "__DELETED": True}
    send(cluster, "windows", TUMBLING, [*rows, deleted, {**rows[4], "N": 44}])
    with MaterializedTable(cluster.bootstrap_servers, "windows", TUMBLING) as table:
        assert table.catch_up()
        assert table.count == 19
        found = table.get([("a",)], Bounds(start_min=200, start_max=500))
        assert [(row["WINDOWSTART"], row["WINDOWEND"], row["N"]) for row in found] == [
            (200, 300, 200),
            (400, 500, 44),
            (500, 600, 500),
        ]
        assert len(table.scan(Bounds(end_min=900))) == 4
        assert table.arrow().column("WINDOWEND").to_pylist() == [
            row["WINDOWEND"] for row in table.scan()
        ]


def test_old_windows_expire(cluster: LocalCluster) -> None:
    cluster.create_topic("retention")
    rows = [{"ID": str(n % 7), "N": n, "WINDOWSTART": n * 100} for n in range(1000)]
    send(cluster, "retention", TUMBLING, rows)
    with MaterializedTable(
        cluster.bootstrap_servers, "retention", TUMBLING, retention_ms=10_000
    ) as table:
        assert table.catch_up()
        assert {row["WINDOWSTART"] for row in table.scan()} == {n * 100 for n in range(899, 1000)}
        assert table.count < 150
        assert table.size_bytes > 0


def test_old_windows_expire_by_the_topics_retention(cluster: LocalCluster) -> None:
    config = {"cleanup.policy": "compact,delete", "retention.ms": "10000"}
    cluster.create_topic("kept", configs=config)
    now_ms = int(time.time() * 1000)
    with MaterializedTable(cluster.bootstrap_servers, "kept", TUMBLING) as table:
        starts = [now_ms - 100_000, now_ms - 5_000, now_ms]
        rows = [{"ID": "a", "N": n, "WINDOWSTART": start} for n, start in enumerate(starts)]
        send(cluster, "kept", TUMBLING, rows)
        until(lambda: [row["N"] for row in table.scan()] == [1, 2])


def test_sessions(cluster: LocalCluster) -> None:
    layout = Layout(
        TUMBLING.schema,
        FormatInfo("KAFKA"),
        FormatInfo("JSON"),
        is_table=True,
        windowed=WindowInfo(WindowKind.SESSION),
    )
    cluster.create_topic("sessions")
    with cluster.producer() as producer:
        for value, end, start in [(b'{"N":1}', 10, 10), (None, 10, 10), (b'{"N":2}', 20, 10)]:
            producer.send("sessions", value, key=b"k" + struct.pack(">qq", end, start))
    with MaterializedTable(cluster.bootstrap_servers, "sessions", layout) as table:
        assert table.catch_up()
        (row,) = table.scan()
        assert (row["ID"], row["N"], row["WINDOWSTART"], row["WINDOWEND"]) == ("k", 2, 10, 20)


def test_bad_records_leave_the_table_unchanged(cluster: LocalCluster) -> None:
    cluster.create_topic("bad")
    key = struct.pack(">i", 1)
    with cluster.producer() as producer:
        for value in (b'{"N":1}', b"not json", b'{"N":2}', b'{"N":"x"}'):
            producer.send("bad", value, key=key)
        producer.send("bad", b'{"N":3}', key=b"short")
        producer.send("bad", b'{"N":4}')
    received: list[BadRecord] = []
    with MaterializedTable(
        cluster.bootstrap_servers, "bad", LAYOUT, on_bad=lambda topic, bad: received.extend(bad)
    ) as table:
        assert table.catch_up()
        assert [row["N"] for row in table.scan()] == [2]
    assert [(bad_record.offset, bad_record.half) for bad_record in received] == [
        (1, "value"),
        (3, "value"),
        (4, "key"),
        (5, "key"),
    ]


def test_keys_of_several_columns_and_nested_ones(cluster: LocalCluster) -> None:
    two = (Column("A", t.INTEGER, Role.KEY), Column("B", t.STRING, Role.KEY))
    nested = (Column("A", t.struct(("X", t.INTEGER), ("Y", t.array(t.STRING))), Role.KEY),)
    for topic, columns, key in [
        ("two", two, (1, "b")),
        ("nested", nested, ({"X": 1, "Y": ["b"]},)),
    ]:
        layout = Layout(
            LogicalSchema((*columns, Column("V", t.INTEGER))),
            FormatInfo("JSON"),
            FormatInfo("JSON"),
            is_table=True,
        )
        cluster.create_topic(topic)
        row = {column.name: value for column, value in zip(columns, key, strict=True)}
        send(cluster, topic, layout, [{**row, "V": 1}, {**row, "V": 2}])
        with MaterializedTable(cluster.bootstrap_servers, topic, layout) as table:
            assert table.catch_up()
            (found,) = table.get([key])
            assert {name: found[name] for name in row} == row
            assert found["V"] == 2
            assert table.arrow().num_rows == 1


def test_a_table_resumes_when_the_broker_returns() -> None:
    with LocalCluster(process=True) as cluster:
        cluster.create_topic("away")
        send(cluster, "away", LAYOUT, [{"ID": 1, "NAME": "a"}])
        with MaterializedTable(cluster.bootstrap_servers, "away", LAYOUT) as table:
            assert table.catch_up()
            cluster.restart()
            send(cluster, "away", LAYOUT, [{"ID": 2, "NAME": "b"}])
            until(lambda: table.catch_up(1.0))
            assert names(table.scan()) == [(1, "a"), (2, "b")]
            cluster.kill()
            until(lambda: table.state is TableState.WAITING)
            assert table.cause
            assert not table.catch_up(0.2)
            assert table.ready(0.2)
            assert names(table.get([(1,)])) == [(1, "a")]  # known rows are returned
            cluster.restart()
            until(lambda: table.catch_up(1.0))
            until(lambda: table.state is TableState.RUNNING)


def test_late_and_recreated_topics_are_followed(cluster: LocalCluster) -> None:
    tables = MaterializedTables(cluster.bootstrap_servers)
    table = tables.table("later", LAYOUT)
    assert tables.table("later", LAYOUT) is table
    until(lambda: table.state is TableState.WAITING)
    cluster.create_topic("later")
    send(cluster, "later", LAYOUT, [{"ID": 1, "NAME": "old"}])
    until(lambda: table.catch_up(1.0))
    with cluster.admin() as admin:
        admin.topics.delete("later")
        cluster.create_topic("later")
    send(cluster, "later", LAYOUT, [{"ID": 2, "NAME": "new"}])
    until(lambda: names(table.scan()) == [(2, "new")])
    tables.drop("later")
    with pytest.raises(SqlError, match="can't be queried"):
        table.scan()
    assert tables.states() == {}
    tables.close()


def test_new_partitions_are_followed(cluster: LocalCluster) -> None:
    cluster.create_topic("grown")
    with MaterializedTable(cluster.bootstrap_servers, "grown", LAYOUT) as table:
        assert table.catch_up()
        with cluster.admin() as admin:
            admin.topics.grow("grown", 4)
        send(cluster, "grown", LAYOUT, [{"ID": n, "NAME": "x"} for n in range(20)])
        until(lambda: table.count == 20)
        assert len(table.position) == 4


def test_a_table_beyond_its_memory_limit_reports_too_large(cluster: LocalCluster) -> None:
    cluster.create_topic("large")
    send(cluster, "large", LAYOUT, [{"ID": n, "NAME": "x" * 100} for n in range(1000)])
    with MaterializedTable(cluster.bootstrap_servers, "large", LAYOUT, bytes_max=10_000) as table:
        until(lambda: table.state is TableState.TOO_LARGE)
        assert not table.catch_up()
        with pytest.raises(SqlError, match="the limit is 10,000"):
            table.get([(1,)])
        assert table.size_bytes == 0
