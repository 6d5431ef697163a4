"""Sends rows from Spark's workers to the hosts of their tasks, once per task and batch.

A task's rows come from the worker that reads its partition, or through a shuffle
(`run_tasks`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyspark import TaskContext

from ottla.engine.state_folder import joined
from ottla.engine.task_plan import TaskPlan
from ottla.engine.task_server import HostFault, TaskClient, connect_to_task_host
from ottla.engine.windowed_serdes import LONG
from ottla.spark.chunk_processor import pickled
from ottla.spark.sink.writers import BATCH_ID, QUERY_ID

RESULT_SCHEMA: Final = "rows binary"


class TaskCalls:
    """The calls of one Spark task, in one batch, to the hosts of stream tasks.

    `plan` is a pickled TaskPlan, `hosts` the number of hosts, `folder` the parent of all queries'
    state folders.
    """

    def __init__(self, plan: bytes, hosts: int, folder: str) -> None:
        self._query, self._batch = _query_and_batch()
        self._folder = joined(folder, self._query)
        self._plan = plan
        self._count = hosts
        self._hosts: dict[int, TaskClient] = {}

    def run(self, task: int, cells: Sequence[bytes], now_ms: int | None = None) -> list[bytes]:
        which = task % self._count
        if which not in self._hosts:
            self._hosts[which] = connect_to_task_host(f"{self._query}-{which}", self._plan)
        return self._hosts[which].run(self._folder, self._batch, task, cells, now_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connections; the hosts keep running."""
        for client in self._hosts.values():
            client.close()


def _query_and_batch() -> tuple[str, int]:
    context = TaskContext.get()
    query = context and context.getLocalProperty(QUERY_ID)
    batch = context and context.getLocalProperty(BATCH_ID)
    if not query or not batch:
        raise HostFault("not in a micro-batch of a Spark streaming query")
    return query, int(batch)


def tick(now_ms: int) -> bytes:
    """A cell with the wall-clock time. Its size identifies it: Arrow streams are longer."""
    return LONG.pack(now_ms)


def run_tasks(plan: TaskPlan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function that runs after the shuffle; it is small because it is pickled by value."""
    data, tasks, hosts, folder = pickled(plan), plan.tasks, plan.hosts, plan.folder

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        from ottla.engine.task_calls import TaskCalls, task_results

        return task_results(batches, tasks, TaskCalls(data, hosts, folder))

    return run


def task_results(batches: Iterable[Any], tasks: int, calls: TaskCalls) -> Iterator[Any]:
    """Runs each task with its cells and ticks, which arrive by the tasks' labels."""
    cells: dict[int, list[bytes]] = defaultdict(list)
    times: dict[int, int] = {}
    for batch in batches:
        labels, rows = (column.to_pylist() for column in batch.columns)
        for label, row in zip(labels, rows, strict=True):
            if len(row) == LONG.size:
                (times[label % tasks],) = LONG.unpack(row)
            else:
                cells[label % tasks].append(row)
    with calls:
        for task in sorted({*cells, *times}):
            sent = calls.run(task, cells[task], times.get(task))
            if sent:
                yield pa.RecordBatch.from_pydict({"rows": pa.array(sent, pa.binary())})
