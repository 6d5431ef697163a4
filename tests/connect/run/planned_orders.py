"""The orders of a batch, as the planner of a source's run makes them before any is served."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from ottla.connect.run.orders import Job, Order
from ottla.connect.run.planner import Part, SourceReader


@dataclass(frozen=True, slots=True)
class Planner:
    reader: SourceReader

    def orders(self, batch: int) -> list[Order]:
        parts = self.reader.partitions({"batch": batch}, {"batch": batch + 1})
        return [each.order for each in parts if isinstance(each, Part)]

    def close(self) -> None:
        self.reader.stop()


def planned(job: Job, batch: int) -> list[Order]:
    with closing(Planner(SourceReader(job))) as planner:
        return planner.orders(batch)
