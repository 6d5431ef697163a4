"""TopologyTestDriver: a topology in a unit test, without broker and without Spark.

    with TopologyTestDriver(topology) as driver:
        text = driver.create_input_topic("text", String(), String())
        counts = driver.create_output_topic("counts", String(), Long())
        text.pipe_input("1", "to be or not to be")
        assert counts.read_key_values_to_map() == {"to": 2, "be": 2, "or": 1, "not": 1}

Every record goes through all sub-topologies at once, and a commit follows it, as in Kafka's own
driver. The tasks are those that run on Spark; only their cells are dicts here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.serde import Bytes, Serde
from ottla.engine.cells import DictCells
from ottla.engine.failures import OnFailure, fail
from ottla.engine.records import Headers, Input, Output
from ottla.engine.stores import (
    AnyStore,
    KeyValueStore,
    SessionStore,
    TimestampedKeyValueStore,
    WindowStore,
)
from ottla.engine.subtopologies import SubTopology, subtopologies
from ottla.engine.task import Prefixed, Task
from ottla.streams.driver_topics import InputTopic, OutputTopic
from ottla.streams.global_table import GlobalStores
from ottla.streams.topology import Topology


class TopologyTestDriver:
    """`caching` False is Kafka's statestore.cache.max.bytes=0: every update is forwarded.

    With a commit after each record both give the same, but for what happens inside of one record.
    `config` has settings of the serdes, as an application's: `schema.registry.url`, ...
    """

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str = "test",
        initial_wall_clock_time: int = 0,
        caching: bool = True,
        on_failure: OnFailure = fail,
        guarded: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.application_id = application_id
        self._now_ms = initial_wall_clock_time
        self._waiting: deque[Input] = deque()
        self._produced: dict[str, deque[Output]] = {}
        self._all: list[Output] = []
        self._offsets: dict[str, int] = {}
        self._cells: dict[tuple[int, str], DictCells] = {}
        graph = topology.graph.configured(config or {})
        self._globals = GlobalStores(graph.globals.values(), lambda _: DictCells())

        def task(piece: SubTopology) -> Task:
            return Task(
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
        """Records that are given no time have `start_timestamp`, and go on by `auto_advance`."""
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
        """One record, and all that follows from it."""
        if not self._reads(topic):
            raise ValueError(f"Unknown topic: {topic}")
        self._enqueue(topic, key, value, timestamp, headers)
        self._complete()

    @property
    def produced_topic_names(self) -> set[str]:
        return {each.topic for each in self._all}

    def produced_record_headers(self, topic: str) -> list[Headers]:
        """Of all records that the topic was sent, in order, read or not."""
        return [each.headers for each in self._all if each.topic == topic]

    # -- time

    def now_ms(self) -> int:
        return self._now_ms

    def advance_wall_clock_time(self, advance_ms: int) -> None:
        """Moves the clock on; what is due by it happens, once for each schedule."""
        self._now_ms += advance_ms
        for piece in self._pieces:
            self._sent(piece.task.punctuate(self._now_ms))
            self._sent(piece.task.commit())
        self._complete()

    # -- stores

    def get_state_store(self, name: str) -> AnyStore:
        found = self.get_all_state_stores().get(name)
        if found is None:
            raise KeyError(f"no store is called {name}")
        return found

    def get_all_state_stores(self) -> dict[str, AnyStore]:
        stores = dict(self._globals.stores)
        for piece in self._pieces:
            stores.update(piece.task.stores)
        return stores

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """Values; of a timestamped store, values without their times."""
        found = self.get_state_store(name)
        if isinstance(found, TimestampedKeyValueStore):
            return KeyValueStore(found.spec.plain, found.cells, found.topic)
        assert isinstance(found, KeyValueStore), f"{name} is no key-value store"
        return found

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore[Any, Any]:
        found = self.get_state_store(name)
        assert isinstance(found, TimestampedKeyValueStore), f"{name} keeps no timestamps"
        return found

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        found = self.get_state_store(name)
        assert isinstance(found, WindowStore), f"{name} is no window store"
        return found

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        found = self.get_state_store(name)
        assert isinstance(found, SessionStore), f"{name} is no session store"
        return found

    def restart(self) -> None:
        """New tasks, with the state of the old ones: as when a job goes on after a stop."""
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

    def _begin(self) -> list[_Piece]:
        return [_Piece(piece, self._task) for piece in subtopologies(self._graph)]

    def _reads(self, topic: str) -> bool:
        return topic in self._globals.topics or any(each.reads(topic) for each in self._pieces)

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
        self._waiting.append(Input(topic, 0, offset, timestamp, key, value, headers))

    def _complete(self) -> None:
        while self._waiting:
            row = self._waiting.popleft()
            if row.topic in self._globals.topics:
                self._globals.apply((row,))
            for piece in self._pieces:
                if piece.reads(row.topic):
                    for sent in piece.process(row):
                        self._sent(sent)

    def _sent(self, rows: list[Output]) -> None:
        for row in rows:
            self._all.append(row)
            self._produced.setdefault(row.topic, deque()).append(row)
            if self._reads(row.topic):
                self._enqueue(row.topic, row.key, row.value, row.timestamp, row.headers)


class _Piece:
    """A sub-topology with what stands in front of it."""

    def __init__(self, piece: SubTopology, task: Callable[[SubTopology], Task]) -> None:
        self.task = task(piece)
        self._prefixes = [task(each) for each in piece.prefixes]

    def reads(self, topic: str) -> bool:
        return self.task.reads(topic) or any(each.reads(topic) for each in self._prefixes)

    def process(self, row: Input) -> list[list[Output]]:
        """A commit behind every record of the task itself."""
        rows = [row] if self.task.reads(row.topic) else []
        for prefix in self._prefixes:
            if prefix.reads(row.topic):
                rows.extend(Prefixed(prefix).process((row,)))
        task = self.task
        return [task.process((each,)) + task.commit() for each in rows]
