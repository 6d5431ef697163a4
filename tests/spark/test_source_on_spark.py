"""Topics as DataFrames: batch and streaming queries of Spark on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import TopicPartition
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema, Role
from ottla.rows.types import INTEGER, STRING
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def fill(cluster: LocalCluster, topic: str, numbers: range, *, partitions: int = 1) -> None:
    with cluster.producer() as producer:
        for number in numbers:
            producer.send(
                topic, b"v%d" % number, key=b"k%d" % number, partition=number % partitions
            )


def reading(reader: Any, cluster: LocalCluster, options: dict[str, Any]) -> DataFrame:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    frame: DataFrame = reader.format("ottla").options(**servers, **options).load()
    return frame


class Query:
    """A streaming query that keeps what each of its batches read."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, place: Path) -> None:
        self.spark, self.cluster, self.place = spark, cluster, place
        self.batches: list[list[str]] = []
        self.running: Any = None

    def start(self, trigger: dict[str, Any] | None = None, **options: Any) -> Any:
        frame = reading(self.spark.readStream, self.cluster, options)
        writer = frame.selectExpr("cast(value as string) value").writeStream
        writer = writer.foreachBatch(self._keep).option("checkpointLocation", str(self.place))
        if trigger:
            writer = writer.trigger(**trigger)
        self.running = writer.start()
        return self.running

    def run(self, **options: Any) -> list[list[str]]:
        """Trigger.AvailableNow; the batches of this run."""
        self.batches = []
        self.start({"availableNow": True}, **options).awaitTermination(60)
        return [batch for batch in self.batches if batch]

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        self.batches.append(sorted((row.value for row in frame.collect()), key=_number))

    @property
    def values(self) -> list[str]:
        return sorted((row for batch in self.batches for row in batch), key=_number)


def _number(value: str) -> int:
    return int(value[1:])


@pytest.fixture
def query(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> Iterator[Query]:
    query = Query(spark, cluster, tmp_path / "checkpoint")
    yield query
    if query.running is not None:
        query.running.stop()


def values(numbers: range) -> list[str]:
    return [f"v{number}" for number in numbers]


def test_a_topic_is_read_as_a_batch(spark: SparkSession, cluster: LocalCluster) -> None:
    cluster.create_topic("batch", 2)
    fill(cluster, "batch", range(10), partitions=2)
    frame = reading(spark.read, cluster, {"subscribe": "batch"})
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert frame.rdd.getNumPartitions() == 1
    rows = frame.orderBy("partition", "offset").collect()
    assert [(bytes(row.key), row.partition, row.offset) for row in rows] == [
        (b"k%d" % number, number % 2, number // 2)
        for number in sorted(range(10), key=lambda number: (number % 2, number))
    ]
    assert {row.topic for row in rows} == {"batch"}
    assert {row.timestampType for row in rows} == {0}
    cut = {
        "subscribePattern": "bat.*",
        "minPartitions": 4,
        "endingOffsets": '{"batch":{"0":2,"1":-1}}',
    }
    assert reading(spark.read, cluster, cut).count() == 7


def test_headers_nulls_and_timestamps(spark: SparkSession, cluster: LocalCluster) -> None:
    cluster.create_topic("headed")
    with cluster.producer() as producer:
        producer.send("headed", None, timestamp_ms=1_700_000_000_123)
        producer.send("headed", b"v", headers=[("a", b"1"), ("a", None)], timestamp_ms=5)
    frame = reading(spark.read, cluster, {"assign": '{"headed":[0]}', "includeHeaders": True})
    assert frame.dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")
    first, second = frame.selectExpr(
        "key", "value", "headers", "cast(timestamp as double) at"
    ).collect()
    assert (first.key, first.value, first.headers, first.at) == (
        None,
        None,
        None,
        1_700_000_000.123,
    )
    assert [(header.key, header.value) for header in second.headers] == [("a", b"1"), ("a", None)]


def test_read_committed(spark: SparkSession, cluster: LocalCluster) -> None:
    cluster.create_topic("settled")
    with cluster.producer(delivery="exactly_once", transactional_id="settled") as producer:
        for number in range(4):
            producer.raw.begin_transaction()
            producer.send("settled", b"%d" % number)
            producer.raw.flush()
            finish = (
                producer.raw.abort_transaction if number % 2 else producer.raw.commit_transaction
            )
            finish()
    everything = reading(spark.read, cluster, {"subscribe": "settled"})
    committed = reading(
        spark.read, cluster, {"subscribe": "settled", "kafka.isolation.level": "read_committed"}
    )
    assert [bytes(row.value) for row in everything.collect()] == [b"0", b"1", b"2", b"3"]
    assert [bytes(row.value) for row in committed.collect()] == [b"0", b"2"]


def test_errors_are_reported(spark: SparkSession, cluster: LocalCluster) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="One of the following options must be specified"):
        reading(spark.read, cluster, {})
    with pytest.raises(AnalysisException, match="starting offset can't be latest"):
        reading(spark.read, cluster, {"subscribe": "t", "startingOffsets": "latest"}).collect()
    with pytest.raises(AnalysisException, match="absent: no such topic"):
        reading(spark.read, cluster, {"subscribe": "absent"}).collect()
    reader = spark.read.schema("value string")
    with pytest.raises(AnalysisException, match="fixed schema"):
        reading(reader, cluster, {"subscribe": "t"}).collect()


def test_a_layout_gives_typed_rows(spark: SparkSession, cluster: LocalCluster) -> None:
    cluster.create_topic("typed")
    with cluster.producer() as producer:
        producer.send("typed", b'{"n": 1}', key=b"a", timestamp_ms=7)
        producer.send("typed", b"not json", key=b"b")
        producer.send("typed", b'{"N": 3}', key=b"c")
    columns = (Column("ID", STRING, Role.KEY), Column("N", INTEGER))
    layout = Layout(LogicalSchema(columns), FormatInfo("KAFKA"), FormatInfo("JSON"))
    frame = reading(spark.read, cluster, {"subscribe": "typed", "ottla.layout": layout.to_json()})
    rows = [(row.ID, row.N, row.ROWOFFSET) for row in frame.collect()]
    assert rows == [("a", 1, 0), ("c", 3, 2)]
    assert frame.first().ROWTIME == 7  # type: ignore[union-attr]


def test_a_stream_follows_its_topic_and_resumes(query: Query, cluster: LocalCluster) -> None:
    cluster.create_topic("stream", 2)
    fill(cluster, "stream", range(10), partitions=2)
    running = query.start(subscribe="stream", startingOffsets="earliest")
    running.processAllAvailable()
    assert query.values == values(range(10))
    fill(cluster, "stream", range(10, 14), partitions=2)
    running.processAllAvailable()
    assert query.values == values(range(14))
    (source,) = running.lastProgress.sources
    assert source.latestOffset == '{"stream": {"0": 7, "1": 7}}'
    running.stop()
    with cluster.admin() as admin:
        admin.topics.grow("stream", 3)
    fill(cluster, "stream", range(14, 23), partitions=3)
    assert [row for batch in query.run(subscribe="stream") for row in batch] != []
    assert query.values == values(range(14, 23))


def test_available_now_reads_all_in_batches_of_a_limit(query: Query, cluster: LocalCluster) -> None:
    cluster.create_topic("rated", 2)
    fill(cluster, "rated", range(50), partitions=2)
    options = {"subscribe": "rated", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 20}
    batches = query.run(**options)
    assert [len(batch) for batch in batches] == [20, 20, 10]
    assert query.values == values(range(50))
    assert query.run(**options) == []


def test_lost_data_fails_the_query_unless_configured_otherwise(
    query: Query, cluster: LocalCluster
) -> None:
    from pyspark.errors import StreamingQueryException

    cluster.create_topic("losing")
    fill(cluster, "losing", range(5))
    query.run(subscribe="losing", startingOffsets="earliest")
    fill(cluster, "losing", range(5, 20))
    with cluster.admin() as admin:
        admin.offsets.delete_before({TopicPartition("losing", 0): 12})
    with pytest.raises(
        StreamingQueryException, match=r'offsets 5 to 11 of losing-0.*"failOnDataLoss"'
    ):
        query.run(subscribe="losing")
    assert query.run(subscribe="losing", failOnDataLoss=False) == [values(range(12, 20))]
