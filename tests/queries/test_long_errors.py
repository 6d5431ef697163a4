"""An error as long as Java's, in the foreachBatch of a stopping query."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from ottla.queries.failures import BRIEF_CHARACTERS_MAX, brief
from ottla.queries.launcher import briefly
from ottla.queries.query_run import thread_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WAIT_S = 60.0
STACK = "\tat org.apache.spark.sql.execution.SomeClass.someMethod(SomeClass.scala:123)\n" * 2000
WORDS = (
    "An error occurred while calling o1.save.\n"
    f": org.apache.spark.SparkException: Job aborted.\n{STACK}"
    f"Caused by: java.lang.InterruptedException\n{STACK}"
)


class Py4JJavaError(Exception):
    __module__ = "py4j.protocol"


# How Spark finds out whether an error is only that of a query which was stopped.
LOOKED_FOR = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling((.|\\r\\n|\\r|\\n)*)"
    "(java.io.InterruptedIOException|java.lang.InterruptedException)"
)


def test_spark_recognises_short_errors_and_breaks_on_long_ones(spark: SparkSession) -> None:
    pattern = spark._jvm.java.util.regex.Pattern.compile(LOOKED_FOR)
    error = Py4JJavaError(WORDS)
    with pytest.raises(Exception, match="StackOverflowError"):
        pattern.matcher(f"py4j.protocol.Py4JJavaError: {error}").find()
    few = brief(error)
    assert pattern.matcher(few).find()
    assert pattern.matcher(few.replace("Job aborted.", "x" * BRIEF_CHARACTERS_MAX)).find()


def test_a_query_stopped_during_a_batch_has_not_failed(spark: SparkSession, tmp_path: Path) -> None:
    begun, stopping = threading.Event(), threading.Event()

    def work(frame: DataFrame, batch: int) -> None:
        begun.set()
        stopping.wait(WAIT_S)
        time.sleep(0.5)
        raise Py4JJavaError(WORDS)

    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    writer = rows.writeStream.foreachBatch(briefly(work))
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    thread = thread_of(query)
    assert thread.isAlive()
    assert begun.wait(WAIT_S), query.exception()
    stopping.set()
    query.stop()
    assert not thread.isAlive()
    assert query.exception() is None, "the query was stopped and has not failed"
