"""The plan of a sub-topology that travels to its hosts and workers; it does not refer to Spark."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.delivery import Setting
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.clock import SystemClock
from ottla.engine.cells import Cells, DictCells
from ottla.engine.failures import ExceptionHandler, Failure, FailureKind, StreamsError, fail
from ottla.engine.global_tables import global_store, refresh_global_tables
from ottla.engine.records import OutputRow
from ottla.engine.restore import ChangelogReader, EndOffsets, tasks_topic
from ottla.engine.state_file import CellChange
from ottla.engine.subtopologies import Subtopology
from ottla.engine.task import StreamTask

# A batch allocates hundreds of thousands of tuples and no cycles: with the default threshold of 700
# the collector took a quarter of the time of a stateless chain.
COLLECT_AFTER: Final = (100_000, 50, 100)
MEMORY_BYTES_MAX: Final = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """`tasks` is their number: the largest partition count of the sub-topology's inputs."""

    subtopology: Subtopology
    application_id: str
    tasks: int
    servers: str
    labels: tuple[int, ...] = ()
    """The tasks' labels in the shuffle (labels.py)."""
    hosts: int = 1
    """The number of host processes for stateful tasks."""
    folder: str = ""
    """The folder of their state files."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    caching: bool = True
    on_failure: Mapping[FailureKind, ExceptionHandler] = field(default_factory=dict)
    first: int = 0
    """The number of the checkpoint's first batch; later checkpoints have larger numbers."""
    restored: EndOffsets = field(default_factory=dict)
    """The changelog ends up to which tasks without state files are restored."""
    memory_bytes_max: int = MEMORY_BYTES_MAX
    """An approximate limit for all stores on one machine; beyond it stores are on disk."""
    local_folder: str = ""
    """The folder on that disk; empty: the folder for temporary files."""

    @property
    def topic(self) -> str:
        """The changelog of the task's own cells and of unnamed stores."""
        return tasks_topic(self.application_id, self.subtopology.number)

    @property
    def shuffled(self) -> bool:
        """True if rows reach their tasks through a shuffle: they have new keys, or every task gets
        ticks. Otherwise the worker that reads a partition calls its task."""
        return bool(self.subtopology.prefixes) or self.subtopology.custom

    def restored_cells(self, number: int) -> Iterable[CellChange]:
        if not self.restored:
            return ()
        where = (self.application_id, self.servers, self.settings)
        return ChangelogReader(self.subtopology, *where).cells(self.restored, number)

    def task(
        self,
        number: int,
        open_cells: Callable[[str], Cells] | None = None,
        *,
        part: Subtopology | None = None,
    ) -> StreamTask:
        """A task of the sub-topology, or of one of its prefixes."""
        piece = part or self.subtopology
        return StreamTask(
            piece,
            number,
            open_cells or (lambda _: DictCells()),
            SystemClock(),
            application_id=self.application_id,
            caching=self.caching,
            on_failure=self._failed,
            guarded=FailureKind.PROCESSING in self.on_failure,
            partitions_of=PartitionCounts(self.servers, self.settings),
            global_stores={
                name: global_store(table, self.servers, self.settings)
                for name, table in piece.globals.items()
            },
        )

    def label(self, number: int) -> int:
        self.check(number)
        return self.labels[number]

    def check(self, number: int) -> None:
        """Raises StreamsError if there is no task for a partition of this number."""
        if number >= self.tasks:
            raise StreamsError(
                f"A topic of the application now has {number + 1} partitions; it had {self.tasks}"
                " at the application's first start. Run 'kafka-streams-application-reset' and"
                " start the application again."
            )

    def begin_batch(self) -> None:
        """Call before the first row: updates global tables to the ends of their topics."""
        gc.set_threshold(*COLLECT_AFTER)
        for piece in (self.subtopology, *self.subtopology.prefixes):
            refresh_global_tables(piece.globals.values(), self.servers, self.settings)

    def _failed(self, failure: Failure) -> Iterable[OutputRow]:
        return self.on_failure.get(failure.kind, fail)(failure)


class PartitionCounts:
    """The partition counts of topics, fetched once each."""

    def __init__(self, servers: str, settings: Mapping[str, Setting]) -> None:
        self._where = (servers, settings)
        self._known: dict[str, int] = {}

    def __call__(self, topic: str) -> int:
        if topic not in self._known:
            cluster = ClusterClient(*self._where, make_topics=True)
            try:
                found = cluster.with_retries(lambda: cluster.topic(topic))
                self._known[topic] = len(found.leaders)
            finally:
                cluster.close()
        return self._known[topic]


def self_contained_error(error: BaseException) -> StreamsError:
    """An error with its cause in the message, because the chain does not cross processes."""
    cause = error.__cause__
    words = f"{error}" if isinstance(error, StreamsError) else f"{type(error).__name__}: {error}"
    if isinstance(error, StreamsError) and cause is not None:
        words += f": {type(cause).__name__}: {cause}"
    return StreamsError(words)
