"""Connectors for tests: a source of numbers, and a sink to files. Found by `plugin.path`."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ottla.client.record import TopicPartition
from ottla.connect.api import (
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.data import SinkRecord, SourceRecord
from ottla.connect.errors import ConnectException, RetriableException

Props = Mapping[str, str]


class NumbersTask(SourceTask):
    """0, 1, 2, ... up to `numbers`, in polls of `at.once`."""

    def start(self, props: Props, context: SourceTaskContext) -> None:
        self._props = props
        self._id = props["id"]
        offset = context.offset({"id": self._id})
        self._next = int(offset["next"]) if offset else 0
        note(props, f"start {self._id} {self._next}")
        note(props, f"process {self._id} {os.getpid()}")

    def poll(self) -> list[SourceRecord] | None:
        limit = int(self._props["numbers"])
        time.sleep(int(self._props.get("pause.ms", "0")) / 1000)
        end = min(self._next + int(self._props.get("at.once", "10")), limit)
        if self._props.get(f"fail.at.{self._id}") == str(self._next):
            raise ConnectException(f"task {self._id} does not like {self._next}")
        records = [self._record(number) for number in range(self._next, end)]
        self._next = end
        return records or None

    def commit(self) -> None:
        note(self._props, f"commit {self._id}")

    def stop(self) -> None:
        note(self._props, f"stop {self._id}")

    def _record(self, number: int) -> SourceRecord:
        return SourceRecord(
            {"id": self._id},
            {"next": number + 1},
            self._props["topic"],
            key=self._id,
            value=f"{self._id}:{number}",
        )


class Numbers(SourceConnector):
    task_class = NumbersTask

    def start(self, props: Props) -> None:
        self._props = dict(props)
        if "refuse" in props:
            raise ConnectException("this connector does not start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._props, "id": str(number)} for number in range(max_tasks)]

    def alter_offsets(self, props: Props, offsets: object) -> bool:
        return True


class LinesTask(SinkTask):
    """Each instance of a task writes its own file; `hold` delays records."""

    def start(self, props: Props, context: SinkTaskContext) -> None:
        self._props = props
        self._context = context
        self._file = Path(props["directory"]) / f"{os.getpid()}-{time.monotonic_ns()}"
        self._held: list[SinkRecord] = []
        self._tried = False

    def open(self, partitions: Collection[TopicPartition]) -> None:
        note(self._props, f"open {len(partitions)}")

    def close(self, partitions: Collection[TopicPartition]) -> None:
        note(self._props, f"close {len(partitions)}")

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records and "retry" in self._props and not self._tried:
            self._tried = True
            raise RetriableException("not now")
        for record in records:
            if record.value == self._props.get("poison"):
                raise ConnectException(f"{record.value} is poison")
            if record.value == self._props.get("errant"):
                reporter = self._context.errant_record_reporter
                assert reporter is not None
                reporter.report(record, ConnectException("errant"))
            else:
                self._held.append(record)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        hold = int(self._props.get("hold", "0"))
        if len(self._held) < hold:
            first: dict[TopicPartition, int] = dict(offsets)
            for record in reversed(self._held):
                assert record.original_partition is not None
                where = TopicPartition(record.original_topic, record.original_partition)
                first[where] = record.original_offset
            return first
        with self._file.open("a") as file:
            for record in self._held:
                file.write(f"{record.value}\n")
        self._held.clear()
        return offsets


class Lines(SinkConnector):
    task_class = LinesTask

    def start(self, props: Props) -> None:
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._props) for _ in range(max_tasks)]


def note(props: Props, what: str) -> None:
    """One line at a time: several processes write."""
    if "notes" in props:
        with Path(props["notes"]).open("a") as file:
            file.write(what + "\n")
