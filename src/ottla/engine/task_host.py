"""Stateful tasks in their host process.

Their stores are in memory, or beyond a limit in a copy on the local disk (local_copy.py). The state
files (task_files.py) have every batch. A task continues if its state is that of the last file
before the batch. Otherwise (Spark reruns the batch, another process ran one, or this host is new)
the host reads the files: only the newer ones if its state has the same lineage, else all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Final

from ottla.engine.cells import LoggedCells, TaskCells
from ottla.engine.changelogs import changelog_cells
from ottla.engine.graph import changelog_topic
from ottla.engine.local_copy import LocalCopies, LocalCopy
from ottla.engine.packed_rows import pack_output_rows, packed_rows_position
from ottla.engine.records import OutputRow
from ottla.engine.restore import cell_row, position_rows
from ottla.engine.state_file import CellChange, StateFile
from ottla.engine.state_folder import joined, state_folder
from ottla.engine.task import StreamTask
from ottla.engine.task_files import TaskFiles
from ottla.engine.task_plan import TaskPlan, self_contained_error

FILE_IN_MEMORY: Final = 3
"""About how many bytes of memory a byte of a state file takes."""
WEIGHED_CELLS: Final = 50_000


@dataclass(slots=True)
class _LiveTask:
    files: list[StateFile]
    done: int = -1
    """The last batch that this host ran."""
    copy: LocalCopy | None = None
    memory: dict[str, LoggedCells] = field(default_factory=dict)
    task: StreamTask | None = None
    unwritten: bool = False
    """Restored from topics and not in a state file yet."""
    too_large: bool = False

    @property
    def cells(self) -> Mapping[str, TaskCells]:
        return self.memory if self.copy is None else self.copy.cells

    def open(self, name: str) -> TaskCells:
        if self.copy is not None:
            return self.copy.open(name)
        return self.memory.setdefault(name, LoggedCells())

    def put(self, cells: Iterable[CellChange]) -> None:
        """Loads cells from a file or a topic; they are not changes of a batch."""
        if self.copy is not None:
            self.copy.fill(cells)
            return
        for store, key, value in cells:
            self.memory.setdefault(store, LoggedCells()).put(key, value)
        self.changes()

    def changes(self) -> list[CellChange]:
        return [change for name, cells in self.cells.items() for change in cells.changes(name)]

    def memory_bytes(self) -> int:
        return sum(cells.memory_bytes() for cells in self.memory.values())

    def move_to(self, copy: LocalCopy) -> None:
        """Moves the cells to disk. The task is created again, because its stores refer to the cells
        they were opened with."""
        self.close_task()
        copy.empty()
        for name in sorted(self.memory):
            copy.fill((name, *cell) for cell in sorted(self.memory.pop(name).items()))
        self.copy = copy
        self.too_large = False

    def close_task(self) -> None:
        if self.task is not None:
            self.task.close()
            self.task = None


class TaskHost:
    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._live_tasks: dict[int, _LiveTask] = {}
        self._copies = LocalCopies(plan.local_folder)
        self._memory_bytes_max = plan.memory_bytes_max // max(plan.hosts, 1)
        self.loads = 0
        """How often state files were read."""
        self.files_read: list[StateFile] = []
        """Those of the last time."""

    def run(
        self,
        folder: str,
        batch: int,
        number: int,
        cells: Sequence[bytes],
        now_ms: int | None = None,
    ) -> list[bytes]:
        """Runs a task with all its rows of a batch; returns the packed rows to send.

        `folder` is the query's. At a tick without rows, a task without state does nothing.
        """
        files = TaskFiles(state_folder(joined(folder, str(number))))
        before = files.before(batch)
        if not cells and not before:
            return []
        # Removed until the batch is complete: after an exception its stores have half a batch, so
        # the next call must load the state from the files.
        live_task = self._live_tasks.pop(number, None)
        if live_task is None or live_task.files != before or live_task.done >= batch:
            live_task = self._loaded(live_task, folder, number, before, batch, files)
        elif live_task.too_large:
            live_task.move_to(self._copies.of(folder, number))
        assert live_task.files == before, "the task's state must be that before the batch"
        if live_task.copy is not None and before:
            live_task.copy.commit(before[-1].id)
        sent = self._sent(live_task, number, cells, now_ms)
        changes = live_task.changes()
        assert live_task.task is not None
        changelogs, rows = self._changelogs(live_task.task, changes)
        now = _now(live_task.task)
        rows += position_rows(self._plan.topic, _places(cells), self._plan.first, now, number)
        # The file is written before the rows go to the sink: Spark commits the batch only after
        # this returns, and a rerun ignores the file.
        if live_task.unwritten or changes:
            live_task.files = files.write(batch, changes, before, live_task.cells)
            live_task.unwritten = False
        live_task.done = batch
        self._live_tasks[number] = live_task
        self._look_for_too_large()
        return [*sent, *changelogs, *pack_output_rows(rows)]

    def close(self) -> None:
        for live_task in self._live_tasks.values():
            live_task.close_task()
        self._live_tasks.clear()
        self._copies.close()

    def _loaded(
        self,
        known: _LiveTask | None,
        folder: str,
        number: int,
        before: list[StateFile],
        batch: int,
        files: TaskFiles,
    ) -> _LiveTask:
        if known is not None:
            known.close_task()
        if not before:
            return self._restored(folder, number)
        self.loads += 1
        copy = self._copies.known(folder, number)
        if copy is None and self._would_be_too_large(before):
            copy = self._copies.of(folder, number)
        if copy is not None:
            copy.discard_pending()
            newer = None if copy.file_id is None else files.newer(copy.file_id, before)
            if newer is None:
                copy.empty()
            made = _LiveTask(before, copy=copy)
        else:
            newer = None
            if known is not None and known.files and known.done < batch:
                newer = files.newer(known.files[-1].id, before)
            made = _LiveTask(before)
            if known is not None and newer is not None:
                made.memory = known.memory
        self.files_read = before if newer is None else newer
        if self.files_read:
            made.put(files.read(self.files_read))
        return made

    def _restored(self, folder: str, number: int) -> _LiveTask:
        """Restores from topics, and moves to disk when the cells exceed the memory limit."""
        made = _LiveTask([], unwritten=True)
        left = iter(self._plan.restored_cells(number))
        while some := list(islice(left, WEIGHED_CELLS)):
            made.put(some)
            if self._memory(made) > self._memory_bytes_max:
                made.move_to(self._copies.of(folder, number))
                made.put(left)
        made.unwritten = any(True for cells in made.cells.values() for _ in cells.items())
        return made

    def _memory(self, *others: _LiveTask) -> int:
        return sum(live_task.memory_bytes() for live_task in (*self._live_tasks.values(), *others))

    def _would_be_too_large(self, files: list[StateFile]) -> bool:
        size = sum(file.size for file in files) * FILE_IN_MEMORY
        return self._memory() + size > self._memory_bytes_max

    def _look_for_too_large(self) -> None:
        """Marks the largest task, which moves to disk at its next batch."""
        if self._memory() > self._memory_bytes_max:
            max(self._live_tasks.values(), key=_LiveTask.memory_bytes).too_large = True

    def _sent(
        self, live_task: _LiveTask, number: int, cells: Sequence[bytes], now_ms: int | None
    ) -> list[bytes]:
        self._plan.begin_batch()
        try:
            if live_task.task is None:
                live_task.task = self._plan.task(number, live_task.open)
            task = live_task.task
            sent = task.process_packed(cells)
            rows = [] if now_ms is None else task.punctuate(now_ms)
            return [*sent, *pack_output_rows(rows + task.commit())]
        except Exception as error:
            raise self_contained_error(error) from error

    def _changelogs(
        self, task: StreamTask, changes: list[CellChange]
    ) -> tuple[list[bytes], list[OutputRow]]:
        """The changelogs, packed, and the rows for the tasks' own; `changes` are grouped by
        store."""
        plan, now_ms = self._plan, _now(task)
        packed: list[bytes] = []
        rows: list[OutputRow] = []
        for name, some in groupby(changes, itemgetter(0)):
            spec = plan.subtopology.stores.get(name)
            if spec is not None and spec.changelog:
                topic = changelog_topic(plan.application_id, name)
                packed += changelog_cells(topic, spec, some, task)
            else:
                rows += [cell_row(plan.topic, change, now_ms, task.number) for change in some]
        return packed, rows


def _places(cells: Sequence[bytes]) -> dict[tuple[str, int], int]:
    places: dict[tuple[str, int], int] = {}
    for topic, partition, offset in map(packed_rows_position, cells):
        place = topic, partition
        places[place] = max(places.get(place, 0), offset)
    return places


def _now(task: StreamTask) -> int:
    return max(task.stream_time, 0)
