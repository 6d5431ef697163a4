"""What travels to the processes that run a sub-topology: all they need, and nothing of Spark."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.delivery import Setting
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.clock import SystemClock
from ottla.engine.cells import Cells, DictCells
from ottla.engine.failures import Failure, FailureKind, OnFailure, StreamsError, fail
from ottla.engine.global_tables import global_store, refresh
from ottla.engine.records import Output
from ottla.engine.restore import Ends, Topics, tasks_topic
from ottla.engine.state_file import Change
from ottla.engine.subtopologies import SubTopology
from ottla.engine.task import Task

# A batch makes tuples by the hundred thousand and no cycles: looking for these after every 700
# took a quarter of the time of a stateless chain.
COLLECT_AFTER: Final = (100_000, 50, 100)
MEMORY_BYTES_MAX: Final = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """`tasks` is how many there are: the number of partitions of what the sub-topology reads."""

    subtopology: SubTopology
    application_id: str
    tasks: int
    servers: str
    labels: tuple[int, ...] = ()
    """What tasks are called in the shuffle (labels.py)."""
    homes: int = 1
    """In how many processes tasks with state are at home."""
    folder: str = ""
    """Where their state is."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    caching: bool = True
    on_failure: Mapping[FailureKind, OnFailure] = field(default_factory=dict)
    first: int = 0
    """The number of the first batch of its checkpoint: those of later ones are larger."""
    restored: Ends = field(default_factory=dict)
    """Where the topics ended from which tasks are restored that have no state yet."""
    memory_bytes_max: int = MEMORY_BYTES_MAX
    """Of all stores on one machine, about: what is more is on its disk."""
    local_folder: str = ""
    """Where on that disk; empty: where temporary files are."""

    @property
    def topic(self) -> str:
        """Where tasks keep what nobody else keeps."""
        return tasks_topic(self.application_id, self.subtopology.number)

    @property
    def shuffled(self) -> bool:
        """Rows change places on their way to their tasks: they have new keys, or all tasks are to
        hear of the clock. Others are run where their partition is read."""
        return bool(self.subtopology.prefixes) or self.subtopology.custom

    def restored_cells(self, number: int) -> Iterable[Change]:
        if not self.restored:
            return ()
        where = (self.application_id, self.servers, self.settings)
        return Topics(self.subtopology, *where).cells(self.restored, number)

    def task(
        self,
        number: int,
        open_cells: Callable[[str], Cells] | None = None,
        *,
        part: SubTopology | None = None,
    ) -> Task:
        """Of the sub-topology, or of a part of it that stands before the shuffle."""
        piece = part or self.subtopology
        return Task(
            piece,
            number,
            open_cells or (lambda _: DictCells()),
            SystemClock(),
            application_id=self.application_id,
            caching=self.caching,
            on_failure=self._failed,
            guarded=FailureKind.PROCESSING in self.on_failure,
            partitions_of=Partitions(self.servers, self.settings),
            global_stores={
                name: global_store(table, self.servers, self.settings)
                for name, table in piece.globals.items()
            },
        )

    def label(self, number: int) -> int:
        self.check(number)
        return self.labels[number]

    def check(self, number: int) -> None:
        """That there is a task for a partition of this number."""
        if number >= self.tasks:
            raise StreamsError(
                f"A topic of the application has got more partitions: {number + 1}, and"
                f" {self.tasks} when it started first. Use 'kafka-streams-application-reset', and"
                " start it anew."
            )

    def begin_batch(self) -> None:
        """Before the first row: global tables have what there is now."""
        gc.set_threshold(*COLLECT_AFTER)
        for piece in (self.subtopology, *self.subtopology.prefixes):
            refresh(piece.globals.values(), self.servers, self.settings)

    def _failed(self, failure: Failure) -> Iterable[Output]:
        return self.on_failure.get(failure.kind, fail)(failure)


class Partitions:
    """How many partitions a topic has; asked for once."""

    def __init__(self, servers: str, settings: Mapping[str, Setting]) -> None:
        self._where = (servers, settings)
        self._known: dict[str, int] = {}

    def __call__(self, topic: str) -> int:
        if topic not in self._known:
            cluster = ClusterClient(*self._where, make_topics=True)
            try:
                found = cluster.patiently(lambda: cluster.topic(topic))
                self._known[topic] = len(found.leaders)
            finally:
                cluster.close()
        return self._known[topic]


def told(error: BaseException) -> StreamsError:
    """With the cause in the same words: what comes from another process has nothing chained."""
    cause = error.__cause__
    words = f"{error}" if isinstance(error, StreamsError) else f"{type(error).__name__}: {error}"
    if isinstance(error, StreamsError) and cause is not None:
        words += f": {type(cause).__name__}: {cause}"
    return StreamsError(words)
