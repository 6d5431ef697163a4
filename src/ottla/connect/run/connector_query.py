"""A connector's Spark query: from its tasks into topics.

A source connector's rows are its records followed by its offsets; a sink connector's rows are dead
letters. Each task adds a report, which the driver observes and which is not written.
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
from ottla.connect.run import transaction_boundary
from ottla.connect.run.datasource import (
    DATASOURCE_NAME,
    JOB_OPTION,
    STARTS_OPTION,
    ConnectDataSource,
)
from ottla.connect.run.source_offsets import topic_of
from ottla.connect.run.task_requests import ConnectorJob, TaskReport
from ottla.connect.run.worker_context import OFFSETS_PARTITIONS, WorkerContext
from ottla.queries.cluster import make_topics
from ottla.queries.launcher import QueryLauncher, activate
from ottla.queries.query_run import as_dict
from ottla.spark import source
from ottla.spark.checkpoints import QueryCheckpoint
from ottla.spark.offsets import Offsets, to_json
from ottla.spark.sink.commit_log import CommitLog, SinkIdentity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OBSERVED: Final = "connect"
EXCLUDED_PRODUCER_SETTINGS: Final = frozenset(
    {"key.serializer", "value.serializer", "transactional.id"}
)
LOCAL_WITHOUT_RETRIES: Final = re.compile(r"local(\[(\*|\d+)\])?")
BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""One row, which holds many packed records: it reaches the sink while the next one is made."""
DEAD_LETTER_QUEUE_TOPIC: Final = "errors.deadletterqueue.topic."


class ConnectorQuery:
    """A query and the checkpoint folder that Spark insists on. Offsets are never read from it."""

    def __init__(self, query: StreamingQuery, folder: Path) -> None:
        self.query = query
        self._folder = folder
        self._batch = -1
        self._seen: object = None

    def reports(self, *, all_of_them: bool = False) -> list[TaskReport]:
        """The reports since the last call. They are cumulative, so the newest progress suffices
        unless a batch was skipped."""
        last = as_dict(self.query.lastProgress)
        batch, seen = int(last.get("batchId", -1)), last.get("timestamp")
        if seen == self._seen and not all_of_them:
            return []
        # An idle query reports progress as well, under the number of the next batch.
        skipped = batch > self._batch + 1 or not last.get("observedMetrics")
        progresses = self.query.recentProgress if skipped or all_of_them else [last]
        self._batch, self._seen = batch, seen
        return [report for progress in progresses for report in reports_in(as_dict(progress))]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def start_connector_query(
    spark: SparkSession, job: ConnectorJob, starts: Offsets, launcher: QueryLauncher
) -> ConnectorQuery:
    from pyspark.sql.functions import collect_list

    activate(spark)
    spark.conf.set(BATCH_ROWS, "1")
    source.register(spark)
    spark.dataSource.register(ConnectDataSource)
    folder = Path(tempfile.mkdtemp(prefix="ottla-connect-query-"))
    try:
        read = spark.readStream.format(DATASOURCE_NAME).option(JOB_OPTION, job.to_json())
        frame = read.option(STARTS_OPTION, json.dumps(to_json(starts))).load()
        frame = frame.observe(OBSERVED, collect_list("report").alias("reports"))
        rows = frame.where("rows IS NOT NULL").drop("report")
        writer = rows.writeStream.format("ottla").outputMode("append").queryName(job.query)
        checkpoint = QueryCheckpoint(folder).location
        writer = writer.option("checkpointLocation", checkpoint).options(**write_options(job))
        return ConnectorQuery(launcher.start(writer), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def write_options(job: ConnectorJob) -> dict[str, str]:
    settings = {
        f"kafka.{name}": value
        for name, value in job.worker.producer(job.config).items()
        if name not in EXCLUDED_PRODUCER_SETTINGS
    }
    servers = job.worker.bootstrap_servers
    options = {"kafka.bootstrap.servers": servers, **settings, "ottla.packed": "true"}
    if not job.source:
        return {**options, "ottla.delivery": "at_least_once"}
    if not job.exactly_once:
        last = topic_of(job.config, job.worker)
        return {**options, "ottla.delivery": "at_least_once", "ottla.topic.last": last}
    return {
        "kafka.transaction.timeout.ms": str(transaction_boundary.timeout_ms(job)),
        **options,
        "ottla.delivery": "exactly_once",
        "ottla.query.id": job.query,
        "ottla.run.id": job.run,
        "ottla.batch.id": str(job.first_batch),
    }


def take_over(job: ConnectorJob) -> int:
    """Fences every other run of the connector: from here on none of them can commit anything.
    Returns the number of the last batch that was decided (committed or aborted)."""
    settings = job.worker.producer(job.config)
    cluster = ClusterClient(job.worker.bootstrap_servers, settings, make_topics=True)
    try:
        timeout_ms = transaction_boundary.timeout_ms(job)
        decisions = CommitLog(cluster, SinkIdentity(job.query), timeout_ms=timeout_ms)
        return decisions.take_over(run=job.run, topic=topic_of(job.config, job.worker)).batch
    finally:
        cluster.close()


def make_offsets_topic(config: Mapping[str, str], worker: WorkerContext) -> None:
    topic = NewTopic(
        topic_of(config, worker),
        int(worker.properties.get("offset.storage.partitions", OFFSETS_PARTITIONS)),
        replicas_of(worker.properties, "offset.storage.replication.factor"),
        configs={"cleanup.policy": "compact"},
    )
    with Admin(worker.bootstrap_servers, settings=worker.client()) as admin:
        make_topics(admin, [topic], "source connectors")


def make_dead_letter_topic(name: str, config: Mapping[str, str], worker: WorkerContext) -> None:
    topic = config.get(DEAD_LETTER_QUEUE_TOPIC + "name", "").strip()
    if not topic:
        return
    replicas = replicas_of(config, DEAD_LETTER_QUEUE_TOPIC + "replication.factor")
    with Admin(worker.bootstrap_servers, settings=worker.admin(config)) as admin:
        make_topics(admin, [NewTopic(topic, 1, replicas)], f"dead letters of {name}")


def replicas_of(given: Mapping[str, str], name: str) -> int | None:
    """None (-1 in Kafka's settings) stands for the broker's default, which is our default too."""
    count = int(given.get(name, -1))
    return None if count == -1 else count


def is_local(spark: SparkSession, master: str) -> bool:
    """True if tasks run on this machine: Spark is a JVM of this process, not a cluster."""
    return master.startswith("local") and getattr(spark, "_jsparkSession", None) is not None


def spark_retries_tasks(master: str) -> bool:
    """True if Spark retries a failed task by itself, perhaps on another machine."""
    return not LOCAL_WITHOUT_RETRIES.fullmatch(master)


def reports_in(progress: Mapping[str, Any]) -> list[TaskReport]:
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
    return [TaskReport.from_json(report) for report in observed.get("reports") or ()]
