"""TaskRun: runs a lowered query in this process, with its tasks and the topics between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from ottla.clock import Clock
from ottla.engine.cells import DictCells
from ottla.engine.failures import ExceptionHandler
from ottla.engine.graph import Graph, internal_topic
from ottla.engine.records import InputRow, OutputRow
from ottla.engine.subtopologies import Subtopology, subtopologies
from ottla.engine.task import PrefixTask, StreamTask
from ottla.rows.java.murmur2 import partition_of
from ottla.sql.lowering.copartitioning import check_copartitioning


class TaskRun:
    """All tasks of one query. `partitions_of` gives the partition count of a topic.

    Each record goes through all tasks that it affects before the next one is processed.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        partitions_of: Callable[[str], int],
        clock: Clock,
        on_failure: ExceptionHandler,
    ) -> None:
        self.name = name
        self._partitions_of = partitions_of
        self._clock = clock
        self._on_failure = on_failure
        check_copartitioning(graph, partitions_of)
        self._pieces = subtopologies(graph)
        self._tasks: dict[tuple[int, int], StreamTask] = {}
        self._prefixes: dict[int, list[StreamTask]] = {
            index: [self._task(prefix, 0) for prefix in piece.prefixes]
            for index, piece in enumerate(self._pieces)
        }
        self._counts = self._count()
        self._internal = {
            internal_topic(name, repartition.topic): index
            for index, piece in enumerate(self._pieces)
            for repartition in piece.repartitions
        }
        self._offsets: dict[tuple[str, int], int] = {}
        self.topics = frozenset(
            topic
            for piece in self._pieces
            for part in (piece, *piece.prefixes)
            for source in part.sources
            for topic in source.topics
        )

    def process(self, row: InputRow) -> list[OutputRow]:
        """Process one record of a topic, with all records that follow from it within the query."""
        waiting, sent = deque((row,)), []
        while waiting:
            now = waiting.popleft()
            for subtopology, task_number, rows in self._work(now):
                task = self._task_of(subtopology, task_number)
                for input_row in rows:
                    for made in (*task.process((input_row,)), *task.commit()):
                        if made.topic in self._internal:
                            waiting.append(self._arrived(made))
                        else:
                            sent.append(made)
        return sent

    def close(self) -> None:
        for task in self._tasks.values():
            task.close()

    def _work(self, row: InputRow) -> Iterable[tuple[int, int, list[InputRow]]]:
        """The tasks that process the record: subtopology, partition, rows."""
        if row.topic in self._internal:
            yield self._internal[row.topic], row.partition, [row]
            return
        for index, piece in enumerate(self._pieces):
            if any(row.topic in source.topics for source in piece.sources):
                yield index, row.partition, [row]
            for prefix in self._prefixes[index]:
                if prefix.reads(row.topic):
                    for prefixed in PrefixTask(prefix).process((row,)):
                        yield (
                            index,
                            self._partition_of(prefixed.key, self._counts[index]),
                            [prefixed],
                        )

    def _arrived(self, made: OutputRow) -> InputRow:
        count = self._counts[self._internal[made.topic]]
        partition = made.partition
        if partition is None:
            partition = self._partition_of(made.key, count)
        at = made.topic, partition
        offset = self._offsets.get(at, 0)
        self._offsets[at] = offset + 1
        topic, key, value, timestamp, headers, _ = made
        return InputRow(topic, partition, offset, timestamp, key, value, headers)

    @staticmethod
    def _partition_of(key: bytes | None, count: int) -> int:
        return 0 if key is None else partition_of(key, count)

    def _count(self) -> list[int]:
        """The partition counts of subtopologies: of their topics, else of those that write to
        them."""
        counts: list[int] = []
        for piece in self._pieces:
            parts = [piece, *piece.prefixes]
            topics = [topic for part in parts for source in part.sources for topic in source.topics]
            own = [topic for source in piece.sources for topic in source.topics]
            counts.append(max(map(self._partitions_of, own or topics), default=0))
        for _ in self._pieces:
            for index, piece in enumerate(self._pieces):
                if not counts[index]:
                    names = {repartition.name for repartition in piece.repartitions}
                    writers = [
                        counts[number]
                        for number, other in enumerate(self._pieces)
                        if any(node.name in names for node in other.rekeyed)
                    ]
                    counts[index] = max(writers, default=0)
        return [count or 1 for count in counts]

    def _task_of(self, subtopology: int, number: int) -> StreamTask:
        found = self._tasks.get((subtopology, number))
        if found is None:
            found = self._tasks[subtopology, number] = self._task(self._pieces[subtopology], number)
        return found

    def _task(self, piece: Subtopology, number: int) -> StreamTask:
        cells: dict[str, DictCells] = {}
        return StreamTask(
            piece,
            number,
            lambda name: cells.setdefault(name, DictCells()),
            self._clock,
            application_id=self.name,
            caching=False,
            on_failure=self._on_failure,
            partitions_of=self._partitions,
        )

    def _partitions(self, topic: str) -> int:
        if topic in self._internal:
            return self._counts[self._internal[topic]]
        return self._partitions_of(topic)
