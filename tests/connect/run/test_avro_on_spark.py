"""Two connectors on Spark: a table to a topic in Avro, and this topic to another table."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from test_connectors_on_spark import WAIT_S_MAX, wait_until

from ottla.connect.run import connector_runner
from ottla.connect.run.worker_context import WorkerContext
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROWS = [(1, "ann", 1.5), (2, "bob", None), (3, "eve", -2.25)]


def rows(database: Path, table: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as line:
        known = "select name from sqlite_master where name = ?"
        if not line.execute(known, (table,)).fetchall():
            return []
        return line.execute(f"select id, name, paid from {table} order by id").fetchall()


def test_a_table_goes_through_an_avro_topic_into_another(
    spark: SparkSession,
    broker: LocalCluster,
    worker: WorkerContext,
    registry_url: str,
    confluent: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    database = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(database)) as line, line:
        line.execute("create table customers (id integer primary key, name text, paid double)")
        line.executemany("insert into customers values (?, ?, ?)", ROWS)
    avro = {
        "connection.url": f"jdbc:sqlite:{database}",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry_url,
    }
    source = {
        **avro,
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "table.whitelist": "customers",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "avro-",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
    }
    sink = {
        **avro,
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": "avro-customers",
        "table.name.format": "copies",
        "auto.create": "true",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "avro-dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    broker.create_topic("avro-dead", partitions=1)
    broker.create_topic("avro-customers", partitions=1)
    running = [
        connector_runner.start_connector(name, config, spark=lambda: spark, worker=worker)
        for name, config in (("avro-source", source), ("avro-sink", sink))
    ]
    try:
        with broker.consumer("avro-customers", group="avro-reader") as consumer:
            found = consumer.take(len(ROWS), WAIT_S_MAX)
        read = AvroDeserializer(confluent)
        context = SerializationContext("avro-customers", MessageField.VALUE)
        values = [read(record.value, context) for record in found]
        assert [(v["id"], v["name"], v["paid"]) for v in values] == ROWS
        wait_until(lambda: rows(database, "copies") == ROWS, "the copy is not there")
        with broker.producer() as producer:
            producer.send("avro-customers", b"\x00\x00\x0f\xff\xffx")
        with broker.consumer("avro-dead", group="avro-dead-reader") as consumer:
            (letter,) = consumer.take(1, WAIT_S_MAX)
        headers = {name: (text or b"").decode() for name, text in letter.headers}
        prefix = "__connect.errors."
        behind_the_marker = str(len(ROWS) + 1)  # which ends the source's transaction
        assert headers[f"{prefix}topic"] == "avro-customers"
        assert (headers[f"{prefix}partition"], headers[f"{prefix}offset"]) == (
            "0",
            behind_the_marker,
        )
        assert "schema id 1048575: " in headers[f"{prefix}exception.message"]
    finally:
        for connector in running:
            connector.stop()
