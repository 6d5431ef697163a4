"""What a sub-topology does where its records are read.

no state            the whole of it: what comes out are rows for the sink
state               records go to the home of the task that has their partition's number; what
                    comes back are rows for the sink
state, behind a     the prefix runs here; its rows are packed for the task that their new key
change of key       belongs to
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa

from ottla.clock import SystemClock
from ottla.engine.packed_rows import chunk_inputs, chunk_rows, input_rows, output_rows
from ottla.engine.records import Input
from ottla.engine.restore import Places, position_rows
from ottla.engine.subtopologies import SubTopology
from ottla.engine.task import Prefixed, Task
from ottla.engine.task_calls import TaskCalls, tick
from ottla.engine.task_plan import TaskPlan, told
from ottla.rows.java.murmur2_columns import partitions_of
from ottla.spark.reading import Chunk
from ottla.spark.work import Cell, Work


def work(plan: TaskPlan, data: bytes) -> Work:
    """`data` is the plan, pickled."""
    if not plan.subtopology.stateful:
        return _Stateless(plan)
    return _Shuffled(plan) if plan.shuffled else _AtHome(plan, data)


class _Stateless:
    """Tasks are kept: a processor's `init` is called once in a process, not once in a batch."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._tasks: dict[int, Task] = {}
        self._before = _Prefixes(plan)

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]:
        self._plan.begin_batch()
        used: set[int] = set()
        places: dict[tuple[str, int], int] = {}
        sent = False
        for chunk in chunks:
            places[chunk.topic, chunk.partition] = chunk.columns.offsets[-1].as_py() + 1
            found = self._before.rows(chunk)
            rows = {chunk.partition: chunk_inputs(chunk)} if found is None else found
            for number, some in rows.items():
                used.add(number)
                for cell in self._cells(number, some):
                    sent = True
                    yield cell
        for number in used:
            for cell in self._cells(number, None):
                sent = True
                yield cell
        if sent:
            yield from self._positions(places)

    def _cells(self, number: int, rows: Iterable[Input] | None) -> Iterator[Cell]:
        """None: the batch is over."""
        try:
            task = self._task(number)
            sent = task.commit() if rows is None else task.process(rows)
        except Exception as error:
            self._tasks.clear()  # they are somewhere in the middle
            raise told(error) from error
        return ((number, cell) for cell in output_rows(sent)) if sent else iter(())

    def _positions(self, places: Places) -> Iterator[Cell]:
        """How far it has come, beside what came of it. (Nothing came of it: no transaction.)"""
        plan, now_ms = self._plan, SystemClock().now_ms()
        for place, offset in places.items():
            number = place[1] % plan.tasks
            rows = position_rows(plan.topic, {place: offset}, plan.first, now_ms, number)
            yield from ((number, cell) for cell in output_rows(rows))

    def _task(self, number: int) -> Task:
        if number not in self._tasks:
            self._tasks[number] = self._plan.task(number)
        return self._tasks[number]


class _AtHome:
    def __init__(self, plan: TaskPlan, data: bytes) -> None:
        self._plan = plan
        self._data = data

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]:
        cells: dict[int, list[bytes]] = defaultdict(list)
        for chunk in chunks:
            self._plan.check(chunk.partition)
            cells[chunk.partition].append(chunk_rows(chunk))
        with TaskCalls(self._data, self._plan.homes, self._plan.folder) as visits:
            for number, rows in cells.items():
                yield from ((number, sent) for sent in visits.run(number, rows))


class _Shuffled:
    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._before = _Prefixes(plan)

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]:
        self._plan.begin_batch()
        for chunk in chunks:
            found = self._before.rows(chunk)
            if found is None:
                yield self._plan.label(chunk.partition), chunk_rows(chunk)
                continue
            for number, rows in found.items():
                yield self._plan.label(number), input_rows(rows)

    def tick(self, now_ms: int) -> Iterator[Cell]:
        """All tasks hear of it."""
        return ((label, tick(now_ms)) for label in self._plan.labels)


class _Prefixes:
    """The parts of a sub-topology that stand before the shuffle."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._tasks: dict[tuple[int, int], Prefixed] = {}
        self._of: dict[str, list[int]] = {}

    def rows(self, chunk: Chunk) -> dict[int, list[Input]] | None:
        """By task; None if the chunk goes to its task as it is."""
        found = self._of.get(chunk.topic)
        if found is None:
            prefixes = self._plan.subtopology.prefixes
            found = [n for n, each in enumerate(prefixes) if _reads(each, chunk.topic)]
            self._of[chunk.topic] = found
        if not found:
            return None
        by_task: dict[int, list[Input]] = defaultdict(list)
        for number in found:
            rows = self._rekeyed(number, chunk)
            if rows:
                keys = pa.array([each.key for each in rows], pa.binary())
                for row, task in zip(rows, partitions_of(keys, self._plan.tasks), strict=True):
                    by_task[int(task)].append(row)
        return by_task

    def _rekeyed(self, number: int, chunk: Chunk) -> list[Input]:
        try:
            return self._prefix(number, chunk.partition).process(chunk_inputs(chunk))
        except Exception as error:
            self._tasks.clear()
            raise told(error) from error

    def _prefix(self, number: int, partition: int) -> Prefixed:
        key = (number, partition)
        if key not in self._tasks:
            part = self._plan.subtopology.prefixes[number]
            self._tasks[key] = Prefixed(self._plan.task(partition, part=part))
        return self._tasks[key]


def _reads(piece: SubTopology, topic: str) -> bool:
    return any(
        topic in each.topics or (each.pattern and re.fullmatch(each.pattern, topic))
        for each in piece.sources
    )
