"""The Processor API: what a node of a topology does with a record, and what it may ask for.

    class Total(Processor[str, int]):
        def init(self, context: Context) -> None:
            super().init(context)
            self.totals = context.store("totals")

        def process(self, record: Record[str, int]) -> None:
            total = (self.totals.get(record.key) or 0) + record.value
            self.totals.put(record.key, total)
            self.context.forward(record.with_value(total))

Every operation of the DSL is such a node. One instance belongs to one task and one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from ottla.engine.records import AnyRecord, Record, RecordMetadata
from ottla.engine.serde_config import SerdeConfig

K = TypeVar("K")
V = TypeVar("V")

Deliver = Callable[[AnyRecord], None]


class PunctuationType(Enum):
    STREAM_TIME = "STREAM_TIME"
    WALL_CLOCK_TIME = "WALL_CLOCK_TIME"


class Processor(Generic[K, V]):
    context: Context

    def init(self, context: Context) -> None:
        self.context = context

    def process(self, record: Record[K, V]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called when its task ends."""

    def step(self, downstream: Deliver) -> Deliver:
        """What a task calls for each record. (Stateless operations give something quicker.)"""
        return self.process


@dataclass(slots=True, eq=False)
class Cancellable:
    """A schedule, which may be ended."""

    node: str
    place: int
    interval_ms: int
    kind: PunctuationType
    callback: Callable[[int], None]
    next_ms: int
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class Host(Protocol):
    """What a context needs of the task that it stands for."""

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

    def ask_for_commit(self) -> None: ...

    def on_commit(self, node: str, flush: Callable[[], None]) -> None: ...


class Context:
    """One for each node of a task.

    `downstream` is `forward` without a choice of child, as one callable: a node that forwards for
    every record takes it once in `init` and saves a look-up and a call for each of them.
    """

    def __init__(
        self,
        host: Host,
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
        """For a node that keeps a serde: what the application's settings make of it."""
        self.numbers = host.numbers
        """What nodes of the task remember beside their stores, by names that they choose."""
        self.downstream: Deliver = to_all(tuple(children.values()))

    def forward(self, record: AnyRecord, child: str | None = None) -> None:
        if child is None:
            self.downstream(record)
            return
        deliver = self._children.get(child)
        if deliver is None:
            raise ValueError(f"Unknown downstream node: {child} of {self.node}")
        deliver(record)

    def limited(self, forward: Callable[..., None]) -> Context:
        """The same context with another `forward`, for a processor inside of a processor."""
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
        """Calls back with the time, once in each interval: of the stream, or of the clock."""
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
        """Asks for a commit: caches are flushed as soon as this record is done."""
        self._host.ask_for_commit()

    def cached(self, flush: Callable[[], None]) -> bool:
        """True where updates of tables are kept until the commit, which then calls `flush`.

        Flushes go in the order of the topology, so that what one of them forwards is flushed by
        the nodes below in the same commit. False: the cache is off, forward at once.
        """
        if self._host.caching:
            self._host.on_commit(self.node, flush)
        return self._host.caching


def to_all(children: tuple[Deliver, ...]) -> Deliver:
    """One callable for several: the one itself where there is only one."""
    if len(children) == 1:
        return children[0]

    def each_of(record: AnyRecord) -> None:
        for deliver in children:
            deliver(record)

    return each_of
