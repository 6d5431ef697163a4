"""Materialized tables: a changelog topic as a key-value store in this process, for pull queries.

A thread follows the topic with read_committed. Rows are deserialized when a client reads them. A
table's memory is limited: a table beyond the limit is dropped and reports TOO_LARGE.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Self

import pyarrow as pa

from ottla.client.admin import Admin
from ottla.client.delivery import Setting
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.record import TopicPartition
from ottla.client.schema_registry import SchemaRegistry
from ottla.errors import KafkaError
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.formats import BadRecord
from ottla.rows.schema import Layout
from ottla.spark.chunks import Chunk
from ottla.spark.limits import LATEST
from ottla.spark.table_rows import Row, TableRowReader
from ottla.spark.table_store import ANY, Bounds, TableStore, UnwindowedRows, WindowedRows
from ottla.spark.topic_follower import TopicFollower

TABLE_BYTES_MAX: Final = 1 << 30
CATCH_UP_S: Final = 10.0
CLOSE_S: Final = 2.0
PATIENCE_S: Final = 1.0
PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 5.0

log = logging.getLogger("ottla.spark.tables")

OnBad = Callable[[str, Sequence[BadRecord]], None]


class TableState(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    """The broker or the topic is unavailable, and the table retries. `cause` has the error."""
    TOO_LARGE = "TOO_LARGE"
    FAILED = "FAILED"
    CLOSED = "CLOSED"


OVER: Final = (TableState.TOO_LARGE, TableState.FAILED, TableState.CLOSED)


class MaterializedTable:
    """Keys are sequences of the key columns' values; rows are dicts of all columns."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        layout: Layout,
        settings: Mapping[str, Setting] | None = None,
        *,
        retention_ms: int | None = None,
        bytes_max: int = TABLE_BYTES_MAX,
        on_bad: OnBad | None = None,
        registry: SchemaRegistry | None = None,
    ) -> None:
        self.topic = topic
        self.layout = layout
        self.state = TableState.STARTING
        self.cause = ""
        self._rows = TableRowReader(layout, registry)
        self._bytes_max = bytes_max
        self._on_bad = on_bad
        self._store: TableStore = (
            WindowedRows(retention_ms) if layout.windowed else UnwindowedRows()
        )
        self._was_complete = False
        self._retention_known = retention_ms is not None or layout.windowed is None
        self._moved = threading.Condition()
        self._asking = threading.Lock()
        self._servers = bootstrap_servers
        self._settings = settings = dict(settings or {})
        self._ends_of = ClusterClient(bootstrap_servers, settings, patience_s=PATIENCE_S)
        self._brokers = ClusterClient(bootstrap_servers, settings, patience_s=PATIENCE_S)
        self._follower = TopicFollower(
            self._brokers, topic, apply=self._apply, restart=self._store.clear
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"table-{topic}", daemon=True)
        self._thread.start()

    # Rows

    def get(self, keys: Iterable[Sequence[Any]], bounds: Bounds = ANY) -> list[Row]:
        """The existing rows of these keys, each once; all windows within the bounds."""
        self._check()
        wanted = [self._rows.hashed(key) for key in keys]
        return self._rows.decoded(self._store.get(wanted, bounds))

    def range(self, wanted: Callable[[Sequence[Any]], bool], bounds: Bounds = ANY) -> list[Row]:
        """The rows whose key is wanted."""
        self._check()
        rows = self._rows
        found = self._store.scan(lambda key: wanted(rows.unhashed(key)), bounds)
        return rows.decoded(found)

    def scan(self, bounds: Bounds = ANY) -> list[Row]:
        """A snapshot of all rows."""
        self._check()
        return self._rows.decoded(self._store.scan(None, bounds))

    def arrow(self) -> pa.Table:
        """A snapshot of all rows as columns (`arrow_schema`)."""
        self._check()
        return self._rows.arrow(self._store.scan())

    # Progress

    @property
    def count(self) -> int:
        return self._store.count

    @property
    def size_bytes(self) -> int:
        """The approximate memory of the rows."""
        return self._store.size_bytes

    @property
    def position(self) -> dict[int, int]:
        """The next offset to apply, by partition."""
        return dict(self._follower.positions)

    @property
    def lag(self) -> int:
        """The offsets between the positions and the ends at the last fetch."""
        ends, positions = self._follower.ends, self._follower.positions
        return sum(
            max(0, end - positions.get(partition, 0)) for partition, end in list(ends.items())
        )

    @property
    def caught_up(self) -> bool:
        """True if everything up to the ends at the last fetch is applied."""
        follower = self._follower
        return (
            bool(follower.positions)
            and len(follower.ends) == len(follower.positions)
            and (self.lag == 0)
        )

    def catch_up(self, timeout_s: float = CATCH_UP_S) -> bool:
        """Waits until everything in the topic now is applied; False after the timeout."""
        deadline = time.monotonic() + timeout_s
        ends = self._present_ends(deadline)
        if ends is None:
            return False
        with self._moved:
            while self.state not in OVER and not self._has_reached(ends):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._moved.wait(left)
            return self.state not in OVER

    def ready(self, timeout_s: float = CATCH_UP_S) -> bool:
        """True if the table can be queried: it has caught up, or the broker is unavailable and the
        table was complete before, because stale rows are better than none."""
        if self.state is TableState.WAITING and self._was_complete:
            return True
        return self.catch_up(timeout_s)

    def _present_ends(self, deadline: float) -> dict[int, int] | None:
        with self._asking:
            while not self._closing.is_set():
                try:
                    topic = self._ends_of.topic(self.topic)
                    wanted = {
                        TopicPartition(self.topic, partition): LATEST for partition in topic.leaders
                    }
                    found = self._ends_of.offsets(wanted, read_committed=True)
                    return {key.partition: end or 0 for key, end in found.items()}
                except KafkaError as error:
                    self._ends_of.forget(error)
                    if time.monotonic() + PAUSE_S > deadline:
                        return None
                time.sleep(PAUSE_S)
        return None

    def _has_reached(self, ends: Mapping[int, int]) -> bool:
        positions = self._follower.positions
        return all(positions.get(partition, -1) >= end for partition, end in ends.items())

    def _check(self) -> None:
        if self.state in OVER:
            raise SqlError(
                f"The table of topic {self.topic} can't be queried: {self.cause or self.state}",
                code=SqlCode.SERVER_ERROR,
            )

    # The thread

    def _follow(self) -> None:
        pause_s = PAUSE_S
        while not self._closing.is_set():
            try:
                self._follower.step()
                pause_s = PAUSE_S
                self._was_complete = self._was_complete or self.caught_up
                self._set(TableState.RUNNING, "")
                self._learn_retention()
                if self._store.size_bytes > self._bytes_max:
                    self._give_up()
                    return
            except KafkaError as error:
                self._set(TableState.WAITING, str(error))
                self._closing.wait(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
            except Exception as error:
                log.exception("Table of topic %s: stopped following it", self.topic)
                self._set(TableState.FAILED, f"{type(error).__name__}: {error}")
                return

    def _learn_retention(self) -> None:
        """Takes the windows' retention from the topic."""
        if self._retention_known:
            return
        with Admin(self._servers, settings=self._settings) as admin:
            found = admin.configs.describe_topics([self.topic])[self.topic]
        if isinstance(found, KafkaError):
            raise found
        configs = {config.name: config.value for config in found}
        retention_ms = int(configs.get("retention.ms") or -1)
        if "delete" in (configs.get("cleanup.policy") or "") and retention_ms >= 0:
            assert isinstance(self._store, WindowedRows)
            self._store.retention_ms = retention_ms
        self._retention_known = True

    def _set(self, state: TableState, cause: str) -> None:
        if state is not self.state and state is TableState.WAITING:
            log.warning("Table of topic %s: %s", self.topic, cause)
        with self._moved:
            if not self._closing.is_set():
                self.cause = cause
                self.state = state
            self._moved.notify_all()

    def _give_up(self) -> None:
        rows, size = self._store.count, self._store.size_bytes
        self._store.clear()
        self._set(
            TableState.TOO_LARGE,
            f"its {rows:,} rows took {size:,} bytes; the limit is {self._bytes_max:,}."
            " Pull queries on it are not possible.",
        )
        log.error("Table of topic %s: %s", self.topic, self.cause)

    def _apply(self, chunk: Chunk) -> None:
        changes, bad = self._rows.changes(chunk)
        if bad and self._on_bad is not None:
            self._on_bad(self.topic, bad)
        self._store.apply(changes, chunk.partition)

    # Closing

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self.state = TableState.CLOSED
        with self._moved:
            self._moved.notify_all()
        self._thread.join(CLOSE_S)
        self._brokers.close()
        self._ends_of.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MaterializedTables:
    """The tables of one server; each is followed from its first use."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, Setting] | None = None,
        *,
        bytes_max: int = TABLE_BYTES_MAX,
        on_bad: OnBad | None = None,
        registry: SchemaRegistry | None = None,
    ) -> None:
        self._servers = bootstrap_servers
        self._registry = registry
        self._settings = dict(settings or {})
        self._bytes_max = bytes_max
        self._on_bad = on_bad
        self._tables: dict[tuple[str, str], MaterializedTable] = {}
        self._lock = threading.Lock()

    def table(
        self, topic: str, layout: Layout, *, retention_ms: int | None = None
    ) -> MaterializedTable:
        key = topic, layout.to_json()
        with self._lock:
            found = self._tables.get(key)
            if found is None or found.state in (TableState.FAILED, TableState.CLOSED):
                found = self._tables[key] = MaterializedTable(
                    self._servers,
                    topic,
                    layout,
                    self._settings,
                    retention_ms=retention_ms,
                    bytes_max=self._bytes_max,
                    on_bad=self._on_bad,
                    registry=self._registry,
                )
            return found

    def drop(self, topic: str) -> None:
        """Closes and forgets the tables of this topic."""
        with self._lock:
            keys = [key for key in self._tables if key[0] == topic]
            dropped = [self._tables.pop(key) for key in keys]
        for table in dropped:
            table.close()

    def states(self) -> dict[str, MaterializedTable]:
        with self._lock:
            return {topic: table for (topic, _), table in self._tables.items()}

    def close(self) -> None:
        with self._lock:
            tables, self._tables = list(self._tables.values()), {}
        for table in tables:
            table.close()
