"""The Processor API: what a node of a topology does with a record, and what its context offers.

    class Total(Processor[str, int]):
        def init(self, context: Context) -> None:
            super().init(context)
            self.totals = context.store("totals")

        def process(self, record: Record[str, int]) -> None:
            total = (self.totals.get(record.key) or 0) + record.value
            self.totals.put(record.key, total)
            self.context.forward(record.with_value(total))

Every operation of the DSL is such a processor. An instance belongs to one task and one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from ottla.engine.record_batch import DeliverBatch
from ottla.engine.records import AnyRecord, Record, RecordMetadata
from ottla.engine.serde_config import SerdeConfig

K = TypeVar("K")
V = TypeVar("V")

Deliver = Callable[[AnyRecord], None]


class PunctuationType(Enum):
    STREAM_TIME = "STREAM_TIME"
    WALL_CLOCK_TIME = "WALL_CLOCK_TIME"


class Processor(Generic[K, V]):
    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record[K, V]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called when the task closes."""

    def step(self, downstream: Deliver) -> Deliver:
        """The callable that a task runs per record. (Stateless operations return a faster one.)"""
        return self.process

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        """`step` for many records of one source at once; None if there is no such step.

        It must do what `step` does for one record after the other. It may only read stores until
        `downstream` has returned, and must not raise afterwards, because nodes downstream may have
        changed theirs. If it raises before, the task takes back what was sent and processes the
        records one by one.
        """
        return None


@dataclass(slots=True, eq=False)
class Cancellable:
    """A scheduled punctuation, which can be cancelled."""

    node: str
    place: int
    interval_ms: int
    kind: PunctuationType
    callback: Callable[[int], None]
    next_ms: int
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class ContextTask(Protocol):
    """The task as its contexts see it."""

    application_id: str
    task_id: str
    stream_time: int
    caching: bool
    numbers: dict[str, int]
    serdes: SerdeConfig

    def store(self, name: str) -> Any: ...

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None]
    ) -> Cancellable: ...

    def wall_clock_time(self) -> int: ...

    def record_metadata(self) -> RecordMetadata | None: ...

    def request_commit(self) -> None: ...

    def on_commit(self, node: str, flush: Callable[[], None]) -> None: ...


class ProcessorContext:
    """What a task offers to one of its nodes.

    `downstream` forwards to all children as one callable: a node that forwards every record takes
    it once in `init` and saves a look-up and a call per record.
    """

    def __init__(
        self,
        host: ContextTask,
        node: str,
        *,
        children: Mapping[str, Deliver],
        stores: frozenset[str],
    ) -> None:
        self._host = host
        self._children = children
        self._stores = stores
        self.node = node
        self.application_id = host.application_id
        self.task_id = host.task_id
        self.serdes = host.serdes
        """Configures serdes that a node holds with the application's settings."""
        self.numbers = host.numbers
        """Numbers that nodes remember besides their stores, by names of their choice."""
        self.downstream: Deliver = to_all(tuple(children.values()))

    def forward(self, record: AnyRecord, child: str | None = None) -> None:
        if child is None:
            self.downstream(record)
            return
        deliver = self._children.get(child)
        if deliver is None:
            raise ValueError(f"Unknown downstream node: {child} of {self.node}")
        deliver(record)

    def limited(self, forward: Callable[..., None]) -> ProcessorContext:
        """This context with another `forward`, for a processor wrapped in a processor."""
        made = copy(self)
        made.forward = made.downstream = forward  # type: ignore[method-assign]
        return made

    def store(self, name: str) -> Any:
        if name not in self._stores:
            raise ValueError(
                f"Processor {self.node} has no access to StateStore {name} as the store is not "
                "connected to the processor"
            )
        return self._host.store(name)

    def schedule(
        self, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None]
    ) -> Cancellable:
        """Calls `callback` with the time once per interval, by stream time or wall-clock time."""
        if interval_ms < 1:
            raise ValueError("The minimum supported scheduling interval is 1 millisecond.")
        return self._host.schedule(self.node, interval_ms, kind, callback)

    def stream_time(self) -> int:
        """The largest timestamp that this task has seen; -1 before the first record."""
        return self._host.stream_time

    def wall_clock_time(self) -> int:
        return self._host.wall_clock_time()

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """None in a punctuation, and when a cache is flushed."""
        return self._host.record_metadata()

    def commit(self) -> None:
        """Requests a commit: caches are flushed after this record."""
        self._host.request_commit()

    def cached(self, flush: Callable[[], None]) -> bool:
        """True if table updates are cached until the commit, which calls `flush`; False if the
        cache is off and updates are forwarded at once.

        Flushes run in topological order, so nodes downstream flush in the same commit what a flush
        forwards to them.
        """
        if self._host.caching:
            self._host.on_commit(self.node, flush)
        return self._host.caching


def to_all(children: tuple[Deliver, ...]) -> Deliver:
    """One callable that delivers to all; a single child is returned as it is."""
    if len(children) == 1:
        return children[0]

    def each_of(record: AnyRecord) -> None:
        for deliver in children:
            deliver(record)

    return each_of
