"""Real-time mode: `trigger(realTime=...)`, where Spark reads on while a batch is open.

Spark takes only sources that say they can, which is its own Kafka connector; the sinks Kafka,
console and foreach; output mode update. A batch lasts as long as the trigger says, and records pass
through it at once: the tests find rows in the target topic while the first batch is still open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from compat_confluent import make_topic, produce, read_all
from compat_spark import OFFICIAL, OURS, PATIENCE_S, Jobs, expected, numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]
BATCH = "60 seconds"


@pytest.fixture
def jobs(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Jobs:
    return Jobs(spark, bootstrap, OFFICIAL, tmp_path)


@contextlib.contextmanager
def running(jobs: Jobs, frame: DataFrame, topic: str, *, batch: str = BATCH) -> Iterator[Any]:
    writer = frame.writeStream.format(OFFICIAL).outputMode("update").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", jobs.bootstrap)
    writer = writer.option("checkpointLocation", str(jobs.place / "checkpoint"))
    query = writer.trigger(realTime=batch).start()  # type: ignore[call-overload]
    try:
        yield query
    finally:
        query.stop()


def texts(jobs: Jobs, topic: str, count: int) -> list[str]:
    """That many values, as soon as they are there."""
    return sorted(record.value().decode() for record in read_all(jobs.bootstrap, topic, count))


def test_records_pass_through_while_the_batch_is_open(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name, partitions=2)
    target = make_topic(jobs.bootstrap, f"{topic_name}-out")
    produce(jobs.bootstrap, topic_name, numbers(range(10)))
    rows = jobs.stream(subscribe=topic_name, startingOffsets="earliest")
    even = rows.where("cast(substr(cast(value AS string), 2) AS int) % 2 = 0")
    with running(jobs, even.select("key", "value"), target) as query:
        assert texts(jobs, target, 5) == expected(range(0, 10, 2))
        produce(jobs.bootstrap, topic_name, numbers(range(10, 20)))
        assert texts(jobs, target, 10) == expected(range(0, 20, 2))
        assert query.recentProgress == []


def test_an_aggregate_is_updated_while_the_batch_is_open(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name)
    target = make_topic(jobs.bootstrap, f"{topic_name}-out")
    rows = jobs.stream(subscribe=topic_name, startingOffsets="earliest")
    counted = rows.groupBy("key").count().selectExpr("key", "cast(count AS string) value")
    with running(jobs, counted, target) as query:
        for number in (1, 2, 3):
            produce(jobs.bootstrap, topic_name, [{"key": b"k", "value": b"x"}])
            assert texts(jobs, target, number)[-1] == str(number)
        assert query.recentProgress == []


def test_a_query_resumes_from_its_checkpoint(
    jobs: Jobs, topic_name: str, until: Callable[[Callable[[], object], str], None]
) -> None:
    make_topic(jobs.bootstrap, topic_name)
    target = make_topic(jobs.bootstrap, f"{topic_name}-out")
    rows = jobs.stream(subscribe=topic_name, startingOffsets="earliest").select("key", "value")
    produce(jobs.bootstrap, topic_name, numbers(range(10)))
    with running(jobs, rows, target, batch="1 second") as query:
        assert texts(jobs, target, 10) == expected(range(10))
        until(lambda: query.recentProgress, "a batch that is over")
        assert sum(progress.numInputRows for progress in query.recentProgress) == 10
    produce(jobs.bootstrap, topic_name, numbers(range(10, 20)))
    with running(jobs, rows, target, batch="1 second"):
        assert texts(jobs, target, 20) == expected(range(20))


def test_our_source_is_refused_by_name(jobs: Jobs, topic_name: str) -> None:
    make_topic(jobs.bootstrap, topic_name)
    ours = Jobs(jobs.spark, jobs.bootstrap, OURS, jobs.place)
    rows = ours.stream(subscribe=topic_name).select("key", "value")
    with (
        pytest.raises(Exception, match=r"STREAMING_REAL_TIME_MODE\.INPUT_STREAM_NOT_SUPPORTED"),
        running(ours, rows, topic_name) as query,
    ):
        query.awaitTermination(PATIENCE_S)
