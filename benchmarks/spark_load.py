"""Spark's driver for the Spark rows: a process that is given jobs, one JSON line each, and answers.

    python -m benchmarks.spark_load start --launcher ours|stock
    python -m benchmarks.spark_load jobs --format ottla|kafka --port 9092 --directory D --jars A,B

Each format has a process, and so a JVM, of its own: its own compiled code, as in the life of a
user who has one of them. Settings are the same. The process that has nothing to do waits for its
next line, and so do its JVM and its Python workers.

    {"job": "noop", "topic": "t"}                       all that is there, to nowhere
    {"job": "window", "topic": "t"}                     ... counted by second of event time
    {"job": "copy", "topic": "t", "target": "u"}        ... into another topic
    {"job": "follow", "topic": "t", "target": "u"}      from now on, until {"job": "stop"}
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[2]"
HEAP = "2g"
JOB_TIMEOUT_S = 600
FIRST_BATCH_TIMEOUT_S = 60.0


class Jobs:
    def __init__(self, spark: SparkSession, name: str, servers: str, directory: Path) -> None:
        self.spark = spark
        self.format = name
        self.servers = servers
        self.directory = directory
        self._numbers = itertools.count()
        self._following: Any = None

    def do(self, request: dict[str, str]) -> dict[str, float]:
        job, topic = request["job"], request.get("topic", "")
        if job == "noop":
            return self.timed(self.read(topic).writeStream.format("noop"))
        if job == "window":
            return self.timed(self.windows(topic).writeStream.format("noop").outputMode("update"))
        if job == "copy":
            return self.timed(self.into(self.read(topic), request["target"]))
        if job == "follow":
            return self.follow(topic, request["target"])
        assert job == "stop", job
        return self.stop()

    def read(self, topic: str, *, start: str = "earliest") -> DataFrame:
        options = {"subscribe": topic, "startingOffsets": start}
        servers = {"kafka.bootstrap.servers": self.servers}
        return self.spark.readStream.format(self.format).options(**servers, **options).load()

    def windows(self, topic: str) -> DataFrame:
        from pyspark.sql import functions

        rows = self.read(topic).withWatermark("timestamp", "1 second")
        return rows.groupBy(functions.window("timestamp", "1 second")).count()

    def into(self, frame: DataFrame, topic: str) -> Any:
        options = {"kafka.bootstrap.servers": self.servers, "topic": topic}
        return frame.select("key", "value").writeStream.format(self.format).options(**options)

    def timed(self, writer: Any) -> dict[str, float]:
        """From the call of start to the end of the query, including planning and checkpoint."""
        writer = writer.option("checkpointLocation", self.checkpoint()).trigger(availableNow=True)
        start = time.perf_counter()
        query = writer.start()
        if not query.awaitTermination(JOB_TIMEOUT_S):
            raise SystemExit(f"the query was not over after {JOB_TIMEOUT_S} s")
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "rows": sum(batch.numInputRows for batch in query.recentProgress),
        }

    def follow(self, topic: str, target: str) -> dict[str, float]:
        writer = self.into(self.read(topic, start="latest"), target)
        query = writer.option("checkpointLocation", self.checkpoint()).start()
        self._following = query
        deadline = time.monotonic() + FIRST_BATCH_TIMEOUT_S
        while query.status["message"] != "Waiting for data to arrive":
            if query.exception() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the query does not run: {query.exception()}")
            time.sleep(0.05)
        return {"ready": 1}

    def stop(self) -> dict[str, float]:
        query, self._following = self._following, None
        spent = [batch.batchDuration for batch in query.recentProgress if batch.numInputRows]
        query.stop()
        return {"batch_ms": statistics.median(spent), "batches": len(spent)}

    def checkpoint(self) -> str:
        return str(self.directory / f"checkpoint-{next(self._numbers)}")


def started(launcher: str, jars: str = "") -> SparkSession:
    """Ottla's session, or PySpark's own with the same settings."""
    given = {"spark.jars": jars} if jars else {}
    if launcher == "ours":
        return session.start(master=MASTER, heap=HEAP, settings=given)
    from pyspark.sql import SparkSession

    session.set_python(MASTER)
    builder = SparkSession.builder.master(MASTER).config("spark.driver.memory", HEAP)
    for name, value in {**session.settings_for(MASTER), **given}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answer(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_load")
    parser.add_argument("what", choices=("start", "jobs"))
    parser.add_argument("--launcher", choices=("ours", "stock"), default="ours")
    parser.add_argument("--format", choices=("ottla", "kafka"), default="ottla")
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--directory", type=Path, default=Path())
    parser.add_argument("--jars", default="")
    given = parser.parse_args(argv)
    spark = started(given.launcher, given.jars)
    if given.what == "start":
        answer({"count": spark.range(100).count()})
        return 0
    jobs = Jobs(spark, given.format, f"127.0.0.1:{given.port}", given.directory)
    answer({"ready": 1})
    for line in sys.stdin:
        answer(jobs.do(json.loads(line)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
