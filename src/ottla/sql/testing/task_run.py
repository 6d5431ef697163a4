"""A lowered query at work in this process: its tasks, and the topics between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from ottla.clock import Clock
from ottla.engine.cells import DictCells
from ottla.engine.failures import OnFailure
from ottla.engine.graph import Graph, internal_topic
from ottla.engine.records import Input, Output
from ottla.engine.subtopologies import SubTopology, subtopologies
from ottla.engine.task import Prefixed, Task
from ottla.rows.java.murmur2 import partition_of
from ottla.sql.lowering.copartitioning import check_copartitioned


class TaskRun:
    """All tasks of one query. `partitions_of` tells how many partitions a topic has.

    A record goes through every task that it has to do with before the next one comes.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        partitions_of: Callable[[str], int],
        clock: Clock,
        on_failure: OnFailure,
    ) -> None:
        self.name = name
        self._partitions_of = partitions_of
        self._clock = clock
        self._on_failure = on_failure
        check_copartitioned(graph, partitions_of)
        self._pieces = subtopologies(graph)
        self._tasks: dict[tuple[int, int], Task] = {}
        self._prefixes: dict[int, list[Task]] = {
            place: [self._task(each, 0) for each in piece.prefixes]
            for place, piece in enumerate(self._pieces)
        }
        self._counts = self._count()
        self._internal = {
            internal_topic(name, each.topic): place
            for place, piece in enumerate(self._pieces)
            for each in piece.repartitions
        }
        self._offsets: dict[tuple[str, int], int] = {}
        self.topics = frozenset(
            topic
            for piece in self._pieces
            for part in (piece, *piece.prefixes)
            for source in part.sources
            for topic in source.topics
        )

    def process(self, row: Input) -> list[Output]:
        """One record of a topic, and all that follows from it inside of the query."""
        waiting, sent = deque((row,)), []
        while waiting:
            now = waiting.popleft()
            for place, task_number, rows in self._work(now):
                task = self._task_of(place, task_number)
                for each in rows:
                    for made in (*task.process((each,)), *task.commit()):
                        if made.topic in self._internal:
                            waiting.append(self._arrived(made))
                        else:
                            sent.append(made)
        return sent

    def close(self) -> None:
        for task in self._tasks.values():
            task.close()

    def _work(self, row: Input) -> Iterable[tuple[int, int, list[Input]]]:
        """Which tasks take rows of it: piece, partition, rows."""
        if row.topic in self._internal:
            yield self._internal[row.topic], row.partition, [row]
            return
        for place, piece in enumerate(self._pieces):
            if any(row.topic in each.topics for each in piece.sources):
                yield place, row.partition, [row]
            for prefix in self._prefixes[place]:
                if prefix.reads(row.topic):
                    for each in Prefixed(prefix).process((row,)):
                        yield place, self._place(each.key, self._counts[place]), [each]

    def _arrived(self, made: Output) -> Input:
        count = self._counts[self._internal[made.topic]]
        partition = made.partition
        if partition is None:
            partition = self._place(made.key, count)
        at = made.topic, partition
        offset = self._offsets.get(at, 0)
        self._offsets[at] = offset + 1
        topic, key, value, timestamp, headers, _ = made
        return Input(topic, partition, offset, timestamp, key, value, headers)

    @staticmethod
    def _place(key: bytes | None, count: int) -> int:
        return 0 if key is None else partition_of(key, count)

    def _count(self) -> list[int]:
        """Partitions of each piece: those of its topics, else those of whoever writes to it."""
        counts: list[int] = []
        for piece in self._pieces:
            parts = [piece, *piece.prefixes]
            topics = [topic for part in parts for each in part.sources for topic in each.topics]
            own = [topic for each in piece.sources for topic in each.topics]
            counts.append(max(map(self._partitions_of, own or topics), default=0))
        for _ in self._pieces:
            for place, piece in enumerate(self._pieces):
                if not counts[place]:
                    names = {each.name for each in piece.repartitions}
                    writers = [
                        counts[number]
                        for number, other in enumerate(self._pieces)
                        if any(each.name in names for each in other.rekeyed)
                    ]
                    counts[place] = max(writers, default=0)
        return [each or 1 for each in counts]

    def _task_of(self, place: int, number: int) -> Task:
        found = self._tasks.get((place, number))
        if found is None:
            found = self._tasks[place, number] = self._task(self._pieces[place], number)
        return found

    def _task(self, piece: SubTopology, number: int) -> Task:
        cells: dict[str, DictCells] = {}
        return Task(
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
