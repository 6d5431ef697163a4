"""Topics as DataFrames: batch and streaming queries on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def fill(
    cluster: LocalCluster, topic: str, count: int, *, partitions: int = 1, start: int = 0
) -> None:
    with cluster.producer() as producer:
        for number in range(start, start + count):
            producer.send(
                topic, key=b"k%d" % number, value=b"v%d" % number, partition=number % partitions
            )


def reading(reader: Any, cluster: LocalCluster, **options: object) -> DataFrame:
    reader = reader.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def test_a_topic_is_read_as_a_batch(spark: SparkSession, cluster: LocalCluster) -> None:
    cluster.create_topic("batch", 2)
    fill(cluster, "batch", 10, partitions=2)
    frame = reading(spark.read, cluster, subscribe="batch")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    rows = frame.orderBy("partition", "offset").collect()
    assert [(bytes(each.key), each.partition, each.offset) for each in rows] == [
        (b"k%d" % number, number % 2, number // 2)
        for number in sorted(range(10), key=lambda number: (number % 2, number))
    ]
    assert {each.topic for each in rows} == {"batch"}
    assert {each.timestampType for each in rows} == {0}
