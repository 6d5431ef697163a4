"""Tasks with state, in the process where they are at home: their stores are in its memory.

Spark's state has the pages of each task (pages.py), and a nonce, new with every batch. A task
whose nonce is the one in Spark's state has in its memory just what the pages say. Otherwise
something went another way (the batch failed after we had run it, another process ran one, we are
new here), and the pages are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from ottla.spark.streams.graph import changelog_topic
from ottla.spark.streams.records import Output
from ottla.spark.streams.run.changelogs import changelog_row
from ottla.spark.streams.run.pages import Change, LoggedCells, Pages
from ottla.spark.streams.run.plan import Plan, told
from ottla.spark.streams.run.restoring import cell_row, position_rows
from ottla.spark.streams.run.rows import inputs, output_rows, reach
from ottla.spark.streams.task import Task

NONCE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Done:
    """What a batch made of a task: rows to be sent, pages to be kept, and those to be let go."""

    nonce: bytes
    cells: list[bytes]
    pages: list[tuple[int, bytes]]
    removed: list[int]
    wall_clock_ms: int | None = None
    """When the clock has something to do next."""


@dataclass(slots=True)
class _Resident:
    nonce: bytes | None
    pages: Pages = field(default_factory=Pages)
    cells: dict[str, LoggedCells] = field(default_factory=dict)
    task: Task | None = None
    owed: list[Change] = field(default_factory=list)
    """Restored, and in no page yet."""

    def open(self, name: str) -> LoggedCells:
        return self.cells.setdefault(name, LoggedCells())


class Home:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._residents: dict[int, _Resident] = {}

    def knows(self, number: int, nonce: bytes | None) -> bool:
        """Can the task go on? A task that has no nonce in Spark's state has never run there."""
        found = self._residents.get(number)
        if nonce is None:
            self._let_go(number)
            self._residents[number] = self._begun(number)
            return True
        return found is not None and found.nonce == nonce

    def load(self, number: int, nonce: bytes, pages: Iterable[tuple[int, bytes]]) -> None:
        self._let_go(number)
        resident = _Resident(nonce)
        for store, key, value in resident.pages.load(pages):
            resident.open(store).put(key, value)
        for cells in resident.cells.values():
            cells.changed.clear()
        self._residents[number] = resident

    def run(self, number: int, cells: Sequence[bytes], now_ms: int | None) -> Done:
        """All rows of a batch, in the order in which tasks take them."""
        resident = self._residents[number]
        self._plan.begin_batch()
        try:
            if resident.task is None:
                resident.task = self._plan.task(number, resident.open)
            task = resident.task
            rows = task.in_order(chain.from_iterable(map(inputs, cells)))
            sent = task.process(rows)
            if now_ms is not None:
                sent += task.punctuate(now_ms)
            sent += task.commit()
        except Exception as error:
            del self._residents[number]  # its stores are somewhere in the middle
            raise told(error) from error
        changes = _changes(resident)
        sent += self._changelogs(resident, changes)
        sent += self._positions(cells, task)
        written, removed = resident.pages.write(resident.owed + changes, resident.cells)
        resident.owed = []
        resident.nonce = os.urandom(NONCE_BYTES)
        return Done(
            resident.nonce,
            list(output_rows(sent)) if sent else [],
            written,
            removed,
            task.next_wall_clock_ms(),
        )

    def close(self) -> None:
        for number in list(self._residents):
            self._let_go(number)

    def _begun(self, number: int) -> _Resident:
        resident = _Resident(None)
        for store, key, value in self._plan.restored_cells(number):
            resident.open(store).put(key, value)
        resident.owed = _changes(resident)
        return resident

    def _positions(self, cells: Sequence[bytes], task: Task) -> list[Output]:
        plan = self._plan
        return position_rows(plan.topic, _places(cells), plan.first, _now(task), task.number)

    def _changelogs(self, resident: _Resident, changes: list[Change]) -> list[Output]:
        task = resident.task
        assert task is not None
        logged = {
            name: (changelog_topic(self._plan.application_id, name), spec)
            for name, spec in self._plan.subtopology.stores.items()
            if spec.changelog
        }
        others, now_ms = self._plan.topic, _now(task)
        return [
            changelog_row(*logged[change[0]], change[1], change[2], task)
            if change[0] in logged
            else cell_row(others, change, now_ms, task.number)
            for change in changes
        ]

    def _let_go(self, number: int) -> None:
        found = self._residents.pop(number, None)
        if found is not None and found.task is not None:
            found.task.close()


def _changes(resident: _Resident) -> list[Change]:
    return [
        (name, key, value)
        for name, cells in resident.cells.items()
        for key, value in cells.changes()
    ]


def _places(cells: Sequence[bytes]) -> dict[tuple[str, int], int]:
    places: dict[tuple[str, int], int] = {}
    for topic, partition, offset in map(reach, cells):
        place = topic, partition
        places[place] = max(places.get(place, 0), offset)
    return places


def _now(task: Task) -> int:
    return max(task.stream_time, 0)
