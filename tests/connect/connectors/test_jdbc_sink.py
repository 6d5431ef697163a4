"""The JDBC sink, by hand, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from databases import TargetDatabase
from drives import ErrantRecords, Sink, sink_record

from ottla.connect.connectors.jdbc.sink import JdbcSinkConnector
from ottla.connect.data import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SinkRecord,
    Type,
    struct_schema,
)
from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.testing.postgres import PostgresServer

ORDER = struct_schema({"id": INT64_SCHEMA, "item": OPTIONAL_STRING_SCHEMA}, name="order")
KEY = struct_schema({"id": INT64_SCHEMA})
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true"}


def sink(place: TargetDatabase, config: dict[str, str] | None = None) -> Sink:
    return Sink(JdbcSinkConnector(), {**place.config, "auto.create": "true", **(config or {})})


def order(number: int, item: str | None, offset: int = 0, **more: Any) -> SinkRecord:
    return sink_record(ORDER, {"id": number, "item": item}, offset, **more)


def keyed(number: int, item: str | None, offset: int = 0) -> SinkRecord:
    value = None if item is None else {"id": number, "item": item}
    schema = None if item is None else ORDER
    return sink_record(schema, value, offset, key_schema=KEY, key={"id": number})


def test_inserts_in_the_order_of_the_topic(place: TargetDatabase) -> None:
    with sink(place, {"batch.size": "7"}) as writer:
        writer.put(*(order(n, f"item {n}", n) for n in range(50)))
        writer.put(order(99, None, 50))
        assert writer.commit() == {("orders", 0): 51}
    rows = place.rows("SELECT id, item FROM orders")
    assert rows == [*((n, f"item {n}") for n in range(50)), (99, None)]


def test_upserts_are_idempotent_and_the_last_one_counts(place: TargetDatabase) -> None:
    records = [keyed(1, "a", 0), keyed(2, "b", 1), keyed(1, "c", 2)]
    with sink(place, UPSERT) as writer:
        for _ in range(3):
            writer.put(*records)
        writer.put(keyed(2, "d", 3), keyed(3, "e", 4))
    assert sorted(place.rows("SELECT id, item FROM orders")) == [(1, "c"), (2, "d"), (3, "e")]


def test_tombstones_may_delete_absent_rows(place: TargetDatabase) -> None:
    with sink(place, UPSERT) as writer:
        writer.put(keyed(7, None))  # before the table
        assert not (place.kind == "sqlite" and place.rows("SELECT name FROM sqlite_master"))
        writer.put(keyed(1, "a", 0), keyed(2, "b", 1), keyed(1, None, 2), keyed(2, None, 3),
                   keyed(2, "again", 4))  # fmt: skip
        writer.put(keyed(1, None, 5), keyed(9, None, 6))
    assert place.rows("SELECT id, item FROM orders") == [(2, "again")]


def test_insert_and_delete_take_turns(place: TargetDatabase) -> None:
    config = {"pk.mode": "record_key", "delete.enabled": "true"}
    with sink(place, config) as writer:
        writer.put(keyed(1, "a"), keyed(1, None), keyed(1, "b"))
    assert place.rows("SELECT id, item FROM orders") == [(1, "b")]


def test_update_changes_only_rows_that_are_there(place: TargetDatabase) -> None:
    with sink(place, UPSERT) as writer:
        writer.put(keyed(1, "a"))
    with sink(place, {"insert.mode": "update", "pk.mode": "record_key"}) as writer:
        writer.put(keyed(1, "b"), keyed(2, "c"))
    assert place.rows("SELECT id, item FROM orders") == [(1, "b")]


def test_kafka_coordinates_as_key(place: TargetDatabase) -> None:
    config = {"insert.mode": "upsert", "pk.mode": "kafka"}
    records = [order(1, "a", 5), order(1, "a", 6, partition=1)]
    with sink(place, config) as writer:
        writer.put(*records)
        writer.put(*records)
    rows = place.rows(
        "SELECT __connect_topic, __connect_partition, __connect_offset, id FROM orders"
    )
    assert sorted(rows) == [("orders", 0, 5, 1), ("orders", 1, 6, 1)]


def test_keys_that_are_one_value_and_keys_of_the_value(place: TargetDatabase) -> None:
    value = struct_schema({"item": STRING_SCHEMA})
    config = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "number"}
    with sink(place, config) as writer:
        writer.put(sink_record(value, {"item": "x"}, key_schema=INT32_SCHEMA, key=5))
    assert place.rows("SELECT number, item FROM orders") == [(5, "x")]
    config = {
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "table.name.format": "copy_of_${topic}",
    }
    with sink(place, config) as writer:
        writer.put(order(3, "y"), order(3, "z"))
    assert place.rows("SELECT id, item FROM copy_of_orders") == [(3, "z")]


def test_only_the_configured_fields_are_written(place: TargetDatabase) -> None:
    with sink(place, {"fields.whitelist": "item"}) as writer:
        writer.put(order(1, "x"))
    assert place.rows("SELECT * FROM orders") == [("x",)]


def test_columns_are_added(place: TargetDatabase) -> None:
    wider = struct_schema(
        {
            "id": INT64_SCHEMA,
            "item": OPTIONAL_STRING_SCHEMA,
            "count": OPTIONAL_INT32_SCHEMA,
            "price": Schema(Type.INT32, default=5),
        }
    )
    record = sink_record(wider, {"id": 2, "item": "b", "count": 3})
    with sink(place) as writer:
        writer.put(order(1, "a"))
        with pytest.raises(ConnectException, match="no column count, price, and auto"):
            writer.put(record)
    with sink(place, {"auto.evolve": "true"}) as writer:
        writer.put(record)
        writer.put(order(3, "c"))
        with pytest.raises(ConnectException, match="not optional and has no default"):
            writer.put(sink_record(struct_schema({"strict": INT32_SCHEMA}), {"strict": 1}))
    rows = place.rows('SELECT id, item, "count", price FROM orders')
    assert rows == [(1, "a", None, None), (2, "b", 3, 5), (3, "c", None, None)]


def test_unusual_names_are_quoted(place: TargetDatabase) -> None:
    name = 'odd "name" - with spaces'
    schema = struct_schema({"select": INT32_SCHEMA, 'a"b %s ?': STRING_SCHEMA})
    config = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "select"}
    with sink(place, {**config, "table.name.format": name}) as writer:
        writer.put(sink_record(schema, {"select": 1, 'a"b %s ?': "x"}))
        writer.put(sink_record(schema, {"select": 1, 'a"b %s ?': "y"}))
    assert place.rows('SELECT * FROM "odd ""name"" - with spaces"') == [(1, "y")]


def test_a_put_is_all_or_nothing_and_bad_records_are_reported(place: TargetDatabase) -> None:
    place.run("CREATE TABLE orders (id {bigint} PRIMARY KEY, item TEXT)")
    records = [order(1, "a", 0), order(2, "b", 1), order(1, "twice", 2), order(3, "c", 3)]
    with sink(place) as writer:
        with pytest.raises(ConnectException, match="orders-0@0"):
            writer.put(*records)
        assert place.rows("SELECT * FROM orders") == []
        writer.context.errant_record_reporter = reported = ErrantRecords()
        writer.put(*records)
    assert sorted(place.rows("SELECT id, item FROM orders")) == [(1, "a"), (2, "b"), (3, "c")]
    assert [record.offset for record, _ in reported.records] == [2]


@pytest.mark.parametrize(
    ("config", "record", "text"),
    [
        ({"auto.create": "false"}, order(1, "a"), "auto.create is off"),
        ({}, sink_record(None, {"id": 1}), "a value without schema"),
        ({}, sink_record(STRING_SCHEMA, "x"), "whose fields become columns"),
        ({}, sink_record(None, None), "delete.enabled=true turns such records"),
        (UPSERT, order(1, "a"), "has no key"),
        ({"pk.mode": "record_value", "pk.fields": "nr"}, order(1, "a"), "nr is not a field"),
        (
            {"pk.mode": "record_key"},
            sink_record(ORDER, {"id": 1}, key_schema=INT32_SCHEMA, key=1),
            "pk.fields must name exactly one column",
        ),
        (UPSERT, sink_record(ORDER, {"id": 1}, key={"id": 1}), "needs records with a schema"),
    ],
)
def test_records_that_do_not_fit_are_reported(
    tmp_path: Any, config: dict[str, str], record: SinkRecord, text: str
) -> None:
    props = {"connection.url": f"jdbc:sqlite:{tmp_path}/x.db", "auto.create": "true", **config}
    with Sink(JdbcSinkConnector(), props) as writer, pytest.raises(ConnectException, match=text):
        writer.put(record)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"delete.enabled": "true"}, "needs pk.mode=record_key"),
        ({"insert.mode": "upsert"}, "pk.mode may not be none"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "three names"),
        ({"insert.mode": "replace"}, "insert.mode"),
    ],
)
def test_configs_of_the_sink_that_can_not_work_are_refused(
    config: dict[str, str], text: str
) -> None:
    props = {"connection.url": "jdbc:sqlite:/nowhere", **config}
    connector = JdbcSinkConnector()
    assert sum(len(value.errors) for value in connector.validate(props)) == 1
    with pytest.raises(ConfigException, match=text):
        connector.start(props)


@pytest.mark.postgres
def test_a_lost_database_connection_is_retried(postgres: TargetDatabase) -> None:
    with PostgresServer() as server:
        config = {
            "connection.url": server.url,
            "auto.create": "true",
            "connection.attempts": "1",
            "retry.backoff.ms": "10",
            "max.retries": "2",
        }
        with Sink(JdbcSinkConnector(), config) as writer:
            writer.put(order(1, "a"))
            server.kill()
            with pytest.raises(RetriableException):
                writer.put(order(2, "b"))
            assert writer.context.timeouts == [10]
            with pytest.raises(RetriableException, match="Unable to connect"):
                writer.put(order(2, "b"))
            server.start()
            writer.put(order(2, "b"))
        import psycopg

        with psycopg.connect(server.conninfo) as line:
            assert line.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(1,), (2,)]
