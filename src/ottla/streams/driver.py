"""TopologyTestDriver: runs a topology in a unit test, without a broker and without Spark.

    with TopologyTestDriver(topology) as driver:
        text = driver.create_input_topic("text", String(), String())
        counts = driver.create_output_topic("counts", String(), Long())
        text.pipe_input("1", "to be or not to be")
        assert counts.read_key_values_to_map() == {"to": 2, "be": 2, "or": 1, "not": 1}

As in Kafka's driver, every record passes through all sub-topologies at once, and a commit follows
it. The tasks are the same as on Spark; only their cells are dicts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.serde import Bytes, Serde
from ottla.engine.cells import DictCells
from ottla.engine.failures import ExceptionHandler, fail
from ottla.engine.records import Headers, InputRow, OutputRow
from ottla.engine.stores import (
    KeyValueStore,
    SessionStore,
    StateStore,
    TimestampedKeyValueStore,
    WindowStore,
)
from ottla.engine.subtopologies import Subtopology, subtopologies
from ottla.engine.task import PrefixTask, StreamTask
from ottla.streams.driver_topics import InputTopic, OutputTopic
from ottla.streams.global_table import GlobalStores
from ottla.streams.topology import Topology


class TopologyTestDriver:
    """`caching` False is Kafka's statestore.cache.max.bytes=0: every update is forwarded.

    Because a commit follows each record, it matters only for several updates by one record.
    `config` has settings for serdes, as for an application: `schema.registry.url`, ...
    """

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str = "test",
        initial_wall_clock_time: int = 0,
        caching: bool = True,
        on_failure: ExceptionHandler = fail,
        guarded: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.application_id = application_id
        self._now_ms = initial_wall_clock_time
        self._waiting: deque[InputRow] = deque()
        self._produced: dict[str, deque[OutputRow]] = {}
        self._all: list[OutputRow] = []
        self._offsets: dict[str, int] = {}
        self._cells: dict[tuple[int, str], DictCells] = {}
        graph = topology.graph.configured(config or {})
        self._globals = GlobalStores(graph.globals.values(), lambda _: DictCells())

        def task(piece: Subtopology) -> StreamTask:
            return StreamTask(
                piece,
                0,
                lambda name: self._cells.setdefault((piece.number, name), DictCells()),
                self,
                application_id=application_id,
                caching=caching,
                on_failure=on_failure,
                guarded=guarded,
                partitions_of=lambda _: 1,
                global_stores=self._globals.stores,
            )

        self._task = task
        self._graph = graph
        self._pieces = self._begin()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- topics

    def create_input_topic(
        self,
        topic: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        start_timestamp: int | None = None,
        auto_advance: int = 0,
    ) -> InputTopic:
        """Records without a timestamp start at `start_timestamp` and advance by `auto_advance`."""
        start = self._now_ms if start_timestamp is None else start_timestamp
        of_key, of_value = self._serdes(key, value)
        return InputTopic(self.pipe, topic, of_key, of_value, start, auto_advance)

    def create_output_topic(
        self, topic: str, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> OutputTopic:
        waiting = self._produced.setdefault(topic, deque())
        of_key, of_value = self._serdes(key, value)
        return OutputTopic(topic, of_key, of_value, waiting)

    def pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
    ) -> None:
        """Processes one record and all records that result from it."""
        if not self._reads(topic):
            raise ValueError(f"Unknown topic: {topic}")
        self._enqueue(topic, key, value, timestamp, headers)
        self._complete()

    @property
    def produced_topic_names(self) -> set[str]:
        return {row.topic for row in self._all}

    def produced_record_headers(self, topic: str) -> list[Headers]:
        """The headers of all records produced to the topic, in order, read or not."""
        return [row.headers for row in self._all if row.topic == topic]

    # -- time

    def now_ms(self) -> int:
        return self._now_ms

    def advance_wall_clock_time(self, advance_ms: int) -> None:
        """Advances the clock and runs the punctuations that are due, once per schedule."""
        self._now_ms += advance_ms
        for piece in self._pieces:
            self._sent(piece.task.punctuate(self._now_ms))
            self._sent(piece.task.commit())
        self._complete()

    # -- stores

    def get_state_store(self, name: str) -> StateStore:
        found = self.get_all_state_stores().get(name)
        if found is None:
            raise KeyError(f"there is no store {name}")
        return found

    def get_all_state_stores(self) -> dict[str, StateStore]:
        stores = dict(self._globals.stores)
        for piece in self._pieces:
            stores.update(piece.task.stores)
        return stores

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """A key-value store; a timestamped one is returned as a view without timestamps."""
        found = self.get_state_store(name)
        if isinstance(found, TimestampedKeyValueStore):
            return KeyValueStore(found.spec.plain, found.cells, found.topic)
        assert isinstance(found, KeyValueStore), f"{name} is not a key-value store"
        return found

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore[Any, Any]:
        found = self.get_state_store(name)
        assert isinstance(found, TimestampedKeyValueStore), f"{name} has no timestamps"
        return found

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        found = self.get_state_store(name)
        assert isinstance(found, WindowStore), f"{name} is not a window store"
        return found

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        found = self.get_state_store(name)
        assert isinstance(found, SessionStore), f"{name} is not a session store"
        return found

    def restart(self) -> None:
        """Replaces the tasks by new ones with the same state, as after a restart of a job."""
        self.close()
        self._pieces = self._begin()

    def close(self) -> None:
        for piece in self._pieces:
            piece.task.close()

    # -- inside

    def _serdes(
        self, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> tuple[Serde[Any], Serde[Any]]:
        serdes = self._graph.serdes
        return serdes.key(key or Bytes()), serdes.value(value or Bytes())

    def _begin(self) -> list[_DriverSubtopology]:
        return [_DriverSubtopology(piece, self._task) for piece in subtopologies(self._graph)]

    def _reads(self, topic: str) -> bool:
        return topic in self._globals.topics or any(piece.reads(topic) for piece in self._pieces)

    def _enqueue(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
    ) -> None:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        self._waiting.append(InputRow(topic, 0, offset, timestamp, key, value, headers))

    def _complete(self) -> None:
        while self._waiting:
            row = self._waiting.popleft()
            if row.topic in self._globals.topics:
                self._globals.apply((row,))
            for piece in self._pieces:
                if piece.reads(row.topic):
                    for sent in piece.process(row):
                        self._sent(sent)

    def _sent(self, rows: list[OutputRow]) -> None:
        for row in rows:
            self._all.append(row)
            self._produced.setdefault(row.topic, deque()).append(row)
            if self._reads(row.topic):
                self._enqueue(row.topic, row.key, row.value, row.timestamp, row.headers)


class _DriverSubtopology:
    """A sub-topology and its prefixes."""

    def __init__(self, piece: Subtopology, task: Callable[[Subtopology], StreamTask]) -> None:
        self.task = task(piece)
        self._prefixes = [task(prefix) for prefix in piece.prefixes]

    def reads(self, topic: str) -> bool:
        return self.task.reads(topic) or any(prefix.reads(topic) for prefix in self._prefixes)

    def process(self, row: InputRow) -> list[list[OutputRow]]:
        """Processes a row, with a commit after every record of the task itself."""
        rows = [row] if self.task.reads(row.topic) else []
        for prefix in self._prefixes:
            if prefix.reads(row.topic):
                rows.extend(PrefixTask(prefix).process((row,)))
        task = self.task
        return [task.process((input_row,)) + task.commit() for input_row in rows]
