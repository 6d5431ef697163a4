"""Global tables: every process that runs tasks holds the whole topic in memory.

The process reads the topic to its end before its first rows and again before each batch, so a batch
joins with at least what the topic had when the batch began.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.delivery import Setting
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.record import TopicPartition
from ottla.engine.cells import DictCells
from ottla.engine.changelogs import changelog_cell
from ottla.engine.graph import GlobalTableNode
from ottla.engine.packed_rows import chunk_input_rows
from ottla.engine.records import Headers
from ottla.engine.stores import StateStore, StoreSpec
from ottla.errors import ErrorCode, KafkaError
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER
from ottla.spark.chunks import Chunk
from ottla.spark.limits import LATEST
from ottla.spark.topic_follower import TopicFollower

CATCH_UP_S: Final = 120.0
WAIT_MS: Final = 200
PAUSE_S: Final = 0.005

Settings = Mapping[str, Setting]

_followed: dict[tuple[str, str, str], TopicBackedCells] = {}


def global_store(table: GlobalTableNode, servers: str, settings: Settings) -> StateStore:
    """A store over this process's cells, which all tasks share."""
    return table.store.open(_followed_cells(table, servers, settings).cells, topic=table.topic)


def refresh_global_tables(
    tables: Iterable[GlobalTableNode], servers: str, settings: Settings
) -> None:
    """Called at the beginning of a batch."""
    for table in tables:
        _followed_cells(table, servers, settings).catch_up()


def _followed_cells(table: GlobalTableNode, servers: str, settings: Settings) -> TopicBackedCells:
    key = (servers, table.topic, repr((sorted(settings.items()), table.store.kind)))
    if key not in _followed:
        _followed[key] = TopicBackedCells(table.topic, table.store, servers, settings)
    return _followed[key]


class TopicBackedCells:
    """The cells of a store, filled from the topic of its changes. One thread calls `catch_up`."""

    def __init__(self, topic: str, spec: StoreSpec, servers: str, settings: Settings) -> None:
        self.cells = DictCells()
        self._topic = topic
        self._spec = spec
        self._brokers = ClusterClient(servers, settings)
        self._waiting = ClusterClient(servers, settings)
        self._follower = TopicFollower(
            self._brokers, topic, apply=self._apply, restart=self._restart
        )

    def catch_up(self, timeout_s: float = CATCH_UP_S) -> None:
        """Applies all that is in the topic now."""
        deadline = time.monotonic() + timeout_s
        ends = self._brokers.with_retries(self._ends)
        while any(
            self._follower.positions.get(partition, -1) < end for partition, end in ends.items()
        ):
            if time.monotonic() > deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{self._topic} was not read to its end within {timeout_s:.0f} s",
                )
            self._brokers.with_retries(self._follower.step)

    def wait(self) -> None:
        """Waits briefly for new records. Another thread may call `catch_up` meanwhile."""
        positions = dict(self._follower.positions)
        ends = {
            TopicPartition(self._topic, partition): offset
            for partition, offset in positions.items()
        }
        began = time.monotonic()
        self._waiting.wait(ends, WAIT_MS, read_committed=True)
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - began)))

    def close(self) -> None:
        self._brokers.close()
        self._waiting.close()

    def _ends(self) -> dict[int, int]:
        topic = self._brokers.topic(self._topic)
        wanted = {TopicPartition(self._topic, partition): LATEST for partition in topic.leaders}
        found = self._brokers.offsets(wanted, read_committed=True)
        return {place.partition: end or 0 for place, end in found.items()}

    def _apply(self, chunk: Chunk) -> None:
        put, spec = self.cells.put, self._spec
        key_header = KEY_HEADER if spec.key.uses_headers else ""
        value_header = VALUE_HEADER if spec.value.uses_headers else ""
        for row in chunk_input_rows(chunk):
            key = _framed(row.key, row.headers, key_header)
            if key is not None:
                value = _framed(row.value, row.headers, value_header)
                put(key, changelog_cell(spec, value, row.timestamp))

    def _restart(self) -> None:
        """The topic was deleted and created again. Open stores refer to these cells, so they are
        emptied rather than replaced."""
        for key, _ in list(self.cells.range(None, None)):
            self.cells.put(key, None)


def _framed(data: bytes | None, headers: Headers, name: str) -> bytes | None:
    """Moves a schema id from the header to the front of the payload, because cells have no headers
    and both places mean the same."""
    if not headers or not name or data is None:
        return data
    return next((named + data for header, named in headers if header == name and named), data)
