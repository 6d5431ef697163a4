"""A connector's Spark query: from its tasks into topics.

Rows of a source connector are its records and, behind them, its offsets; rows of a sink connector
are dead letters. Each task adds a report, which is observed and left out of what is written.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.client import Admin
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.topics import NewTopic
from ottla.connect.run import boundaries
from ottla.connect.run.orders import Job, Report
from ottla.connect.run.planner import JOB, NAME, STARTS, Connect
from ottla.connect.run.source_offsets import topic_of
from ottla.connect.run.worker import OFFSETS_PARTITIONS, Worker
from ottla.queries.cluster import make_topics
from ottla.queries.launcher import QueryLauncher, activate
from ottla.queries.query_run import as_dict
from ottla.spark import source
from ottla.spark.offsets import Offsets, to_json
from ottla.spark.sink.decisions import Decisions, Identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OBSERVED: Final = "connect"
NOT_FOR_THE_SINK: Final = frozenset({"key.serializer", "value.serializer", "transactional.id"})
NEVER_TRIES_AGAIN: Final = re.compile(r"local(\[(\*|\d+)\])?")
BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""A row is a cell of many records: each goes to the sink at once, while the next one is made."""
DEAD_LETTERS: Final = "errors.deadletterqueue.topic."


class Begun:
    """A query and the folder that Spark wants for it. The truth about offsets is not there."""

    def __init__(self, query: StreamingQuery, folder: Path) -> None:
        self.query = query
        self._folder = folder
        self._batch = -1
        self._seen: object = None

    def reports(self, *, all_of_them: bool = False) -> list[Report]:
        """What tasks have told since the last look. Reports are sums: a newer one has it all."""
        last = as_dict(self.query.lastProgress)
        batch, seen = int(last.get("batchId", -1)), last.get("timestamp")
        if seen == self._seen and not all_of_them:
            return []
        # An idle query tells of itself, too, under the number of the batch that is to come.
        skipped = batch > self._batch + 1 or not last.get("observedMetrics")
        progresses = self.query.recentProgress if skipped or all_of_them else [last]
        self._batch, self._seen = batch, seen
        return [report for each in progresses for report in reports_in(as_dict(each))]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def begin(spark: SparkSession, job: Job, starts: Offsets, launcher: QueryLauncher) -> Begun:
    from pyspark.sql.functions import collect_list

    activate(spark)
    spark.conf.set(BATCH_ROWS, "1")
    source.register(spark)
    spark.dataSource.register(Connect)
    folder = Path(tempfile.mkdtemp(prefix="ottla-connect-query-"))
    try:
        read = spark.readStream.format(NAME).option(JOB, job.to_json())
        frame = read.option(STARTS, json.dumps(to_json(starts))).load()
        frame = frame.observe(OBSERVED, collect_list("report").alias("reports"))
        rows = frame.where("rows IS NOT NULL").drop("report")
        writer = rows.writeStream.format("ottla").outputMode("append").queryName(job.query)
        writer = writer.option("checkpointLocation", folder.as_uri()).options(**sink_options(job))
        return Begun(launcher.start(writer), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def sink_options(job: Job) -> dict[str, str]:
    settings = {
        f"kafka.{name}": value
        for name, value in job.worker.producer(job.config).items()
        if name not in NOT_FOR_THE_SINK
    }
    servers = job.worker.bootstrap_servers
    options = {"kafka.bootstrap.servers": servers, **settings, "ottla.packed": "true"}
    if not job.source:
        return {**options, "ottla.delivery": "at_least_once"}
    if not job.exactly_once:
        last = topic_of(job.config, job.worker)
        return {**options, "ottla.delivery": "at_least_once", "ottla.topic.last": last}
    return {
        "kafka.transaction.timeout.ms": str(boundaries.timeout_ms(job)),
        **options,
        "ottla.delivery": "exactly_once",
        "ottla.query.id": job.query,
        "ottla.run.id": job.run,
        "ottla.batch.id": str(job.first_batch),
    }


def decided(job: Job) -> int:
    """Takes the connector over: from here on no other run of it can commit anything. Returns the
    number of the last batch that was decided."""
    settings = job.worker.producer(job.config)
    cluster = ClusterClient(job.worker.bootstrap_servers, settings, make_topics=True)
    try:
        timeout_ms = boundaries.timeout_ms(job)
        decisions = Decisions(cluster, Identity(job.query), timeout_ms=timeout_ms)
        return decisions.take_over(run=job.run, topic=topic_of(job.config, job.worker)).batch
    finally:
        cluster.close()


def make_offsets_topic(config: Mapping[str, str], worker: Worker) -> None:
    wish = NewTopic(
        topic_of(config, worker),
        int(worker.properties.get("offset.storage.partitions", OFFSETS_PARTITIONS)),
        replicas_of(worker.properties, "offset.storage.replication.factor"),
        configs={"cleanup.policy": "compact"},
    )
    with Admin(worker.bootstrap_servers, settings=worker.client()) as admin:
        make_topics(admin, [wish], "source connectors")


def make_dead_letter_topic(name: str, config: Mapping[str, str], worker: Worker) -> None:
    topic = config.get(DEAD_LETTERS + "name", "").strip()
    if not topic:
        return
    replicas = replicas_of(config, DEAD_LETTERS + "replication.factor")
    with Admin(worker.bootstrap_servers, settings=worker.admin(config)) as admin:
        make_topics(admin, [NewTopic(topic, 1, replicas)], f"dead letters of {name}")


def replicas_of(given: Mapping[str, str], name: str) -> int | None:
    """None, which is -1 in Kafka's settings and the default here: as the broker does."""
    count = int(given.get(name, -1))
    return None if count == -1 else count


def is_near(spark: SparkSession, master: str) -> bool:
    """Whether tasks are on this machine: Spark is in a JVM of this process, and no cluster."""
    return master.startswith("local") and getattr(spark, "_jsparkSession", None) is not None


def retries_tasks(master: str) -> bool:
    """Whether Spark runs a task again by itself, perhaps in another place."""
    return not NEVER_TRIES_AGAIN.fullmatch(master)


def reports_in(progress: Mapping[str, Any]) -> list[Report]:
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
    return [Report.from_json(each) for each in observed.get("reports") or ()]
