"""A connector as a source of Spark: `format("ottla-connect")`, with the job as its option.

What is here runs in the process that plans the batches of a query, and (`read`) in Spark's
workers. Tasks live elsewhere: hosts.py. A batch runs only if a task has something to do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.fetching import Range
from ottla.connect.run import hosts
from ottla.connect.run.orders import Ask, Failure, Job, Order, Report
from ottla.connect.run.reading import sink_options
from ottla.connect.run.rows import SCHEMA_TEXT, cell, report_row
from ottla.connect.run.source_offsets import Written
from ottla.spark.following import Following
from ottla.spark.offsets import Offsets, from_json, to_json
from ottla.spark.options import ReadOptions
from ottla.spark.source import driver_brokers

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "ottla-connect"
JOB: Final = "secret.job"  # Spark does not show options of such names
STARTS: Final = "starts"
FAR_S: Final = 0.5
"""Sources on other machines can't be asked: so long after a batch the next one runs."""
FAILED: Final = "CONNECT_TASK_FAILED"
"""By this word, and the JSON behind it, the driver knows whose failure it is."""

State = dict[str, Any]


class Connect(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA_TEXT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        job = Job.from_json(self.options[JOB])
        if job.source:
            return SourceReader(job)
        return SinkReader(job, json.loads(self.options.get(STARTS) or "{}"))


class Part(InputPartition):
    """The share of one task."""

    def __init__(self, job: Job, place: int, batch: int, ranges: Sequence[Range]) -> None:
        self.order = Order(job, place, batch, 0, ranges)

    def __repr__(self) -> str:
        return f"task {self.order.task} of connector {self.order.job.name}"


class Reader(DataSourceStreamReader):
    """What both kinds have in common; `batch` counts Spark's batches."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Part)
        return served(partition.order)

    def _has_news(self, batch: int) -> bool:
        """All tasks are asked: each is told thereby that the batches before are done."""
        tasks = [number for number, _ in self._job.tasks]
        if not self._job.local:
            time.sleep(FAR_S if self._job.source else 0.0)
            return self._job.source
        wait_s = self._job.idle_s / len(tasks) if self._job.source else 0.0
        news = [hosts.has_news(self._job.run, each, Ask(batch)) for each in tasks]
        if any(news) or not wait_s:
            return any(news)
        return any(hosts.has_news(self._job.run, each, Ask(batch, wait_s)) for each in tasks)


class SourceReader(Reader):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._written: Written | None = None

    def initialOffset(self) -> State:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: State, limit: ReadLimit) -> State:  # noqa: N802
        batch = int(start["batch"])
        return {"batch": batch + 1} if batch == 0 or self._has_news(batch) else start

    def partitions(self, start: State, end: State) -> Sequence[InputPartition]:
        batch = int(end["batch"]) - 1
        if self._written is None:
            self._written = Written(self._job.config, self._job.worker)
        known = self._written.ranges()
        return [Part(self._job, place, batch, known) for place in range(len(self._job.tasks))]

    def commit(self, end: State) -> None:
        """The sink has the offsets."""

    def stop(self) -> None:
        if self._written is not None:
            self._written.close()


class SinkReader(Reader):
    """Reads topics as `format("ottla")` does, but cut by tasks, and only to tell them how far."""

    def __init__(self, job: Job, starts: Mapping[str, Mapping[str, int]]) -> None:
        super().__init__(job)
        self._starts = from_json(starts)
        self._following: Following | None = None
        self._brokers: ClusterClient | None = None
        self._initial: State | None = None

    def initialOffset(self) -> State:  # noqa: N802
        """Where the group is; a partition that it does not know is begun as settings say."""
        if self._initial is None:
            begin = self._follow().begin()
            known = {each: at for each, at in self._starts.items() if each in begin}
            self._initial = {"batch": 0, "offsets": to_json({**begin, **known})}
        return self._initial

    def latestOffset(self, start: State, limit: ReadLimit) -> State:  # noqa: N802
        """The first batch starts the tasks, be there something to read or not."""
        before, batch = from_json(start["offsets"]), int(start["batch"])
        reached = to_json(self._follow().latest(before))
        if batch == 0 or reached != to_json(before) or self._has_news(batch):
            return {"batch": batch + 1, "offsets": reached}
        return start

    def reportLatestOffset(self) -> State | None:  # noqa: N802
        ends = self._follow().ends
        return None if ends is None else {"offsets": to_json(ends)}

    def partitions(self, start: State, end: State) -> Sequence[InputPartition]:
        shares = shared(
            from_json(start["offsets"]), from_json(end["offsets"]), len(self._job.tasks)
        )
        batch = int(end["batch"]) - 1
        return [Part(self._job, place, batch, each) for place, each in enumerate(shares)]

    def commit(self, end: State) -> None:
        self._follow().batch_ran()

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()

    def _follow(self) -> Following:
        if self._following is None:
            options: ReadOptions = sink_options(self._job)
            self._brokers = driver_brokers(options)
            self._following = Following(options, self._brokers)
        return self._following


def shared(start: Offsets, end: Offsets, count: int) -> list[list[Range]]:
    """Every partition belongs to one task, also where there is nothing to read of it now."""
    shares: list[list[Range]] = [[] for _ in range(count)]
    for number, each in enumerate(sorted(end)):
        begin = min(start.get(each, end[each]), end[each])
        shares[number % count].append(Range(*each, begin, end[each]))
    return shares


class TaskFailed(Exception):
    """A task's failure on its way through Spark, which keeps nothing but its text."""


def served(order: Order) -> Iterator[Any]:
    """In Spark's worker: what the task's host says, handed on."""
    context = TaskContext.get()
    assert context is not None, "this runs in a task of Spark"
    attempt = context.attemptNumber()
    for answer in hosts.serve(Order(order.job, order.place, order.batch, attempt, order.ranges)):
        if isinstance(answer, Report):
            yield report_row(answer)
        elif isinstance(answer, Failure):
            raise TaskFailed(failure_text(answer))
        else:
            yield cell(answer)


def failure_text(failure: Failure) -> str:
    return f"{FAILED} {json.dumps([failure.task, failure.trace])} END_OF_{FAILED}"


def failure_in(text: str) -> Failure | None:
    """The first one in what Spark says of a query that ended."""
    _, found, rest = text.partition(FAILED + " ")
    if not found:
        return None
    inner, _, _ = rest.partition(f" END_OF_{FAILED}")
    try:
        task, trace = json.loads(inner)
    except ValueError:
        return None
    return Failure(task, trace)
