"""Many records to a commit, and many tasks: the tables at the end are the same.

On Spark a batch has thousands of records for each task, and a task comes back in another process.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pyarrow as pa
import pytest
from stream_topologies import built, random_rows

from ottla.clock import SystemClock
from ottla.engine.cells import DictCells
from ottla.engine.records import InputRow, OutputRow
from ottla.engine.subtopologies import Subtopology, subtopologies
from ottla.engine.task import PrefixTask, StreamTask
from ottla.rows.java.murmur2 import partition_of
from ottla.rows.java.murmur2_columns import partitions_of
from ottla.streams import Topology

TABLES = [
    "aggregate",
    "count",
    "count-filtered",
    "count-rekeyed",
    "reduce",
    "table-count",
    "table-filter-own-store",
    "table-filter-store",
    "table-map-values-store",
    "table-of-count",
    "table-of-filter",
    "table-of-mapped",
    "table-store",
    "to-table-store",
]
"""Those whose output is the changelog of one table."""
ORDERED = ("aggregate", "reduce")
"""Those that depend on the order of records: with one task only."""

Last = dict[bytes | None, bytes | None]


class Cluster:
    """As Spark does: rows to tasks, a batch for each, rows of topics to the next."""

    def __init__(self, topology: Topology, *, tasks: int, caching: bool) -> None:
        self.pieces = subtopologies(topology.graph)
        self.last: Last = {}
        self._tasks = tasks
        self._caching = caching
        self._cells: dict[tuple[int, int, str], DictCells] = {}
        self._waiting: list[InputRow] = []
        self._offset = 0

    def batch(self, rows: list[InputRow]) -> None:
        self._waiting = rows
        while self._waiting:
            rows, self._waiting = self._waiting, []
            for piece in self.pieces:
                for number, some in self._shared_out(piece, rows).items():
                    task = self._task(piece, number)
                    for row in task.process(task.in_order(some)) + task.commit():
                        self._sent(row)

    def _shared_out(self, piece: Subtopology, rows: list[InputRow]) -> dict[int, list[InputRow]]:
        found: dict[int, list[InputRow]] = defaultdict(list)
        known = self._task(piece, 0)
        for row in rows:
            if known.reads(row.topic):
                found[row.partition].append(row)
        for prefix in piece.prefixes:
            before = self._task(prefix, 0)
            for made in PrefixTask(before).process(
                [row for row in rows if before.reads(row.topic)]
            ):
                found[partition_of(made.key or b"", self._tasks)].append(made)
        for some in found.values():
            random.Random(1).shuffle(some)
        return found

    def _task(self, piece: Subtopology, number: int) -> StreamTask:
        def cells(name: str) -> DictCells:
            return self._cells.setdefault((piece.number, number, name), DictCells())

        return StreamTask(
            piece, number, cells, SystemClock(), application_id="app", caching=self._caching
        )

    def _sent(self, row: OutputRow) -> None:
        if row.topic == "out":
            self.last[row.key] = row.value
            return
        partition = partition_of(row.key or b"", self._tasks)
        self._offset += 1
        self._waiting.append(
            InputRow(row.topic, partition, self._offset, row.timestamp, row.key, row.value)
        )


def records(name: str, seed: int, tasks: int) -> list[InputRow]:
    found = []
    for offset, (topic, key, value, timestamp) in enumerate(random_rows(name, seed, 100)):
        data = None if key == "~" else key.encode()
        text = None if value == "~" else value.encode()
        partition = partition_of(data or b"", tasks)
        found.append(InputRow(topic, partition, offset, timestamp, data, text))
    return found


def present(last: Last) -> Last:
    """A group that is empty now, or was deleted, and one that never came are the same here."""
    return {key: value for key, value in last.items() if value not in (None, b"0", b"null")}


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_at_the_end_are_the_same_however_records_are_batched(name: str) -> None:
    one_by_one = Cluster(built(name), tasks=1, caching=False)
    for row in records(name, 3, 1):
        one_by_one.batch([row])
    for tasks in (1, 3):
        if tasks > 1 and name in ORDERED:
            continue
        for caching in (True, False):
            dice = random.Random(tasks)
            batched = Cluster(built(name), tasks=tasks, caching=caching)
            rows = records(name, 3, tasks)
            while rows:
                size = dice.choice((1, 2, 7, 50))
                batched.batch(rows[:size])
                rows = rows[size:]
            assert present(batched.last) == present(one_by_one.last), (tasks, caching)


def test_one_key_hashes_as_a_column_of_keys_does() -> None:
    dice = random.Random(5)
    keys = [dice.randbytes(size) for size in range(40) for _ in range(5)]
    column = partitions_of(pa.array(keys, pa.binary()), 7)
    assert [partition_of(key, 7) for key in keys] == column.tolist()
