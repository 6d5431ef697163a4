"""The same Spark jobs with Spark's own Kafka connector and with ours, on one broker.

The connector (spark-sql-kafka-0-10) comes from Maven Central: tools/clients/spark-kafka.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from compat_confluent import make_topic, produce
from compat_spark import OFFICIAL, OURS, Jobs, expected, numbers, values
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]


@pytest.fixture(params=[OFFICIAL, OURS])
def jobs(
    request: pytest.FixtureRequest, spark: SparkSession, bootstrap: str, tmp_path: Path
) -> Jobs:
    return Jobs(spark, bootstrap, request.param, tmp_path)


def test_columns_and_their_types(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name)
    assert jobs.read(subscribe=topic_name, includeHeaders="true").schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


def test_a_batch_query_reads_what_a_batch_query_wrote(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name, partitions=2)
    frame = jobs.spark.sql(
        "SELECT 'k' key, cast(id AS string) value, cast(id % 2 AS int) partition,"
        f" array(named_struct('key', 'h', 'value', binary('x'))) headers, '{topic_name}' topic"
        " FROM range(20)"
    )
    jobs.write(frame, includeHeaders="true")
    rows = jobs.read(subscribe=topic_name, includeHeaders="true").collect()
    assert {(row.partition, row.value) for row in rows} == {
        (number % 2, str(number).encode()) for number in range(20)
    }
    assert {(row.key, row.topic) for row in rows} == {(b"k", topic_name)}
    assert {(header.key, header.value) for row in rows for header in row.headers} == {("h", b"x")}
    assert sorted(row.offset for row in rows) == sorted([*range(10), *range(10)])


def test_a_null_value_stays_null(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name)
    jobs.write(jobs.spark.sql("SELECT 'k' key, cast(null AS string) value"), topic=topic_name)
    (row,) = jobs.read(subscribe=topic_name).collect()
    assert (row.key, row.value) == (b"k", None)


def test_the_key_decides_the_partition_as_javas_client_does(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name, partitions=4)
    jobs.write(jobs.spark.sql("SELECT cast(id AS string) key, 'v' value FROM range(50)"),
               topic=topic_name)  # fmt: skip
    by_java = f"{topic_name}-java"
    make_topic(jobs.bootstrap, by_java, partitions=4)
    keys = [{"key": str(number).encode()} for number in range(50)]
    produce(jobs.bootstrap, by_java, keys, partitioner="murmur2_random")
    wanted, found = (
        {(row.key, row.partition) for row in jobs.read(subscribe=topic).collect()}
        for topic in (by_java, topic_name)
    )
    assert found == wanted


def test_batch_between_offsets_and_from_timestamps(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name, partitions=2)
    records = [
        {**entry, "partition": 0, "timestamp": 1_700_000_000_000 + number * 1000}
        for number, entry in enumerate(numbers(range(10)))
    ]
    produce(jobs.bootstrap, topic_name, records)
    start, end = (
        json.dumps({topic_name: {"0": first, "1": other}}) for first, other in ((2, -2), (5, -1))
    )
    between = jobs.read(subscribe=topic_name, startingOffsets=start, endingOffsets=end)
    assert values(between) == expected(range(2, 5))
    late = jobs.read(assign=json.dumps({topic_name: [0]}), startingTimestamp="1700000007000")
    assert values(late) == expected(range(7, 10))
    first = late.selectExpr("min(unix_millis(timestamp)) first", "max(timestampType) type").first()
    assert first is not None
    assert (first["first"], first["type"]) == (1_700_000_007_000, 0)


def test_a_pattern_names_topics(jobs: Jobs, unique: Callable[[str], str]) -> None:
    prefix = unique("pattern")
    for number in range(3):
        topic = make_topic(jobs.bootstrap, f"{prefix}.{number}")
        produce(jobs.bootstrap, topic, numbers([number]))
    frame = jobs.read(subscribePattern=f"{re.escape(prefix)}\\.[01]")
    assert values(frame) == expected(range(2))


def test_available_now_reads_everything_in_steps_and_resumes_after_a_restart(
    jobs: Jobs, topic_name: str
) -> None:
    make_topic(jobs.bootstrap, topic_name, partitions=2)
    target = make_topic(jobs.bootstrap, f"{topic_name}-out")
    produce(jobs.bootstrap, topic_name, numbers(range(100)))
    options = {"subscribe": topic_name, "startingOffsets": "earliest"}
    frame = jobs.stream(**options, maxOffsetsPerTrigger="40").select("key", "value")
    query = jobs.run(frame, target)
    read = [progress.numInputRows for progress in query.recentProgress]
    assert sum(read) == 100
    assert max(read) <= 40
    assert values(jobs.read(subscribe=target)) == expected(range(100))
    produce(jobs.bootstrap, topic_name, numbers(range(100, 110)))
    query = jobs.run(frame, target)
    assert sum(progress.numInputRows for progress in query.recentProgress) == 10
    assert values(jobs.read(subscribe=target)) == expected(range(110))
    ends = json.loads(query.lastProgress.sources[0].endOffset)[topic_name]
    assert sum(ends.values()) == 110


@pytest.mark.parametrize("fails", [True, False])
def test_data_loss_fails_the_query_unless_allowed(jobs: Jobs, topic_name: str, fails: bool) -> None:
    make_topic(jobs.bootstrap, topic_name)
    target = make_topic(jobs.bootstrap, f"{topic_name}-out")
    produce(jobs.bootstrap, topic_name, numbers(range(10)))
    frame = jobs.stream(
        subscribe=topic_name, startingOffsets="earliest", failOnDataLoss=str(fails).lower()
    ).select("key", "value")
    jobs.run(frame, target)
    produce(jobs.bootstrap, topic_name, numbers(range(10, 20)))
    delete_before(jobs.bootstrap, topic_name, 15)
    if fails:
        with pytest.raises(Exception, match="failOnDataLoss"):
            jobs.run(frame, target)
    else:
        jobs.run(frame, target)
        kept = [*range(10), *range(15, 20)]
        assert values(jobs.read(subscribe=target)) == expected(kept)


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    place = TopicPartition(topic, 0, offset)
    for future in admin.delete_records([place]).values():
        future.result(60)


def test_read_committed_skips_aborted_transactions(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name)
    settings = {"bootstrap.servers": jobs.bootstrap, "transactional.id": topic_name}
    producer = Producer(settings)
    producer.init_transactions(60)
    for end, value in ((producer.abort_transaction, b"no"), (producer.commit_transaction, b"yes")):
        producer.begin_transaction()
        producer.produce(topic_name, value)
        producer.flush(60)  # an abort would drop records that were not sent yet
        end(60)
    committed: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
    assert values(jobs.read(subscribe=topic_name, **committed)) == ["yes"]
    uncommitted: dict[str, Any] = {"kafka.isolation.level": "read_uncommitted"}
    assert values(jobs.read(subscribe=topic_name, **uncommitted)) == ["no", "yes"]


def test_windows_are_counted(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name, partitions=2)
    target = make_topic(jobs.bootstrap, f"{topic_name}-out")
    start = 1_700_000_000_000
    records = [{"value": b"x", "timestamp": start + number * 100} for number in range(100)]
    records.append({"value": b"late", "timestamp": start + 60_000})
    produce(jobs.bootstrap, topic_name, records)
    rows = jobs.stream(subscribe=topic_name, startingOffsets="earliest")
    counted = rows.withWatermark("timestamp", "1 second").groupBy(five_seconds()).count()
    jobs.run(counted.selectExpr("cast(count AS string) value"), target)
    assert values(jobs.read(subscribe=target)) == ["50", "50"]


def five_seconds() -> Any:
    from pyspark.sql import functions

    return functions.window("timestamp", "5 seconds")
