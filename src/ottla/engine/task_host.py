"""Tasks with state, in the process where they are at home.

Their stores are in its memory, or beyond a limit in a copy on this machine's disk (local_copy.py).
What is there is also in files (task_files.py), batch by batch. A task whose last file is the last
that there is before a batch goes on. Otherwise something went another way (the batch is run again,
another process ran one, we are new here), and the files are read: those that are newer, if what is
here is of the same line, or else all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Final

from ottla.engine.cells import LoggedCells, TaskCells
from ottla.engine.changelogs import changelog_rows
from ottla.engine.graph import changelog_topic
from ottla.engine.local_copy import LocalCopies, LocalCopy
from ottla.engine.packed_rows import inputs, output_rows, reach
from ottla.engine.records import Output
from ottla.engine.restore import cell_row, position_rows
from ottla.engine.state_file import Change, StateFile
from ottla.engine.state_folder import joined, state_folder
from ottla.engine.task import Task
from ottla.engine.task_files import TaskFiles
from ottla.engine.task_plan import TaskPlan, told

FILE_IN_MEMORY: Final = 3
"""So many bytes of memory take the cells of a byte of a file, about."""
WEIGHED_CELLS: Final = 50_000


@dataclass(slots=True)
class _Resident:
    files: list[StateFile]
    done: int = -1
    """The last batch that ran here."""
    copy: LocalCopy | None = None
    memory: dict[str, LoggedCells] = field(default_factory=dict)
    task: Task | None = None
    unwritten: bool = False
    """Restored, and in no file yet."""
    too_large: bool = False

    @property
    def cells(self) -> Mapping[str, TaskCells]:
        return self.memory if self.copy is None else self.copy.cells

    def open(self, name: str) -> TaskCells:
        if self.copy is not None:
            return self.copy.open(name)
        return self.memory.setdefault(name, LoggedCells())

    def put(self, cells: Iterable[Change]) -> None:
        """What was there before, from a file or a topic."""
        if self.copy is not None:
            self.copy.fill(cells)
            return
        for store, key, value in cells:
            self.memory.setdefault(store, LoggedCells()).put(key, value)
        self.changes()

    def changes(self) -> list[Change]:
        return [
            (name, key, value)
            for name, cells in self.cells.items()
            for key, value in cells.changes()
        ]

    def memory_bytes(self) -> int:
        return sum(each.memory_bytes() for each in self.memory.values())

    def move_to(self, copy: LocalCopy) -> None:
        """The task is made again: its stores hold on to the cells that they were opened with."""
        self.let_go()
        copy.empty()
        for name in sorted(self.memory):
            copy.fill((name, *cell) for cell in sorted(self.memory.pop(name).items()))
        self.copy = copy
        self.too_large = False

    def let_go(self) -> None:
        if self.task is not None:
            self.task.close()
            self.task = None


class TaskHost:
    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._residents: dict[int, _Resident] = {}
        self._copies = LocalCopies(plan.local_folder)
        self._memory_bytes_max = plan.memory_bytes_max // max(plan.homes, 1)
        self.loads = 0
        """How often files were read."""
        self.files_read: list[StateFile] = []
        """The last time."""

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
        files = TaskFiles(state_folder(joined(folder, str(number))))
        before = files.before(batch)
        if not cells and not before:
            return []
        # Nobody finds it until all is done: its stores are somewhere in the middle.
        resident = self._residents.pop(number, None)
        if resident is None or resident.files != before or resident.done >= batch:
            resident = self._loaded(resident, folder, number, before, batch, files)
        elif resident.too_large:
            resident.move_to(self._copies.of(folder, number))
        if resident.copy is not None and before:
            resident.copy.stand(before[-1].id)
        sent = self._sent(resident, number, cells, now_ms)
        changes = resident.changes()
        assert resident.task is not None
        sent += self._changelogs(resident.task, changes)
        now = _now(resident.task)
        sent += position_rows(self._plan.topic, _places(cells), self._plan.first, now, number)
        if resident.unwritten or changes:
            resident.files = files.write(batch, changes, before, resident.cells)
            resident.unwritten = False
        resident.done = batch
        self._residents[number] = resident
        self._look_for_too_large()
        return list(output_rows(sent)) if sent else []

    def close(self) -> None:
        for each in self._residents.values():
            each.let_go()
        self._residents.clear()
        self._copies.close()

    def _loaded(
        self,
        known: _Resident | None,
        folder: str,
        number: int,
        before: list[StateFile],
        batch: int,
        files: TaskFiles,
    ) -> _Resident:
        if known is not None:
            known.let_go()
        if not before:
            return self._restored(folder, number)
        self.loads += 1
        copy = self._copies.known(folder, number)
        if copy is None and self._would_be_too_large(before):
            copy = self._copies.of(folder, number)
        if copy is not None:
            copy.forget_fresh()
            newer = None if copy.behind is None else files.newer(copy.behind, before)
            if newer is None:
                copy.empty()
            made = _Resident(before, copy=copy)
        else:
            newer = None
            if known is not None and known.files and known.done < batch:
                newer = files.newer(known.files[-1].id, before)
            made = _Resident(before)
            if known is not None and newer is not None:
                made.memory = known.memory
        self.files_read = before if newer is None else newer
        if self.files_read:
            made.put(files.read(self.files_read))
        return made

    def _restored(self, folder: str, number: int) -> _Resident:
        """From topics: how much it is shows as it comes."""
        made = _Resident([], unwritten=True)
        left = iter(self._plan.restored_cells(number))
        while some := list(islice(left, WEIGHED_CELLS)):
            made.put(some)
            if made.copy is None and self._memory(made) > self._memory_bytes_max:
                made.move_to(self._copies.of(folder, number))
        made.unwritten = any(True for cells in made.cells.values() for _ in cells.items())
        return made

    def _memory(self, *others: _Resident) -> int:
        return sum(each.memory_bytes() for each in (*self._residents.values(), *others))

    def _would_be_too_large(self, files: list[StateFile]) -> bool:
        size = sum(each.size for each in files) * FILE_IN_MEMORY
        return self._memory() + size > self._memory_bytes_max

    def _look_for_too_large(self) -> None:
        """The largest goes to disk when its next batch begins."""
        if self._memory() > self._memory_bytes_max:
            max(self._residents.values(), key=_Resident.memory_bytes).too_large = True

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
        """They come store by store."""
        plan, now_ms = self._plan, _now(task)
        rows: list[Output] = []
        for name, some in groupby(changes, itemgetter(0)):
            spec = plan.subtopology.stores.get(name)
            if spec is not None and spec.changelog:
                topic = changelog_topic(plan.application_id, name)
                rows += changelog_rows(topic, spec, some, task)
            else:
                rows += [cell_row(plan.topic, each, now_ms, task.number) for each in some]
        return rows


def _places(cells: Sequence[bytes]) -> dict[tuple[str, int], int]:
    places: dict[tuple[str, int], int] = {}
    for topic, partition, offset in map(reach, cells):
        place = topic, partition
        places[place] = max(places.get(place, 0), offset)
    return places


def _now(task: Task) -> int:
    return max(task.stream_time, 0)
