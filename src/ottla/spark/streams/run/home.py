"""Tasks with state, in the process where they are at home: their stores are in its memory.

What is in memory is also in files (task_files.py), batch by batch. A task whose last file is the
last that there is before a batch goes on. Otherwise something went another way (the batch is run
again, another process ran one, we are new here), and the files are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ottla.spark.streams.graph import changelog_topic
from ottla.spark.streams.records import Output
from ottla.spark.streams.run.changelogs import changelog_row
from ottla.spark.streams.run.plan import Plan, told
from ottla.spark.streams.run.restoring import cell_row, position_rows
from ottla.spark.streams.run.rows import inputs, output_rows, reach
from ottla.spark.streams.run.task_files import Change, LoggedCells, StateFile, TaskFiles
from ottla.spark.streams.task import Task


@dataclass(slots=True)
class _Resident:
    files: list[StateFile]
    done: int = -1
    """The last batch that ran here."""
    cells: dict[str, LoggedCells] = field(default_factory=dict)
    task: Task | None = None
    owed: list[Change] = field(default_factory=list)
    """Restored, and in no file yet."""

    def open(self, name: str) -> LoggedCells:
        return self.cells.setdefault(name, LoggedCells())

    def changes(self) -> list[Change]:
        return [
            (name, key, value)
            for name, cells in self.cells.items()
            for key, value in cells.changes()
        ]


class Home:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._residents: dict[int, _Resident] = {}
        self.loads = 0
        """How often files were read."""

    def run(
        self,
        folder: str,
        batch: int,
        number: int,
        cells: Sequence[bytes],
        now_ms: int | None = None,
    ) -> list[bytes]:
        """All rows of a batch, in the order in which tasks take them; what is to be sent.

        `folder` is that of the query. Without rows, at a tick of the clock, a task that has not
        begun stays away.
        """
        files = TaskFiles(Path(folder) / str(number))
        before = files.before(batch)
        if not cells and not before:
            return []
        # Nobody finds it until all is done: its stores are somewhere in the middle.
        resident = self._residents.pop(number, None)
        if resident is None or resident.files != before or resident.done >= batch:
            resident = self._loaded(resident, number, before, files)
        sent = self._sent(resident, number, cells, now_ms)
        changes = resident.changes()
        assert resident.task is not None
        sent += self._changelogs(resident.task, changes)
        now = _now(resident.task)
        sent += position_rows(self._plan.topic, _places(cells), self._plan.first, now, number)
        if resident.owed or changes:
            written = [*resident.owed, *changes]
            resident.files = files.write(batch, written, before, resident.cells)
            resident.owed = []
        resident.done = batch
        self._residents[number] = resident
        return list(output_rows(sent)) if sent else []

    def close(self) -> None:
        for each in self._residents.values():
            _let_go(each)
        self._residents.clear()

    def _loaded(
        self, known: _Resident | None, number: int, before: list[StateFile], files: TaskFiles
    ) -> _Resident:
        if known is not None:
            _let_go(known)
        made = _Resident(before)
        found = files.read(before) if before else self._plan.restored_cells(number)
        for store, key, value in found:
            made.open(store).put(key, value)
        changes = made.changes()
        if before:
            self.loads += 1
        else:
            made.owed = changes
        return made

    def _sent(
        self, resident: _Resident, number: int, cells: Sequence[bytes], now_ms: int | None
    ) -> list[Output]:
        self._plan.begin_batch()
        try:
            if resident.task is None:
                resident.task = self._plan.task(number, resident.open)
            task = resident.task
            sent = task.process(task.in_order(chain.from_iterable(map(inputs, cells))))
            if now_ms is not None:
                sent += task.punctuate(now_ms)
            return sent + task.commit()
        except Exception as error:
            raise told(error) from error

    def _changelogs(self, task: Task, changes: list[Change]) -> list[Output]:
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


def _let_go(resident: _Resident) -> None:
    if resident.task is not None:
        resident.task.close()


def _places(cells: Sequence[bytes]) -> dict[tuple[str, int], int]:
    places: dict[tuple[str, int], int] = {}
    for topic, partition, offset in map(reach, cells):
        place = topic, partition
        places[place] = max(places.get(place, 0), offset)
    return places


def _now(task: Task) -> int:
    return max(task.stream_time, 0)
