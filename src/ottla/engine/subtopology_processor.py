"""What a sub-topology does in the Spark worker that reads its records.

stateless           all of it runs here and returns rows for the sink
stateful            records go to the host of the task with their partition's number, which returns
                    rows for the sink
stateful, after a   the prefix runs here; its rows are packed for the tasks of their new keys
change of key
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa

from ottla.clock import SystemClock
from ottla.engine.packed_rows import chunk_input_rows, pack_chunk, pack_input_rows, pack_output_rows
from ottla.engine.records import InputRow
from ottla.engine.restore import InputOffsets, position_rows
from ottla.engine.subtopologies import Subtopology
from ottla.engine.task import PrefixTask, StreamTask
from ottla.engine.task_calls import TaskCalls, tick
from ottla.engine.task_plan import TaskPlan, self_contained_error
from ottla.rows.java.murmur2_columns import partitions_of
from ottla.spark.chunk_processor import Cell, ChunkProcessor
from ottla.spark.chunks import Chunk


def subtopology_processor(plan: TaskPlan, data: bytes) -> ChunkProcessor:
    """`data` is the pickled plan."""
    if not plan.subtopology.stateful:
        return _StatelessChunkProcessor(plan)
    return _ShuffleChunkProcessor(plan) if plan.shuffled else _HostedChunkProcessor(plan, data)


class _StatelessChunkProcessor:
    """Keeps its tasks, so a processor's `init` runs once per process and not once per batch."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._tasks: dict[int, StreamTask] = {}
        self._before = _PrefixTasks(plan)

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]:
        self._plan.begin_batch()
        used: set[int] = set()
        places: dict[tuple[str, int], int] = {}
        sent = False
        for chunk in chunks:
            places[chunk.topic, chunk.partition] = chunk.columns.offsets[-1].as_py() + 1
            found = self._before.rows(chunk)
            rows = {chunk.partition: chunk_input_rows(chunk)} if found is None else found
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

    def _cells(self, number: int, rows: Iterable[InputRow] | None) -> Iterator[Cell]:
        """Processes rows; None commits at the end of the batch."""
        try:
            task = self._task(number)
            sent = task.commit() if rows is None else task.process(rows)
        except Exception as error:
            self._tasks.clear()  # the batch is half done in them
            raise self_contained_error(error) from error
        return ((number, cell) for cell in pack_output_rows(sent)) if sent else iter(())

    def _positions(self, places: InputOffsets) -> Iterator[Cell]:
        """The input positions, written only with output: without output there is no transaction."""
        plan, now_ms = self._plan, SystemClock().now_ms()
        for place, offset in places.items():
            number = place[1] % plan.tasks
            rows = position_rows(plan.topic, {place: offset}, plan.first, now_ms, number)
            yield from ((number, cell) for cell in pack_output_rows(rows))

    def _task(self, number: int) -> StreamTask:
        if number not in self._tasks:
            self._tasks[number] = self._plan.task(number)
        return self._tasks[number]


class _HostedChunkProcessor:
    def __init__(self, plan: TaskPlan, data: bytes) -> None:
        self._plan = plan
        self._data = data

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]:
        cells: dict[int, list[bytes]] = defaultdict(list)
        for chunk in chunks:
            self._plan.check(chunk.partition)
            cells[chunk.partition].append(pack_chunk(chunk))
        with TaskCalls(self._data, self._plan.hosts, self._plan.folder) as calls:
            for number, rows in cells.items():
                yield from ((number, sent) for sent in calls.run(number, rows))


class _ShuffleChunkProcessor:
    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._before = _PrefixTasks(plan)

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]:
        self._plan.begin_batch()
        for chunk in chunks:
            found = self._before.rows(chunk)
            if found is None:
                yield self._plan.label(chunk.partition), pack_chunk(chunk)
                continue
            for number, rows in found.items():
                yield self._plan.label(number), pack_input_rows(rows)

    def tick(self, now_ms: int) -> Iterator[Cell]:
        """A tick for every task."""
        return ((label, tick(now_ms)) for label in self._plan.labels)


class _PrefixTasks:
    """The prefixes of a sub-topology, which run before the shuffle."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._tasks: dict[tuple[int, int], PrefixTask] = {}
        self._of: dict[str, list[int]] = {}

    def rows(self, chunk: Chunk) -> dict[int, list[InputRow]] | None:
        """Rows by task; None if no prefix reads the topic: the chunk goes to its task as is."""
        found = self._of.get(chunk.topic)
        if found is None:
            prefixes = self._plan.subtopology.prefixes
            found = [n for n, prefix in enumerate(prefixes) if _reads(prefix, chunk.topic)]
            self._of[chunk.topic] = found
        if not found:
            return None
        by_task: dict[int, list[InputRow]] = defaultdict(list)
        for number in found:
            rows = self._rekeyed(number, chunk)
            if rows:
                keys = pa.array([row.key for row in rows], pa.binary())
                for row, task in zip(rows, partitions_of(keys, self._plan.tasks), strict=True):
                    by_task[int(task)].append(row)
        return by_task

    def _rekeyed(self, number: int, chunk: Chunk) -> list[InputRow]:
        try:
            return self._prefix(number, chunk.partition).process(chunk_input_rows(chunk))
        except Exception as error:
            self._tasks.clear()
            raise self_contained_error(error) from error

    def _prefix(self, number: int, partition: int) -> PrefixTask:
        key = (number, partition)
        if key not in self._tasks:
            part = self._plan.subtopology.prefixes[number]
            self._tasks[key] = PrefixTask(self._plan.task(partition, part=part))
        return self._tasks[key]


def _reads(piece: Subtopology, topic: str) -> bool:
    return any(
        topic in source.topics or (source.pattern and re.fullmatch(source.pattern, topic))
        for source in piece.sources
    )
