"""The sink in Spark itself: a batch, a stream, a foreachBatch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sink_rows import topic, values

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STREAM_S_MAX = 60.0


def stream(spark: SparkSession, broker: LocalCluster, name: str) -> DataFrame:
    return (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .load()
    )


def fill(broker: LocalCluster, name: str, texts: list[str]) -> None:
    with broker.producer(value=str) as producer:
        for text in texts:
            producer.send(name, text)


def to_the_end(query: Any) -> None:
    assert query.awaitTermination(STREAM_S_MAX), "the query did not end"


def test_a_batch_of_rows(spark: SparkSession, broker: LocalCluster) -> None:
    for delivery in ("at_least_once", "exactly_once"):
        name = topic(broker, 2)
        spark.range(100).selectExpr("string(id) as key", "string(id) as value").write.format(
            "ottla"
        ).mode("append").option("kafka.bootstrap.servers", broker.bootstrap_servers).option(
            "topic", name
        ).option("ottla.delivery", delivery).save()
        assert sorted(map(int, values(broker, name))) == list(range(100))


def test_the_sink_refuses_invalid_rows(spark: SparkSession, broker: LocalCluster) -> None:
    rows = spark.range(1).write.format("ottla").mode("append")
    with pytest.raises(Exception, match="Required attribute 'value' not found"):
        rows.option("kafka.bootstrap.servers", broker.bootstrap_servers).save()


def test_topic_to_topic(spark: SparkSession, broker: LocalCluster, tmp_path: Path) -> None:
    source, target = topic(broker, 2), topic(broker, 2)
    texts = [str(number) for number in range(200)]
    rows = stream(spark, broker, source).selectExpr("value as key", "value")
    writer = (
        rows.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    for half in (texts[:100], texts[100:]):
        fill(broker, source, half)
        to_the_end(writer.start())
    assert sorted(values(broker, target)) == sorted(texts)


def test_a_stream_into_an_absent_topic_fails(spark: SparkSession, tmp_path: Path) -> None:
    """As with Spark's own sink, the broker creates it. Empty batches in between change nothing."""
    with LocalCluster() as own:
        own.create_topic("source")
        rows = stream(spark, own, "source").selectExpr("value").where("value not like 'no%'")
        writer = (
            rows.writeStream.format("ottla")
            .option("kafka.bootstrap.servers", own.bootstrap_servers)
            .option("topic", "new")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        for text in ("a", "no b", "no c", "d"):
            fill(own, "source", [text])
            to_the_end(writer.start())
        assert values(own, "new") == ["a", "d"]


def test_a_repeated_batch_is_not_written_twice(
    spark: SparkSession, broker: LocalCluster, tmp_path: Path
) -> None:
    """Twice in each batch, by a foreachBatch; and the commit of the last batch is forgotten."""
    source, one, two = topic(broker), topic(broker), topic(broker)
    fill(broker, source, ["a", "b"])

    def write(rows: DataFrame, batch: int) -> None:
        for target, shape in ((one, rows), (two, rows.repartition(2)), (two, rows)):
            shape.select("value").write.format("ottla").mode("append").option(
                "kafka.bootstrap.servers", broker.bootstrap_servers
            ).option("topic", target).option("ottla.sink.name", f"{target}-{shape is rows}").save()

    writer = (
        stream(spark, broker, source)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    to_the_end(writer.start())
    for entry in (tmp_path / "checkpoint" / "commits").iterdir():
        entry.unlink()
    to_the_end(writer.start())
    assert values(broker, one) == ["a", "b"]
    assert sorted(values(broker, two)) == ["a", "a", "b", "b"]
