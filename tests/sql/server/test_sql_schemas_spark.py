"""Formats with a schema registry, end to end with Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from sql_servers import ksql, pulled, running, until

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.topics import NewTopic
from ottla.rows.formats.avro import avro_format
from ottla.rows.formats.json_sr import json_schema_format
from ottla.rows.formats.protobuf import protobuf_format
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

PATIENCE_S = 300.0
# Imported here, because Python 3.11 can't parse in two threads at once what pytest rewrites.
HALVES = (avro_format, json_schema_format, protobuf_format)

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
    ],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as started:
        yield started


@pytest.fixture(scope="module")
def client(
    cluster: LocalCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("state")
    more = {"ksql.schema.registry.url": cluster.registry_url}
    with (
        running(cluster, "schemas_", spark=spark, state_dir=folder, more=more) as url,
        httpx.Client(base_url=url, http1=False, http2=True, timeout=PATIENCE_S) as made,
    ):
        yield made


def test_records_with_schemas_pass_through_queries(
    client: httpx.Client, cluster: LocalCluster
) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.topics.create_all([NewTopic("orders", 1, 1)])
    with SchemaRegistryClient({"url": cluster.registry_url}) as theirs:
        where = SerializationContext("orders", MessageField.VALUE)
        where.headers = []
        in_header = {"schema.id.serializer": header_schema_id_serializer}
        serializers = [AvroSerializer(theirs, json.dumps(ORDER), conf=c) for c in ({}, in_header)]
        with Producer[bytes, bytes](cluster.bootstrap_servers) as producer:
            for number, who in enumerate(("ann", "bob", "ann")):
                row = {"id": number, "who": who, "price": None if number == 1 else number + 0.5}
                data = serializers[number % 2](row, where)
                assert data is not None
                producer.send("orders", data, headers=where.headers).result(60)
                where.headers.clear()
            producer.send("orders", b"\0\0\0\xff\xffno schema").result(60)
        ksql(
            client,
            "SET 'auto.offset.reset'='earliest';"
            "CREATE STREAM orders WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');"
            "CREATE STREAM keyed WITH (KEY_FORMAT='AVRO', VALUE_SCHEMA_FULL_NAME='acme.Keyed') AS"
            " SELECT who, id, price * 2 AS twice FROM orders PARTITION BY who;"
            "CREATE TABLE counts WITH (FORMAT='PROTOBUF') AS"
            " SELECT who, COUNT(*) AS n FROM orders GROUP BY who;",
        )
        until(
            lambda: sorted(pulled(client, "SELECT who, n FROM counts WHERE who IN ('ann','bob');")),
            [["ann", 2], ["bob", 1]],
        )
        read = AvroDeserializer(theirs)
        assert written(cluster, read) == [
            ("ann", {"ID": 0, "TWICE": 1.0}),
            ("ann", {"ID": 2, "TWICE": 5.0}),
            ("bob", {"ID": 1, "TWICE": None}),
        ]
        schema = json.loads(theirs.get_latest_version("KEYED-value").schema.schema_str or "")
        assert (schema["namespace"], schema["name"]) == ("acme", "Keyed")
        assert theirs.get_latest_version("COUNTS-value").schema.schema_type == "PROTOBUF"


def written(cluster: LocalCluster, read: AvroDeserializer) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    settings = {"isolation.level": "read_committed"}
    with Consumer[bytes, bytes](cluster.bootstrap_servers, settings=settings) as consumer:
        consumer.assign({TopicPartition("KEYED", 0): 0})
        while len(found) < 3:
            record = consumer.poll(60)
            assert record is not None
            key = read(record.key, SerializationContext("KEYED", MessageField.KEY))
            value = read(record.value, SerializationContext("KEYED", MessageField.VALUE))
            found.append((key, value))
    return sorted(found, key=str)
