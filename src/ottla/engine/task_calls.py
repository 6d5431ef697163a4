"""Rows on their way to the homes of their tasks, in Spark's workers: once in a batch for each task.

A task's rows come from where its partition is read (work.py), or through a shuffle (`step`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyspark import TaskContext

from ottla.engine.serdes import LONG
from ottla.engine.state_folder import joined
from ottla.engine.task_plan import TaskPlan
from ottla.engine.task_server import HostTrouble, TaskClient, home_of
from ottla.spark.sink.writers import BATCH_ID, QUERY_ID
from ottla.spark.work import pickled

STEPPED: Final = "rows binary"


class TaskCalls:
    """Calls of one Spark task, in one batch, to the hosts of our tasks.

    `plan` is a pickled TaskPlan, `homes` how many hosts there are; `folder` has the state of each
    query.
    """

    def __init__(self, plan: bytes, homes: int, folder: str) -> None:
        self._query, self._batch = _turn()
        self._folder = joined(folder, self._query)
        self._plan = plan
        self._count = homes
        self._homes: dict[int, TaskClient] = {}

    def run(self, task: int, cells: Sequence[bytes], now_ms: int | None = None) -> list[bytes]:
        which = task % self._count
        if which not in self._homes:
            self._homes[which] = home_of(f"{self._query}-{which}", self._plan)
        return self._homes[which].run(self._folder, self._batch, task, cells, now_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The homes stay; only our lines to them go."""
        for home in self._homes.values():
            home.close()


def _turn() -> tuple[str, int]:
    context = TaskContext.get()
    query = context and context.getLocalProperty(QUERY_ID)
    batch = context and context.getLocalProperty(BATCH_ID)
    if not query or not batch:
        raise HostTrouble("this is no batch of a streaming query of Spark's")
    return query, int(batch)


def tick(now_ms: int) -> bytes:
    """A cell that says what time it is. No other is as short: they are streams of Arrow's."""
    return LONG.pack(now_ms)


def step(plan: TaskPlan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What runs behind the shuffle; it is pickled whole, so it is small."""
    data, tasks, homes, folder = pickled(plan), plan.tasks, plan.homes, plan.folder

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        from ottla.engine.task_calls import TaskCalls, stepped

        return stepped(batches, tasks, TaskCalls(data, homes, folder))

    return run


def stepped(batches: Iterable[Any], tasks: int, visits: TaskCalls) -> Iterator[Any]:
    """Cells and ticks of tasks, by their labels."""
    cells: dict[int, list[bytes]] = defaultdict(list)
    times: dict[int, int] = {}
    for batch in batches:
        labels, rows = (each.to_pylist() for each in batch.columns)
        for label, row in zip(labels, rows, strict=True):
            if len(row) == LONG.size:
                (times[label % tasks],) = LONG.unpack(row)
            else:
                cells[label % tasks].append(row)
    with visits:
        for task in sorted({*cells, *times}):
            sent = visits.run(task, cells[task], times.get(task))
            if sent:
                yield pa.RecordBatch.from_pydict({"rows": pa.array(sent, pa.binary())})
