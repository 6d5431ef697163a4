"""Columns of Avro, JSON Schema and Protobuf with a registry: from_avro and the like."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client.schema_registry import SchemaRegistry
from ottla.rows.schema_inference import infer_columns
from ottla.rows.schema_properties import FULL_NAME, SCHEMA_ID, SUBJECT
from ottla.rows.types import SqlBaseType, SqlType
from ottla.spark import schemas
from ottla.spark.column_types import column_type
from ottla.spark.schemas import ColumnPlan, read_column, write_column
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = datetime.UTC
TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("number", pa.float32()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("list", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("inner", pa.struct([("flag", pa.bool_())])),
    ]
)
ROW = {
    "id": 1,
    "small": 2,
    "number": 1.5,
    "text": "ä",
    "raw": b"\x00",
    "day": datetime.date(2026, 11, 18),
    "at": datetime.datetime(2026, 11, 18, 1, 2, 3, 4000, tzinfo=UTC),
    "price": Decimal("-1.25"),
    "list": ["a", "b"],
    "map": [("k", 1)],
    "inner": {"flag": True},
}
VALUES = pa.array([ROW, None, {"id": 2, "text": "x"}], TYPE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def registry(cluster: LocalCluster) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(cluster.registry_url)
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def confluent(cluster: LocalCluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": cluster.registry_url}) as client:
        yield client


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def reader(registry: SchemaRegistry, subject: str) -> tuple[ColumnPlan, SqlType]:
    found = registry.version(subject)
    properties = {SCHEMA_ID: str(found.id)}
    fields = infer_columns(registry, found, properties, part="VALUE", wrapped=True)
    settings = {"schema.registry.url": registry.url}
    plan = ColumnPlan(found.kind, True, properties, fields, settings)
    return plan, SqlType(SqlBaseType.STRUCT, fields=tuple(fields))


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_columns_of_every_type_come_back(registry: SchemaRegistry, kind: str) -> None:
    subject = f"columns-{kind}"
    properties = {SUBJECT: subject} if kind == "JSON" else {SUBJECT: subject, FULL_NAME: "shop.R"}
    settings = {"schema.registry.url": registry.url}
    written = write_column(VALUES, kind, properties, settings)
    assert written[1].as_py() is None
    plan, type_ = reader(registry, subject)
    found = read_column(written, plan, type_, "from", strict=True).to_pylist()
    assert found[0] == ROW
    assert found[1] is None
    assert found[2]["id"] == 2
    bad = pa.array([b"\0\0\0\0\1", written[0].as_py(), None, b"zz"], pa.binary())
    with pytest.raises(ValueError, match=r"from: \d of 4 values can't be read; the first: schema"):
        read_column(bad, plan, type_, "from", strict=True)
    permissive = read_column(bad, plan, type_, "from", strict=False)
    assert [permissive[n].as_py() for n in (1, 2, 3)] == [ROW, None, None]
    none = read_column(pa.nulls(2, pa.binary()), plan, type_, "from", strict=True)
    assert none.to_pylist() == [None, None]


def test_unsupported_types_are_named() -> None:
    assert str(column_type(TYPE)).startswith("STRUCT<`id` BIGINT, `small` INTEGER")
    with pytest.raises(ValueError, match="keys must be strings"):
        column_type(pa.map_(pa.int32(), pa.string()))
    with pytest.raises(ValueError, match="duration"):
        column_type(pa.duration("us"))
    with pytest.raises(ValueError, match="must be a struct"):
        write_column(pa.array([1]), "PROTOBUF", {SUBJECT: "s"}, {})


OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "float"}],
}
NEW = {
    **OLD,
    "fields": [*OLD["fields"], {"name": "note", "type": ["null", "string"], "default": None}],  # type: ignore[misc]
}


def fill(cluster: LocalCluster, confluent: SchemaRegistryClient, topic: str) -> None:
    """Orders by the old schema and by the new one, a tombstone, and something else."""
    cluster.create_topic(topic, partitions=1)
    old = AvroSerializer(confluent, json.dumps(OLD))
    new = AvroSerializer(confluent, json.dumps(NEW))
    with cluster.producer() as producer:
        for number in range(4):
            write, more = (old, {}) if number < 2 else (new, {"note": "n"})
            value = {"id": number, "price": number / 2, **more}
            producer.send(topic, write(value, context(topic)))
        producer.send(topic, None, key=b"gone")
        producer.send(topic, b"no schema")


@pytest.mark.spark
def test_topics_are_read_and_written_by_their_schemas(
    spark: SparkSession,
    cluster: LocalCluster,
    confluent: SchemaRegistryClient,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    from pyspark.errors import PythonException
    from pyspark.sql.functions import col, struct

    fill(cluster, confluent, "shop-orders")
    url, servers = cluster.registry_url, cluster.bootstrap_servers
    subject = "shop-orders-value"

    def order(**options: str) -> Any:
        column = schemas.from_avro("value", registry=url, subject=subject, options=options)
        return column.alias("order")

    options = {"kafka.bootstrap.servers": servers, "subscribe": "shop-orders"}
    records = spark.read.format("ottla").options(**options).load()
    found = records.select("offset", order(mode="PERMISSIVE")).orderBy("offset").collect()
    assert found[0].asDict(True) == {"offset": 0, "order": {"id": 0, "price": 0.0, "note": None}}
    assert found[3].asDict(True) == {"offset": 3, "order": {"id": 3, "price": 1.5, "note": "n"}}
    assert [row.order for row in found[4:]] == [None, None]
    with pytest.raises(PythonException, match="1 of 6 values can't be read; the first: 9 bytes"):
        records.select(order()).collect()

    # As a stream, and into topics in all three languages.
    stream = (
        spark.readStream.format("ottla")
        .options(**options, startingOffsets="earliest")
        .load()
        .select(order(mode="PERMISSIVE"))
        .where("order is not null")
    )
    sold = struct(col("order.id").alias("id"), (col("order.price") * 2).alias("double"))
    to = {
        "sold-avro": schemas.to_avro(
            sold, registry=url, subject="sold-avro-value", options={"recordName": "Sold"}
        ),
        "sold-json": schemas.to_json_schema(sold, registry=url, subject="sold-json-value"),
        "sold-protobuf": schemas.to_protobuf(
            sold, "Sold", registry=url, subject="sold-protobuf-value"
        ),
    }
    for topic in to:
        cluster.create_topic(topic, partitions=1)

    def write(batch: Any, number: int) -> None:
        for topic, column in to.items():
            values = batch.select(column.alias("value")).write.format("ottla").mode("append")
            values.option("kafka.bootstrap.servers", servers).option("topic", topic).save()

    query = (
        stream.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    expected = [{"id": number, "double": float(number)} for number in range(4)]
    with cluster.consumer("sold-avro", group="avro") as consumer:
        read = AvroDeserializer(confluent)
        values = [read(record.value, context("sold-avro")) for record in consumer.take(4, 60)]
    assert values == expected
    assert json.loads(registry.version("sold-avro-value").text)["name"] == "Sold"
    functions: dict[str, Any] = {
        "sold-json": schemas.from_json_schema,
        "sold-protobuf": schemas.from_protobuf,
    }
    for topic, function in functions.items():
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
        rows = (
            spark.read.format("ottla")
            .options(**options)
            .load()
            .select(function("value", registry=url, subject=f"{topic}-value").alias("sold"))
            .collect()
        )
        assert sorted(row.sold.id for row in rows) == [0, 1, 2, 3]


@pytest.mark.spark
def test_a_given_schema_is_written_and_read(
    spark: SparkSession, cluster: LocalCluster, registry: SchemaRegistry
) -> None:
    url = cluster.registry_url
    numbers = spark.range(3)
    given = schemas.to_avro("id", '"long"', registry=url, subject="numbers-value")
    written = numbers.select("id", given.alias("value"))
    back = schemas.from_avro("value", '"long"', registry={"schema.registry.url": url})
    assert [row.back for row in written.select("id", back.alias("back")).collect()] == [0, 1, 2]
    assert registry.version("numbers-value").text == '"long"'
    latest = schemas.to_avro(
        "id", registry=url, subject="numbers-value", options={"use.latest.version": "true"}
    )
    assert numbers.select(latest.alias("value")).count() == 3
    with pytest.raises(ValueError, match="either a schema or a subject"):
        schemas.from_avro("value", registry=url)
    with pytest.raises(ValueError, match="mode must be one of FAILFAST, PERMISSIVE"):
        schemas.from_avro("value", '"long"', registry=url, options={"mode": "DROPMALFORMED"})
    with pytest.raises(ValueError, match="is AVRO, not JSON"):
        schemas.from_json_schema("value", registry=url, subject="numbers-value")
