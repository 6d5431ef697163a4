"""Global tables: a topic that each process which runs tasks has whole, in its memory.

It is read to its end before a process takes its first rows, and again before each batch: what a
batch joins with is at least what was in the topic when the batch began.
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
from ottla.engine.graph import GlobalTable
from ottla.engine.packed_rows import chunk_inputs
from ottla.engine.records import Headers
from ottla.engine.stores import AnyStore, StoreSpec
from ottla.errors import ErrorCode, KafkaError
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER
from ottla.spark.limits import LATEST
from ottla.spark.reading import Chunk
from ottla.spark.table_follower import Follower

CATCH_UP_S: Final = 120.0
WAIT_MS: Final = 200
PAUSE_S: Final = 0.005

Settings = Mapping[str, Setting]

_followed: dict[tuple[str, str, str], FollowedCells] = {}


def global_store(table: GlobalTable, servers: str, settings: Settings) -> AnyStore:
    """Over the cells of this process, which all tasks share."""
    return table.store.open(_followed_cells(table, servers, settings).cells, topic=table.topic)


def refresh(tables: Iterable[GlobalTable], servers: str, settings: Settings) -> None:
    """A batch begins."""
    for each in tables:
        _followed_cells(each, servers, settings).catch_up()


def _followed_cells(table: GlobalTable, servers: str, settings: Settings) -> FollowedCells:
    key = (servers, table.topic, repr((sorted(settings.items()), table.store.kind)))
    if key not in _followed:
        _followed[key] = FollowedCells(table.topic, table.store, servers, settings)
    return _followed[key]


class FollowedCells:
    """The cells of a store that a topic has every change of. One thread calls `catch_up`."""

    def __init__(self, topic: str, spec: StoreSpec, servers: str, settings: Settings) -> None:
        self.cells = DictCells()
        self._topic = topic
        self._spec = spec
        self._brokers = ClusterClient(servers, settings)
        self._waiting = ClusterClient(servers, settings)
        self._follower = Follower(self._brokers, topic, apply=self._apply, restart=self._restart)

    def catch_up(self, timeout_s: float = CATCH_UP_S) -> None:
        """All is applied that is in the topic now."""
        deadline = time.monotonic() + timeout_s
        ends = self._brokers.patiently(self._ends)
        while any(self._follower.positions.get(each, -1) < end for each, end in ends.items()):
            if time.monotonic() > deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{self._topic} was not read to its end within {timeout_s:.0f} s",
                )
            self._brokers.patiently(self._follower.step)

    def wait(self) -> None:
        """Until there is more, but not for long. Another thread may catch up meanwhile."""
        positions = dict(self._follower.positions)
        ends = {TopicPartition(self._topic, each): offset for each, offset in positions.items()}
        began = time.monotonic()
        self._waiting.wait(ends, WAIT_MS, read_committed=True)
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - began)))

    def close(self) -> None:
        self._brokers.close()
        self._waiting.close()

    def _ends(self) -> dict[int, int]:
        topic = self._brokers.topic(self._topic)
        wanted = {TopicPartition(self._topic, each): LATEST for each in topic.leaders}
        found = self._brokers.offsets(wanted, read_committed=True)
        return {each.partition: end or 0 for each, end in found.items()}

    def _apply(self, chunk: Chunk) -> None:
        put, spec = self.cells.put, self._spec
        key_header = KEY_HEADER if spec.key.uses_headers else ""
        value_header = VALUE_HEADER if spec.value.uses_headers else ""
        for row in chunk_inputs(chunk):
            key = _framed(row.key, row.headers, key_header)
            if key is not None:
                value = _framed(row.value, row.headers, value_header)
                put(key, changelog_cell(spec, value, row.timestamp))

    def _restart(self) -> None:
        """The topic was made anew. Stores hold on to these cells: they stay, and are emptied."""
        for key, _ in list(self.cells.range(None, None)):
            self.cells.put(key, None)


def _framed(data: bytes | None, headers: Headers, name: str) -> bytes | None:
    """Cells have no headers: what names the schema there goes in front, where it means the same."""
    if not headers or not name or data is None:
        return data
    return next((named + data for header, named in headers if header == name and named), data)
