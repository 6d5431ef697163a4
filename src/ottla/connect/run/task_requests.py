"""Messages between the driver, Spark's workers and the processes of tasks. Plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.client.record import TopicPartition
from ottla.connect.run.worker_context import WorkerContext


@dataclass(frozen=True, slots=True)
class ConnectorJob:
    """One run of a connector's query: from a start to a stop, or to a failure."""

    name: str
    run: str
    source: bool
    task_class: str
    """`module:Class`."""
    config: Mapping[str, str]
    worker: WorkerContext
    tasks: Sequence[tuple[int, Mapping[str, str]]]
    """The tasks that run: id and config. The index in this list is Spark's partition."""
    exactly_once: bool = False
    first_batch: int = 0
    """The number that the transactional sink gives to Spark's batch 0."""
    local: bool = True
    """Driver and tasks are on one machine, so the driver can call the tasks' processes."""
    idle_s: float = 0.1
    process: int = 0
    """The worker's pid if its tasks are on the same machine: they use its standard streams."""

    @property
    def group(self) -> str:
        """The consumer group that a sink connector commits its offsets to."""
        return group_of(self.name, self.config)

    @property
    def query(self) -> str:
        return query_name_of(self.name, self.worker)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> ConnectorJob:
        data = json.loads(text)
        worker = WorkerContext(**data.pop("worker"))
        tasks = [(number, config) for number, config in data.pop("tasks")]
        return ConnectorJob(worker=worker, tasks=tasks, **data)


def group_of(name: str, config: Mapping[str, str]) -> str:
    return config.get("consumer.override.group.id") or f"connect-{name}"


def query_name_of(name: str, worker: WorkerContext) -> str:
    """The same on every worker: it identifies a source connector to the transactional sink, and a
    sink connector to its group, so that the next owner can fence the previous one."""
    cluster = worker.properties.get("group.id") or "standalone"
    return f"connect-{_short(cluster)}-{_short(name)}"


def _short(name: str) -> str:
    """Only characters that an id may have; a shortened name gets a checksum, to stay unique."""
    import re
    import zlib

    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:32]
    return plain if plain == name else f"{plain}.{zlib.crc32(name.encode()):08x}"


@dataclass(frozen=True, slots=True)
class TaskBatchRequest:
    """One task's part of one batch."""

    job: ConnectorJob
    spark_partition: int
    """The index among the tasks that run."""
    batch: int
    attempt: int
    ranges: Sequence[OffsetRange] = ()
    """Sinks: all partitions of the task, each with the offsets to read (there may be none).
    Sources: what the offsets topic held before the batch."""

    @property
    def task(self) -> int:
        return self.job.tasks[self.spark_partition][0]

    @property
    def props(self) -> Mapping[str, str]:
        return self.job.tasks[self.spark_partition][1]


@dataclass(frozen=True, slots=True)
class TaskWorkRequest:
    """Is there anything to do? It also confirms that all batches before `batch` are committed."""

    batch: int
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskPrepareRequest:
    """A batch will follow soon: import what it needs."""

    source: bool
    worker: WorkerContext


@dataclass(frozen=True, slots=True)
class TaskStopRequest:
    pass


@dataclass(frozen=True, slots=True)
class PackedRows:
    """An Arrow IPC stream: a schema, and one record batch."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task did in a batch. Offsets are cumulative, so a lost report does no harm."""

    task: int
    topics: tuple[str, ...] = ()
    records: int = 0
    consumed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Sinks: offsets that may be committed."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Sources: partition -> offset, as JSON; only for a worker that keeps them in a file."""

    def to_json(self) -> str:
        consumed = [
            [partition.topic, partition.partition, at] for partition, at in self.consumed.items()
        ]
        data = {"task": self.task, "topics": self.topics, "records": self.records}
        return json.dumps({**data, "consumed": consumed, "source": dict(self.source)})

    @staticmethod
    def from_json(text: str) -> TaskReport:
        data: dict[str, Any] = json.loads(text)
        consumed = {TopicPartition(topic, part): at for topic, part, at in data["consumed"]}
        return TaskReport(
            data["task"], tuple(data["topics"]), data["records"], consumed, data["source"]
        )


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A failed batch. `task` is None unless the connector's code failed."""

    task: int | None
    trace: str
