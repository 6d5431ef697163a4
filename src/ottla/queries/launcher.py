"""QueryLauncher starts Spark queries one at a time; TriggerPolicy sets their trigger interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from ottla.queries.failures import brief

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SHUFFLE: Final = "spark.sql.shuffle.partitions"
SESSION_CLASS: Final = "org.apache.spark.sql.classic.SparkSession"
STARTING: Final = ("Initializing", "Getting offsets")
"""The query's status messages in Spark while its Python process starts."""
STARTING_S_MAX: Final = 20.0
STARTING_LOOK_S: Final = 0.02
INTERVAL_MS: Final = 100
REST_MS: Final = 400
"""A pause between small batches: a batch of ten records costs the same as one of one. The first
batch after idle time does not wait."""
AGGREGATE_REST_MS: Final = 1000
"""The same for an aggregate on Spark's operators: its batch costs twice the CPU time of a filter's.
Kafka Streams' cache delays aggregates as well, by default for as long as 2 s in ksqlDB."""
INTERVAL_MS_MAX: Final = 2000
INTERVAL_NAMES: Final = ("ksql.streams.commit.interval.ms", "commit.interval.ms")


class TriggerPolicy:
    """The trigger interval of a query, which grows with the number of queries.

    Each trigger costs the driver some milliseconds even without data: a hundred queries with ten
    triggers per second are a thousand per second.
    """

    def __init__(self) -> None:
        self.running = 0
        """The number of running or starting Spark queries; the supervisor counts them."""

    def interval_ms(self, properties: Mapping[str, str]) -> int:
        given = self.given_ms(properties)
        return self._for_all(INTERVAL_MS) if given is None else given

    def rest_ms(self, properties: Mapping[str, str], *, aggregates: bool = False) -> int:
        """The pause before a batch of few records; 0 if the query configures its interval."""
        if self.given_ms(properties) is not None:
            return 0
        return self._for_all(AGGREGATE_REST_MS if aggregates else REST_MS)

    def given_ms(self, properties: Mapping[str, str]) -> int | None:
        return next((max(int(properties[n]), 0) for n in INTERVAL_NAMES if n in properties), None)

    def _for_all(self, alone_ms: int) -> int:
        return min(alone_ms * max(self.running, 1), INTERVAL_MS_MAX)


def activate(spark: SparkSession) -> None:
    """Makes it this thread's active session, the only place where a writer looks up its format.

    Spark Connect has no active session in the JVM's threads.
    """
    jvm, session_in_jvm = getattr(spark, "_jvm", None), getattr(spark, "_jsparkSession", None)
    if jvm is not None:
        getattr(jvm, SESSION_CLASS).setActiveSession(session_in_jvm)


class QueryLauncher:
    """Starts queries one at a time, because Spark gives the Python process of each ten seconds.

    Twenty queries that start at once, as after a restart, would all time out, again and again. The
    lock is per process, because SQL, Streams and Connect in one process share one JVM.
    """

    _lock: ClassVar = threading.Lock()

    def start(self, writer: DataStreamWriter, *, partitions: int | None = None) -> StreamingQuery:
        """`partitions` of the shuffle, and so of the state: fixed for the checkpoint's lifetime."""
        with self._lock:
            if partitions is not None:
                writer._spark.conf.set(SHUFFLE, str(partitions))
            query = writer.start()
            deadline = time.monotonic() + STARTING_S_MAX
            while query.isActive and time.monotonic() < deadline:
                if not str(query.status.get("message")).startswith(STARTING):
                    break
                time.sleep(STARTING_LOOK_S)
            return query


BatchFunction = Callable[["DataFrame", int], None]


class FailedBatch(Exception):
    """An error in a foreachBatch function, shortened."""


def batch_writer(options: Mapping[str, str]) -> BatchFunction:
    """Writes each batch's updates; the sink takes query and batch id from the Spark job."""

    def write(frame: DataFrame, _: int) -> None:
        frame.write.format("ottla").mode("append").options(**options).save()

    return write


def briefly(work: BatchFunction) -> BatchFunction:
    """The same function with short error messages.

    Spark matches the message of a foreachBatch error against a regular expression (was the query
    stopped?) that recurses per character in Java: a message with a stack trace of twenty pages, as
    Java errors have, kills Spark's query thread with a StackOverflowError.
    """

    def worked(frame: DataFrame, batch: int) -> None:
        try:
            work(frame, batch)
        except Exception as error:
            raise FailedBatch(brief(error)) from None

    return worked
