"""QueryLauncher starts Spark queries, one after the other; TriggerPolicy: how often they look."""

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
"""What Spark says of a query while its Python process starts."""
STARTING_S_MAX: Final = 20.0
STARTING_LOOK_S: Final = 0.02
INTERVAL_MS: Final = 100
REST_MS: Final = 400
"""A batch costs the same for ten records as for one. The first after a quiet time does not rest."""
INTERVAL_MS_MAX: Final = 2000
INTERVAL_NAMES: Final = ("ksql.streams.commit.interval.ms", "commit.interval.ms")


class TriggerPolicy:
    """How often Spark looks for new records: seldom where many queries look.

    Each look costs the driver some milliseconds, data or not: a hundred queries that look ten times
    a second are a thousand looks.
    """

    def __init__(self) -> None:
        self.running = 0
        """Spark queries that run or start; the supervisor counts them."""

    def interval_ms(self, properties: Mapping[str, str]) -> int:
        given = self.given_ms(properties)
        return self._for_all(INTERVAL_MS) if given is None else given

    def rest_ms(self, properties: Mapping[str, str]) -> int:
        """From one batch to the next of few records; 0 if somebody says how often to look."""
        return self._for_all(REST_MS) if self.given_ms(properties) is None else 0

    def given_ms(self, properties: Mapping[str, str]) -> int | None:
        return next((max(int(properties[n]), 0) for n in INTERVAL_NAMES if n in properties), None)

    def _for_all(self, alone_ms: int) -> int:
        return min(alone_ms * max(self.running, 1), INTERVAL_MS_MAX)


def activate(spark: SparkSession) -> None:
    """Makes it the session of this thread: a writer looks for its format there, and nowhere else.

    With Spark Connect there are no such threads.
    """
    jvm, session_in_jvm = getattr(spark, "_jvm", None), getattr(spark, "_jsparkSession", None)
    if jvm is not None:
        getattr(jvm, SESSION_CLASS).setActiveSession(session_in_jvm)


class QueryLauncher:
    """Starts queries one after the other: Spark gives the Python process of each ten seconds.

    Twenty that start at once, as after a restart, would all be too late, time and again. One lock
    for the whole process: SQL, Streams and Connect beside each other have one JVM.
    """

    _lock: ClassVar = threading.Lock()

    def start(self, writer: DataStreamWriter, *, partitions: int | None = None) -> StreamingQuery:
        """`partitions` of what is shuffled, and so of the state: for good, as its checkpoint."""
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


Batch = Callable[["DataFrame", int], None]


class BatchFailed(Exception):
    """What went wrong in a foreachBatch, in few words."""


def batch_writer(options: Mapping[str, str]) -> Batch:
    """Updates go out batch by batch; the sink takes query and batch from the job it runs in."""

    def write(frame: DataFrame, _: int) -> None:
        frame.write.format("ottla").mode("append").options(**options).save()

    return write


def briefly(work: Batch) -> Batch:
    """The same, with errors that Spark can read.

    It looks in the words of an error of foreachBatch for the reason (was the query stopped?), with
    an expression for which Java takes some of its stack for each character: a stack trace of
    twenty pages, as each error of Java's has, ends Spark's thread by a StackOverflowError.
    """

    def worked(frame: DataFrame, batch: int) -> None:
        try:
            work(frame, batch)
        except Exception as error:
            raise BatchFailed(brief(error)) from None

    return worked
