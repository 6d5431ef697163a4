"""The state of a task in files, one for each batch that has changed something.

    <state directory>/<sub-topology>/tasks/<query id>/<task>/<file name>

A file has the cells that some batches have changed (state_file.py). A chain of files from batch 0
is the state after its last batch. A new file merges its predecessors that are not much larger, so
there are few files, and overwritten values disappear.

Spark can rerun only its current batch, from the state before it. So the files that a batch merged
must survive until the next batch begins. The files of several attempts at one batch also stay until
then, because a host can't know which of them Spark has accepted; the attempt that wrote last wins.

A host may be late: Spark has given up its executor, another host has the task, and batches later
this one writes its file and deletes what it takes for obsolete. So hosts delete only files that no
recent file, whoever wrote it, stands on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, repeat
from operator import itemgetter
from typing import IO, Final, cast

from ottla.engine import state_file
from ottla.engine.cells import TaskCells
from ottla.engine.failures import StreamsError
from ottla.engine.state_file import NOTHING, CellChange, StateFile, StateFileHeader
from ottla.engine.state_folder import StateFolder

LARGER: Final = 2
"""A file is merged if it is at most this many times larger than all files after it."""
CELL_BYTES: Final = 32  # about what a cell takes besides its key and its value
SMALL_BYTES: Final = 4096  # reading and writing a smaller file takes no less time
UNORDERED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Up to this size files are merged in memory, beyond it as sorted streams."""
_key: Final = itemgetter(1)
_value: Final = itemgetter(2)
# C code, because it runs once for each cell of the state.
_named: Final = cast(Callable[[tuple[str], tuple[bytes, bytes]], CellChange], tuple.__add__)


class TaskFiles:
    """The state files of one task."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._lines: dict[str, bytes] = {}

    def before(self, batch: int) -> list[StateFile]:
        """The files of the state before a batch; empty if the task has no state yet.

        Spark decides which batch runs; these files only say what the task has done. A file after
        `batch` means that another instance went on, or that the checkpoint is a copy: continuing
        would fork the state, so the task fails. A file of `batch` itself is of an earlier attempt
        that Spark has not committed: it is ignored, because the batch runs again.
        """
        there = self._all()
        last = max((file.last for file in there), default=-1)
        if last > batch:
            raise StreamsError(
                f"The task state in {self._folder} is ahead of the checkpoint: it includes batch"
                f" {last}, and batch {batch} is to run. Another instance has continued, or the"
                " checkpoint is an old copy. Run one instance at a time; if none runs, delete the"
                " application's state directory, and the state is restored from topics."
            )
        there = [file for file in there if file.last != batch]  # of an earlier attempt
        last = max((file.last for file in there), default=-1)
        found: list[StateFile] = []
        for newest in there:
            if newest.last == last:
                found = _chain(newest, there)
                if found[0].after == NOTHING:
                    return found
        # A late attempt's chain may lack a file, but not that of the attempt that was accepted.
        if found:
            raise self._damaged(f"no file has batch {found[0].first - 1}")
        return []

    def newer(self, behind: str, files: list[StateFile]) -> list[StateFile] | None:
        """The files that lead from the state after the file with the id `behind` to the state of
        `files`. None: that was another state, or it is too long ago."""
        for index in reversed(range(len(files))):
            file = files[index]
            if file.id == behind:
                return files[index + 1 :]
            # The first file has no tombstones, so it can't be applied to an older state.
            if file.first > 0 and state_file.is_in(self._line(file), behind):
                return files[index:]
        return None

    def read(self, files: Iterable[StateFile]) -> Iterator[CellChange]:
        """The cells of the files, in order: the last value of a cell wins."""
        for state_file_ in files:
            try:
                with self._folder.open(state_file_.name) as file:
                    self._head(state_file_, file)
                    yield from state_file.read_cells(file)
            except OSError:
                raise  # a disk error may be transient
            except Exception as error:
                raise self._damaged(f"{state_file_.name}: {type(error).__name__} {error}") from None

    def write(
        self,
        batch: int,
        changes: list[CellChange],
        before: list[StateFile],
        cells: Mapping[str, TaskCells],
    ) -> list[StateFile]:
        """Writes the changes of a batch to the state `before`; returns the files after it."""
        assert all(file.last < batch for file in before), "a batch never rewrites its own past"
        size = sum(map(len, map(_key, changes))) + sum(map(len, filter(None, map(_value, changes))))
        size = max(size + CELL_BYTES * len(changes), SMALL_BYTES)
        # Merge from the newest file back while a predecessor is not much larger than what follows:
        # the sizes form a geometric series, so a cell is rewritten a logarithmic number of times.
        remaining = list(before)
        merged: list[StateFile] = []
        while remaining and remaining[-1].size <= LARGER * size:
            merged.append(remaining.pop())
            size += merged[-1].size
        if not remaining:
            made = self._put(batch, None, _all_cells(cells))
        elif not merged:
            made = self._put(batch, remaining[-1], changes)
        elif size <= UNORDERED_BYTES_MAX:
            made = self._put_small(batch, remaining[-1], changes, merged)
        else:
            made = self._put_large(batch, remaining[-1], changes, merged)
        self._tidy(before)
        return [*remaining, made]

    def _put_small(
        self, batch: int, after: StateFile, changes: list[CellChange], merged: list[StateFile]
    ) -> StateFile:
        now = {(store, key): value for store, key, value in self.read(reversed(merged))}
        now |= {(store, key): value for store, key, value in changes}
        found = [(*place, value) for place, value in now.items()]
        return self._put(batch, after, found, merged)

    def _put_large(
        self, batch: int, after: StateFile, changes: list[CellChange], merged: list[StateFile]
    ) -> StateFile:
        """Merges sorted streams, because the merged part of a large state may be a third of it."""
        with ExitStack() as opened:
            sources: list[Iterable[CellChange]] = [sorted(changes, key=_place)]
            for older in merged:
                file = opened.enter_context(self._folder.open(older.name))
                ordered = self._head(older, file)["ordered"]
                found = state_file.read_cells(file)
                sources.append(found if ordered else sorted(found, key=_place))
            return self._put(batch, after, state_file.merged(sources), merged, ordered=True)

    def _put(
        self,
        batch: int,
        after: StateFile | None,
        changes: Iterable[CellChange],
        merged: Sequence[StateFile] = (),
        *,
        ordered: bool = False,
    ) -> StateFile:
        """Durable when it returns. The order matters: the state must be on disk before Spark
        commits the batch, because a committed batch never runs again."""
        size = sum(file.size for file in merged)
        line = state_file.line_of([(file.id, self._line(file)) for file in merged], size)
        head: StateFileHeader = {"line": line, "ordered": ordered}
        first, stands_on = (after.last + 1, after.id) if after else (0, NOTHING)
        made = StateFile(first, batch, state_file.new_id(), stands_on)

        def write(file: IO[bytes]) -> None:
            state_file.write(file, head, changes)

        size = self._folder.put(made.name, write).size
        return StateFile(first, batch, made.id, stands_on, size)

    def _line(self, file: StateFile) -> bytes:
        if file.id not in self._lines:
            for _ in self.read([file]):
                break  # reading the first cell reads the header
        return self._lines[file.id]

    def _head(self, file: StateFile, opened: IO[bytes]) -> StateFileHeader:
        head = state_file.read_head(opened)
        self._lines[file.id] = head["line"]
        return head

    def _tidy(self, before: list[StateFile]) -> None:
        """Deletes what the previous batch merged, and what attempts at earlier batches left: all
        files but those since the last batch before, and what these stand on."""
        there, last = self._all(), before[-1].last if before else 0
        recent = [file for file in there if file.last >= last]
        needed = {file.id for newest in recent for file in _chain(newest, there)}
        for file in there:
            if file.id not in needed:
                self._folder.delete(file.name)

    def _all(self) -> list[StateFile]:
        """All state files, newest first."""
        found = sorted(self._folder.files(), key=lambda entry: (-entry.modified_ns, entry.name))
        if former := next(
            (entry.name for entry in found if state_file.FORMER_NAME(entry.name)), None
        ):
            raise self._damaged(f"{former} was written by an earlier version")
        named = (StateFile.named(entry.name, entry.size) for entry in found)
        return [file for file in named if file is not None]

    def _damaged(self, what: str) -> StreamsError:
        return StreamsError(
            f"The task state in {self._folder} is incomplete: {what}. Delete the application's"
            " state directory, and the state is restored from topics."
        )


def _chain(newest: StateFile, there: Iterable[StateFile]) -> list[StateFile]:
    """The file and its predecessors, oldest first, as far as they are there."""
    by_id = {file.id: file for file in there}
    found = [newest]
    while (older := by_id.get(found[-1].after)) is not None:
        found.append(older)
    return found[::-1]


def delete_obsolete_files(folder: StateFolder, query: str, done: int) -> None:
    """Before a query starts after its last committed batch `done`: deletes other queries' folders,
    drafts, and files of uncommitted attempts at the next batch, which may see other rows now.
    (Later files mean that the checkpoint went back; tasks report that.)"""
    for present in folder.names():
        if present != query:
            folder.delete(present)
            continue
        tasks = folder.child(present)
        for task in tasks.names():
            files = tasks.child(task)
            for name in files.names():
                known = StateFile.named(name, 0)
                if known.last == done + 1 if known else not state_file.FORMER_NAME(name):
                    files.delete(name)


def _all_cells(cells: Mapping[str, TaskCells]) -> Iterator[CellChange]:
    """The whole state without tombstones: no earlier file has cells to delete."""
    return chain.from_iterable(
        map(_named, repeat((store,)), cells[store].items()) for store in cells
    )


def _place(change: CellChange) -> tuple[str, bytes]:
    return change[:2]
