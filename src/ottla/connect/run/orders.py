"""What the driver, Spark's workers and the hosts of tasks tell each other. Plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.client.protocol.fetching import Range
from ottla.client.record import TopicPartition
from ottla.connect.run.worker import Worker


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a connector's query: from a start to a stop, or to a failure."""

    name: str
    run: str
    source: bool
    task_class: str
    """`module:Class`."""
    config: Mapping[str, str]
    worker: Worker
    tasks: Sequence[tuple[int, Mapping[str, str]]]
    """Those that run: number and config. Their places here are Spark's partitions."""
    exactly_once: bool = False
    first_batch: int = 0
    """What the sink calls the batch that is Spark's batch 0."""
    local: bool = True
    """Driver and tasks are on one machine: the driver can ask the tasks' hosts."""
    idle_s: float = 0.1
    process: int = 0
    """Of the worker, if its tasks are on the same machine: they take its standard streams."""

    @property
    def group(self) -> str:
        """Of a sink connector: where its offsets are."""
        return group_of(self.name, self.config)

    @property
    def query(self) -> str:
        return query_of(self.name, self.worker)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        data = json.loads(text)
        worker = Worker(**data.pop("worker"))
        tasks = [(number, config) for number, config in data.pop("tasks")]
        return Job(worker=worker, tasks=tasks, **data)


def group_of(name: str, config: Mapping[str, str]) -> str:
    return config.get("consumer.override.group.id") or f"connect-{name}"


def query_of(name: str, worker: Worker) -> str:
    """By it the sink knows a source connector again, and a group a sink connector, whichever
    worker runs it."""
    cluster = worker.properties.get("group.id") or "standalone"
    return f"connect-{_short(cluster)}-{_short(name)}"


def _short(name: str) -> str:
    """Letters that an id may have; names that lose some get a number, so that they differ."""
    import re
    import zlib

    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:32]
    return plain if plain == name else f"{plain}.{zlib.crc32(name.encode()):08x}"


@dataclass(frozen=True, slots=True)
class Order:
    """A task's share of one batch."""

    job: Job
    place: int
    """Among the tasks that run, and Spark's number of the partition."""
    batch: int
    attempt: int
    ranges: Sequence[Range] = ()
    """Sinks: all partitions that the task has, with what is to be read of each, or nothing.
    Sources: what was in the offsets topic before the batch."""

    @property
    def task(self) -> int:
        return self.job.tasks[self.place][0]

    @property
    def props(self) -> Mapping[str, str]:
        return self.job.tasks[self.place][1]


@dataclass(frozen=True, slots=True)
class Ask:
    """Is there anything to do? All batches before `batch` are done."""

    batch: int
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Prepare:
    """An order will come soon."""

    source: bool
    worker: Worker


@dataclass(frozen=True, slots=True)
class Stop:
    pass


@dataclass(frozen=True, slots=True)
class Rows:
    """Arrow's bytes: a schema, and one batch."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """What a task has done in a batch. Offsets are all that it knows of, not only the new ones."""

    task: int
    topics: tuple[str, ...] = ()
    records: int = 0
    consumed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Sinks: what may be committed."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Sources: partition -> offset, as JSON, where a worker keeps them in a file."""

    def to_json(self) -> str:
        consumed = [[each.topic, each.partition, at] for each, at in self.consumed.items()]
        data = {"task": self.task, "topics": self.topics, "records": self.records}
        return json.dumps({**data, "consumed": consumed, "source": dict(self.source)})

    @staticmethod
    def from_json(text: str) -> Report:
        data: dict[str, Any] = json.loads(text)
        consumed = {TopicPartition(topic, part): at for topic, part, at in data["consumed"]}
        return Report(
            data["task"], tuple(data["topics"]), data["records"], consumed, data["source"]
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch that failed. `task` is None where it is not the connector's fault."""

    task: int | None
    trace: str
