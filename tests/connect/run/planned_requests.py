"""The requests of a batch, as the stream reader of a source plans them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from ottla.connect.run.datasource import SourceStreamReader, TaskInputPartition
from ottla.connect.run.task_requests import ConnectorJob, TaskBatchRequest


@dataclass(frozen=True, slots=True)
class Planner:
    reader: SourceStreamReader

    def orders(self, batch: int) -> list[TaskBatchRequest]:
        parts = self.reader.partitions({"batch": batch}, {"batch": batch + 1})
        return [part.request for part in parts if isinstance(part, TaskInputPartition)]

    def close(self) -> None:
        self.reader.stop()


def planned(job: ConnectorJob, batch: int) -> list[TaskBatchRequest]:
    with closing(Planner(SourceStreamReader(job))) as planner:
        return planner.orders(batch)
