"""The state of a task in files, one for each batch that has changed something.

    <state directory>/<sub-topology>/tasks/<id of the query>/<task>/<name of a file>

A file has the cells that some batches have changed (state_file.py). Files that stand one on the
other, from batch 0 on, are the state behind the last of them. A new file takes in those before it
that are not much larger, so that there are few, and what was written over goes away.

The batch that Spark runs is the only one that it may run again, from the state before it. So what
a batch has taken in stays until the next one; what tries of a batch have written stays until then,
too, and the one that wrote last counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Final

from ottla.engine import state_file
from ottla.engine.cells import TaskCells
from ottla.engine.failures import StreamsError
from ottla.engine.state_file import NOTHING, Change, Head, StateFile
from ottla.engine.state_folder import StateFolder

LARGER: Final = 2
"""A file is taken in if it is at most so many times larger than all that is behind it."""
CELL_BYTES: Final = 32  # what a cell takes beside its key and its value, about
SMALL_BYTES: Final = 4096  # a smaller file is read and written in the same time
UNORDERED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Files up to this size are put together in memory, larger ones in the order of their cells."""


class TaskFiles:
    """Those of one task."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._lines: dict[str, bytes] = {}

    def before(self, batch: int) -> list[StateFile]:
        """Those that are the state before a batch; none if the task has none yet."""
        there = self._all()
        last = max((each.last for each in there), default=-1)
        if last > batch:
            raise StreamsError(
                f"The state of a task in {self._folder} is that behind batch {last}, and"
                f" batch {batch} is to run: another instance has gone on with it, or the checkpoint"
                " is older. Run one instance at a time; if none runs, delete the state directory"
                " of the application, and it is restored from topics."
            )
        there = [each for each in there if each.last != batch]  # of a former try
        by_id = {each.id: each for each in there}
        found: list[StateFile] = []
        next_one = max(there, key=lambda each: each.last, default=None)
        while next_one is not None:
            found.append(next_one)
            after = next_one.after
            if after != NOTHING and after not in by_id:
                raise self._damaged(f"nothing has batch {next_one.first - 1}")
            next_one = by_id.get(after)
        return found[::-1]

    def newer(self, behind: str, files: list[StateFile]) -> list[StateFile] | None:
        """Those that lead to the state of `files` from the one behind the file of this id. None: it
        was another state, or is too long ago."""
        for place in reversed(range(len(files))):
            file = files[place]
            if file.id == behind:
                return files[place + 1 :]
            # The first file does not say which cells are gone.
            if file.first > 0 and state_file.is_in(self._line(file), behind):
                return files[place:]
        return None

    def read(self, files: Iterable[StateFile]) -> Iterator[Change]:
        """A cell may come several times: the last one counts."""
        for each in files:
            try:
                with self._folder.open(each.name) as file:
                    self._head(each, file)
                    yield from state_file.read_cells(file)
            except OSError:
                raise  # of the disk: it may pass
            except Exception as error:
                raise self._damaged(f"{each.name}: {type(error).__name__} {error}") from None

    def write(
        self,
        batch: int,
        changes: list[Change],
        before: list[StateFile],
        cells: Mapping[str, TaskCells],
    ) -> list[StateFile]:
        """What a batch has changed of the state `before`; the state behind it."""
        size = sum(len(key) + len(value or b"") + CELL_BYTES for _, key, value in changes)
        size = max(size, SMALL_BYTES)
        kept = list(before)
        taken: list[StateFile] = []
        while kept and kept[-1].size <= LARGER * size:
            taken.append(kept.pop())
            size += taken[-1].size
        if not kept:
            made = self._put(batch, None, _all_cells(cells))
        elif not taken:
            made = self._put(batch, kept[-1], changes)
        elif size <= UNORDERED_BYTES_MAX:
            made = self._put_small(batch, kept[-1], changes, taken)
        else:
            made = self._put_large(batch, kept[-1], changes, taken)
        self._tidy(batch, {each.name for each in (*before, made)})
        return [*kept, made]

    def _put_small(
        self, batch: int, after: StateFile, changes: list[Change], taken: list[StateFile]
    ) -> StateFile:
        now = {(store, key): value for store, key, value in self.read(reversed(taken))}
        now |= {(store, key): value for store, key, value in changes}
        found = [(*place, value) for place, value in now.items()]
        return self._put(batch, after, found, taken)

    def _put_large(
        self, batch: int, after: StateFile, changes: list[Change], taken: list[StateFile]
    ) -> StateFile:
        """As one stream: of a large state it may be a third."""
        with ExitStack() as opened:
            sources: list[Iterable[Change]] = [sorted(changes, key=_place)]
            for each in taken:
                file = opened.enter_context(self._folder.open(each.name))
                ordered = self._head(each, file)["ordered"]
                found = state_file.read_cells(file)
                sources.append(found if ordered else sorted(found, key=_place))
            return self._put(batch, after, state_file.merged(sources), taken, ordered=True)

    def _put(
        self,
        batch: int,
        after: StateFile | None,
        changes: Iterable[Change],
        taken: Sequence[StateFile] = (),
        *,
        ordered: bool = False,
    ) -> StateFile:
        """There for good before it returns: what Spark writes of the batch comes later."""
        size = sum(each.size for each in taken)
        line = state_file.line_of([(each.id, self._line(each)) for each in taken], size)
        head: Head = {"line": line, "ordered": ordered}
        first, stands_on = (after.last + 1, after.id) if after else (0, NOTHING)
        made = StateFile(first, batch, state_file.new_id(), stands_on)

        def write(file: IO[bytes]) -> None:
            state_file.write(file, head, changes)

        size = self._folder.put(made.name, write).size
        return StateFile(first, batch, made.id, stands_on, size)

    def _line(self, file: StateFile) -> bytes:
        if file.id not in self._lines:
            for _ in self.read([file]):
                break  # what stands before the cells is read
        return self._lines[file.id]

    def _head(self, file: StateFile, opened: IO[bytes]) -> Head:
        head = state_file.read_head(opened)
        self._lines[file.id] = head["line"]
        return head

    def _tidy(self, batch: int, needed: Collection[str]) -> None:
        """What the last batch has taken in, and what a former try of this one has left."""
        for each in self._all():
            if each.last <= batch and each.name not in needed:
                self._folder.delete(each.name)

    def _all(self) -> list[StateFile]:
        """The one that was written last comes first."""
        found = sorted(self._folder.files(), key=lambda each: (-each.modified_ns, each.name))
        if former := next((each.name for each in found if state_file.FORMER_NAME(each.name)), None):
            raise self._damaged(f"{former} is of a former version")
        named = (StateFile.named(each.name, each.size) for each in found)
        return [each for each in named if each is not None]

    def _damaged(self, what: str) -> StreamsError:
        return StreamsError(
            f"The state of a task in {self._folder} is not whole: {what}. Delete the state"
            " directory of the application, and it is restored from topics."
        )


def forget(folder: StateFolder, query: str, done: int) -> None:
    """Before a query begins whose last batch that is done is known: what was kept for others, what
    was half written, and what tries of the batch behind it have left, which may run otherwise.
    (If there is more, the checkpoint has gone back, and tasks will say so.)"""
    for each in folder.names():
        if each != query:
            folder.delete(each)
            continue
        tasks = folder.child(each)
        for task in tasks.names():
            files = tasks.child(task)
            for name in files.names():
                known = StateFile.named(name, 0)
                if known.last == done + 1 if known else not state_file.FORMER_NAME(name):
                    files.delete(name)


def _all_cells(cells: Mapping[str, TaskCells]) -> Iterator[Change]:
    """Nothing is before them that a deletion could be told to."""
    return ((store, key, value) for store in cells for key, value in cells[store].items())


def _place(change: Change) -> tuple[str, bytes]:
    return change[:2]
