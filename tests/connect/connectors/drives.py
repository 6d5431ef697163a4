"""Drives tasks as a worker does: polls them in a loop, and gives them records to put."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ottla.client.record import TopicPartition
from ottla.connect.api import SinkConnector, SinkTask, SourceConnector, SourceTask
from ottla.connect.data import Schema, SinkRecord, SourceRecord, Struct

PATIENCE_S = 240.0


class Context:
    """What a worker gives to connectors and to tasks of both kinds."""

    def __init__(self, configs: Mapping[str, str], offsets: dict[str, Any] | None = None) -> None:
        self.configs = dict(configs)
        self.committed = {} if offsets is None else offsets
        self.assignment: set[TopicPartition] = set()
        self.errant_record_reporter: Any = None
        self.timeouts: list[int] = []
        self.reconfigurations = 0

    def offset(self, partition: Any) -> Any:
        return self.committed.get(json.dumps(partition, sort_keys=True))

    def offsets(self, partitions: Collection[Mapping[str, Any]]) -> list[Any]:
        return [(partition, self.offset(partition)) for partition in partitions]

    def commit(self, records: Sequence[SourceRecord]) -> None:
        """Stores offsets as JSON, like a worker."""
        for record in records:
            key = json.dumps(record.source_partition, sort_keys=True)
            self.committed[key] = json.loads(json.dumps(record.source_offset))

    def timeout(self, timeout_ms: int) -> None:
        self.timeouts.append(timeout_ms)

    def request_commit(self) -> None: ...

    def request_task_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def raise_error(self, error: Exception) -> None:
        raise error

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...


class ErrantRecords:
    """An errant record reporter that tolerates everything."""

    def __init__(self) -> None:
        self.records: list[tuple[SinkRecord, Exception]] = []

    def report(self, record: SinkRecord, error: Exception) -> None:
        self.records.append((record, error))


class Source:
    """A source connector with its tasks. `take` polls until it has enough, and commits."""

    def __init__(
        self,
        connector: SourceConnector,
        config: Mapping[str, str],
        offsets: dict[str, Any] | None = None,
        tasks: int = 1,
    ) -> None:
        self.context = Context(config, offsets)
        self.connector = connector
        connector.context = self.context
        connector.start(config)
        self.configs = connector.task_configs(tasks)
        self.tasks: list[SourceTask] = []
        for task_config in self.configs:
            task = connector.task_class()
            assert isinstance(task, SourceTask)
            task.start(task_config, self.context)
            self.tasks.append(task)

    def poll(self) -> list[SourceRecord]:
        """One poll of each task, committed."""
        found: list[SourceRecord] = []
        for task in self.tasks:
            records = task.poll() or ()
            self.deliver(records)
            self.context.commit(records)
            for record in records:
                task.commit_record(record)
            task.commit()
            found += records
        return found

    def deliver(self, records: Sequence[SourceRecord]) -> None:
        """Override it to store the records."""

    def take(self, count: int) -> list[SourceRecord]:
        return self.until(lambda found: len(found) >= count)

    def until(self, enough: Callable[[list[SourceRecord]], bool]) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        deadline = time.monotonic() + PATIENCE_S
        while not enough(found):
            assert time.monotonic() < deadline, f"only {len(found)} records came"
            found += self.poll()
        return found

    def stop(self) -> dict[str, Any]:
        """Returns the offsets at which the next task resumes."""
        for task in self.tasks:
            task.stop()
        self.connector.stop()
        return self.context.committed

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class Sink:
    """A sink connector with one task."""

    def __init__(self, connector: SinkConnector, config: Mapping[str, str]) -> None:
        self.context = Context(config)
        connector.start(config)
        (props,) = connector.task_configs(1)
        task = connector.task_class()
        assert isinstance(task, SinkTask)
        self.task = task
        self.task.start(props, self.context)
        self.ends: dict[TopicPartition, int] = {}

    def put(self, *records: SinkRecord) -> None:
        partitions = {TopicPartition(r.topic, r.partition or 0) for r in records}
        new = partitions - self.context.assignment
        self.context.assignment |= partitions
        if new:
            self.task.open(new)
        self.task.put(records)
        for record in records:
            self.ends[TopicPartition(record.topic, record.partition or 0)] = record.offset + 1

    def commit(self) -> dict[TopicPartition, int]:
        return dict(self.task.pre_commit(self.ends))

    def stop(self) -> None:
        self.task.close(self.context.assignment)
        self.task.stop()

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def sink_record(
    schema: Schema | None,
    value: Any,
    offset: int = 0,
    *,
    topic: str = "orders",
    partition: int = 0,
    key_schema: Schema | None = None,
    key: Any = None,
    timestamp: int | None = None,
) -> SinkRecord:
    """A dict becomes a struct of its schema."""
    if isinstance(value, dict) and schema is not None:
        value = Struct(schema, value)
    if isinstance(key, dict) and key_schema is not None:
        key = Struct(key_schema, key)
    return SinkRecord(topic, partition, key_schema, key, schema, value, offset, timestamp)


def values(records: Sequence[SourceRecord]) -> list[dict[str, Any]]:
    return [dict(record.value) for record in records]
