"""The jobs of the Spark rows of `make bench`, on a small scale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def broker() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        for topic in ("in", "out", "copied"):
            cluster.create_topic(topic)
        with cluster.producer() as producer:
            for number in range(50):
                producer.send("in", b"v%d" % number)
        yield cluster


@pytest.fixture
def jobs(
    spark: SparkSession, broker: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.spark_load import Jobs

    return Jobs(spark, "ottla", broker.bootstrap_servers, tmp_path)


def test_jobs_read_all_rows_and_say_how_long_it_took(jobs: Any, broker: LocalCluster) -> None:
    for job in ("noop", "window", "copy"):
        done = jobs.do({"job": job, "topic": "in", "target": "copied"})
        assert done["rows"] == 50
        assert done["seconds"] > 0
    with broker.consumer("copied") as consumer:
        assert len(consumer.take(50)) == 50


def test_a_followed_topic_is_copied_and_its_batches_are_timed(
    jobs: Any, broker: LocalCluster
) -> None:
    assert jobs.do({"job": "follow", "topic": "in", "target": "out"}) == {"ready": 1}
    with broker.producer() as producer:
        producer.send("in", b"now")
    with broker.consumer("out") as consumer:
        assert [record.value for record in consumer.take(1)] == [b"now"]
    jobs._following.processAllAvailable()
    stopped = jobs.do({"job": "stop"})
    assert stopped["batches"] >= 1
    assert stopped["batch_ms"] > 0
