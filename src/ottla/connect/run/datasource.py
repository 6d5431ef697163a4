"""A connector as a Spark data source: `format("ottla-connect")`, with the job as its option.

Runs in the process that plans the batches of a query; `read` runs in Spark's workers. Tasks live in
processes of their own (remote_tasks.py). A batch runs only if a task has something to do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.connect.run import remote_tasks
from ottla.connect.run.read_options import sink_read_options
from ottla.connect.run.row_packer import SCHEMA_TEXT, cell_batch, report_batch
from ottla.connect.run.source_offsets import OffsetsTopicReader
from ottla.connect.run.task_requests import (
    ConnectorJob,
    TaskBatchRequest,
    TaskFailure,
    TaskReport,
    TaskWorkRequest,
)
from ottla.spark.offset_reader import OffsetReader
from ottla.spark.offsets import Offsets, from_json, to_json
from ottla.spark.options import ReadOptions
from ottla.spark.source import driver_brokers

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

DATASOURCE_NAME: Final = "ottla-connect"
JOB_OPTION: Final = "secret.job"  # Spark redacts options whose names contain "secret"
STARTS_OPTION: Final = "starts"
REMOTE_INTERVAL_S: Final = 0.5
"""Tasks on other machines cannot be asked for work, so their next batch runs after this time."""
TASK_FAILED: Final = "CONNECT_TASK_FAILED"
"""Marks a TaskFailure, as JSON, in the text of Spark's error: Spark passes on nothing else."""

BatchOffset = dict[str, Any]


class ConnectDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return DATASOURCE_NAME

    def schema(self) -> str:
        return SCHEMA_TEXT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        job = ConnectorJob.from_json(self.options[JOB_OPTION])
        if job.source:
            return SourceStreamReader(job)
        return SinkStreamReader(job, json.loads(self.options.get(STARTS_OPTION) or "{}"))


class TaskInputPartition(InputPartition):
    """One task's part of a batch."""

    def __init__(
        self, job: ConnectorJob, partition: int, batch: int, ranges: Sequence[OffsetRange]
    ) -> None:
        self.request = TaskBatchRequest(job, partition, batch, 0, ranges)

    def __repr__(self) -> str:
        return f"task {self.request.task} of connector {self.request.job.name}"


class ConnectStreamReader(DataSourceStreamReader):
    """What source and sink connectors share; `batch` counts Spark's batches."""

    def __init__(self, job: ConnectorJob) -> None:
        self._job = job

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TaskInputPartition)
        return read_task(partition.request)

    def _has_work(self, batch: int) -> bool:
        """Asks every task, even after a yes: the question also confirms the batches before."""
        tasks = [number for number, _ in self._job.tasks]
        if not self._job.local:
            time.sleep(REMOTE_INTERVAL_S if self._job.source else 0.0)
            return self._job.source
        wait_s = self._job.idle_s / len(tasks) if self._job.source else 0.0
        news = [
            remote_tasks.has_work(self._job.run, task, TaskWorkRequest(batch)) for task in tasks
        ]
        if any(news) or not wait_s:
            return any(news)
        return any(
            remote_tasks.has_work(self._job.run, task, TaskWorkRequest(batch, wait_s))
            for task in tasks
        )


class SourceStreamReader(ConnectStreamReader):
    def __init__(self, job: ConnectorJob) -> None:
        super().__init__(job)
        self._written: OffsetsTopicReader | None = None

    def initialOffset(self) -> BatchOffset:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: BatchOffset, limit: ReadLimit) -> BatchOffset:  # noqa: N802
        batch = int(start["batch"])
        return {"batch": batch + 1} if batch == 0 or self._has_work(batch) else start

    def partitions(self, start: BatchOffset, end: BatchOffset) -> Sequence[InputPartition]:
        batch = int(end["batch"]) - 1
        if self._written is None:
            self._written = OffsetsTopicReader(self._job.config, self._job.worker)
        known = self._written.ranges()
        # Every task gets the ranges as they are before the batch: see source_offsets.
        return [
            TaskInputPartition(self._job, index, batch, known)
            for index in range(len(self._job.tasks))
        ]

    def commit(self, end: BatchOffset) -> None:
        """Nothing to do: the sink has written the offsets with the records."""

    def stop(self) -> None:
        if self._written is not None:
            self._written.close()


class SinkStreamReader(ConnectStreamReader):
    """Plans as `format("ottla")` does, with partitions grouped by task. The tasks do the reading;
    Spark's offsets only limit how far a batch goes."""

    def __init__(self, job: ConnectorJob, starts: Mapping[str, Mapping[str, int]]) -> None:
        super().__init__(job)
        self._starts = from_json(starts)
        self._following: OffsetReader | None = None
        self._brokers: ClusterClient | None = None
        self._initial: BatchOffset | None = None

    def initialOffset(self) -> BatchOffset:  # noqa: N802
        """The group's committed offsets; auto.offset.reset for partitions without one."""
        if self._initial is None:
            begin = self._follow().begin()
            known = {partition: at for partition, at in self._starts.items() if partition in begin}
            self._initial = {"batch": 0, "offsets": to_json({**begin, **known})}
        return self._initial

    def latestOffset(self, start: BatchOffset, limit: ReadLimit) -> BatchOffset:  # noqa: N802
        """The first batch always runs, because it starts the tasks."""
        before, batch = from_json(start["offsets"]), int(start["batch"])
        reached = to_json(self._follow().latest(before))
        if batch == 0 or reached != to_json(before) or self._has_work(batch):
            return {"batch": batch + 1, "offsets": reached}
        return start

    def reportLatestOffset(self) -> BatchOffset | None:  # noqa: N802
        ends = self._follow().ends
        return None if ends is None else {"offsets": to_json(ends)}

    def partitions(self, start: BatchOffset, end: BatchOffset) -> Sequence[InputPartition]:
        by_task = ranges_by_task(
            from_json(start["offsets"]), from_json(end["offsets"]), len(self._job.tasks)
        )
        batch = int(end["batch"]) - 1
        return [
            TaskInputPartition(self._job, index, batch, ranges)
            for index, ranges in enumerate(by_task)
        ]

    def commit(self, end: BatchOffset) -> None:
        self._follow().batch_ran()

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()

    def _follow(self) -> OffsetReader:
        if self._following is None:
            options: ReadOptions = sink_read_options(self._job)
            self._brokers = driver_brokers(options)
            self._following = OffsetReader(options, self._brokers)
        return self._following


def ranges_by_task(start: Offsets, end: Offsets, count: int) -> list[list[OffsetRange]]:
    """Assigns every partition to one task, including those with nothing to read now."""
    by_task: list[list[OffsetRange]] = [[] for _ in range(count)]
    for number, partition in enumerate(sorted(end)):
        begin = min(start.get(partition, end[partition]), end[partition])
        by_task[number % count].append(OffsetRange(*partition, begin, end[partition]))
    return by_task


class TaskFailedError(Exception):
    """A task's failure on its way through Spark, which keeps only its text."""


def read_task(request: TaskBatchRequest) -> Iterator[Any]:
    """Runs in Spark's worker: passes on the answers of the task's process."""
    context = TaskContext.get()
    assert context is not None, "this runs in a task of Spark"
    attempt = context.attemptNumber()
    for answer in remote_tasks.run_batch(replace(request, attempt=attempt)):
        if isinstance(answer, TaskReport):
            yield report_batch(answer)
        elif isinstance(answer, TaskFailure):
            raise TaskFailedError(failure_text(answer))
        else:
            yield cell_batch(answer)


def failure_text(failure: TaskFailure) -> str:
    return f"{TASK_FAILED} {json.dumps([failure.task, failure.trace])} END_OF_{TASK_FAILED}"


def failure_in(text: str) -> TaskFailure | None:
    """The first TaskFailure in the text of Spark's error."""
    _, found, rest = text.partition(TASK_FAILED + " ")
    if not found:
        return None
    inner, _, _ = rest.partition(f" END_OF_{TASK_FAILED}")
    try:
        task, trace = json.loads(inner)
    except ValueError:
        return None
    return TaskFailure(task, trace)
