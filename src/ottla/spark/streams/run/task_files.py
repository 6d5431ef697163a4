"""The state of a task in files, one for each batch that has changed something.

    <state directory>/<sub-topology>/tasks/<id of the query>/<task>/<first>-<last>

A file has the cells that the batches `first` to `last` have changed, as they are behind `last`:
their number, then the cells in portions. Files that lie one behind the other, from batch 0 on, are
the state behind the last of them. A new file takes in those before it that are not much larger, so
that there are few, and what was written over goes away.

The batch that Spark runs is the only one that it may run again, from the state before it. So what
a batch has taken in stays until the next one; and its file is replaced if it runs again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.spark.streams.cells import DictCells
from ottla.spark.streams.failures import StreamsError

PORTION: Final = 8192
"""Cells that are pickled at once."""
LARGER: Final = 2
"""A file is taken in if it is at most so many times larger than all that is behind it."""
CELL_BYTES: Final = 32  # what a cell takes beside its key and its value, about
SMALL_BYTES: Final = 4096  # a smaller file is read and written in the same time
DRAFT: Final = ".new-"
NAME: Final = re.compile(r"\d+-\d+").fullmatch

Change = tuple[str, bytes, bytes | None]
"""Which store, which cell, and what is in it now: None if it is gone."""


class LoggedCells(DictCells):
    """Cells that know what has changed since they were last asked."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[bytes] = set()

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None or self._keys is not None:
            super().put(key, value)
        else:
            self._cells[key] = value
        self.changed.add(key)

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """The last state of each cell that was put."""
        found = [(key, self.get(key)) for key in self.changed]
        self.changed.clear()
        return found


@dataclass(frozen=True, slots=True)
class StateFile:
    """`identity` tells it from another of the same name, which somebody else has written."""

    first: int
    last: int
    size: int
    identity: tuple[int, int]

    @property
    def name(self) -> str:
        return f"{self.first}-{self.last}"


class TaskFiles:
    """Those of one task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def before(self, batch: int) -> list[StateFile]:
        """Those that are the state before a batch; none if the task has none yet."""
        there = {each.last: each for each in self._all()}
        if later := [last for last in there if last > batch]:
            raise StreamsError(
                f"The state of a task in {self._folder} is that behind batch {max(later)}, and"
                f" batch {batch} is to run: another instance has gone on with it, or the checkpoint"
                " is older. Run one instance at a time; if none runs, delete the state directory"
                " of the application, and it is restored from topics."
            )
        there.pop(batch, None)  # a former try
        found: list[StateFile] = []
        last = max(there, default=-1)
        while last >= 0:
            if last not in there:
                raise self._damaged(f"nothing has batch {last}")
            found.append(there[last])
            last = there[last].first - 1
        return found[::-1]

    def read(self, files: Iterable[StateFile]) -> Iterator[Change]:
        """A cell may come several times: the last one counts."""
        for each in files:
            try:
                yield from self._cells(each.name)
            except OSError:
                raise  # of the disk: it may pass
            except Exception as error:
                raise self._damaged(f"{each.name}: {type(error).__name__} {error}") from None

    def _cells(self, name: str) -> Iterator[Change]:
        with (self._folder / name).open("rb") as file:
            left: int = pickle.load(file)
            while left > 0:
                portion: list[Change] = pickle.load(file)
                left -= len(portion)
                yield from portion

    def write(
        self,
        batch: int,
        changes: list[Change],
        before: list[StateFile],
        cells: Mapping[str, DictCells],
    ) -> list[StateFile]:
        """What a batch has changed of the state `before`; the state behind it."""
        now = {(store, key): value for store, key, value in changes}
        size = sum(len(key) + len(value or b"") + CELL_BYTES for (_, key), value in now.items())
        size = max(size, SMALL_BYTES)
        kept = list(before)
        taken: list[StateFile] = []
        while kept and kept[-1].size <= LARGER * size:
            taken.append(kept.pop())
            size += taken[-1].size
        for store, key, _ in self.read(taken):
            if (store, key) not in now:
                now[store, key] = cells[store].get(key) if store in cells else None
        if not kept:  # nothing is before it that a deletion could be told to
            now = {place: value for place, value in now.items() if value is not None}
        first = kept[-1].last + 1 if kept else 0
        made = self._put(first, batch, [(*place, value) for place, value in now.items()])
        self._tidy(batch, {each.name for each in (*before, made)})
        return [*kept, made]

    def _put(self, first: int, last: int, changes: list[Change]) -> StateFile:
        """On the disk for good before it returns: what Spark writes of the batch comes later."""
        if not self._folder.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            for each in list(self._folder.parents)[:3]:
                _sync(each)
        path = self._folder / f"{first}-{last}"
        draft = path.with_name(f"{path.name}{DRAFT}{os.urandom(8).hex()}")
        with draft.open("wb") as file:
            pickle.dump(len(changes), file)
            for at in range(0, len(changes), PORTION):
                pickle.dump(changes[at : at + PORTION], file, pickle.HIGHEST_PROTOCOL)
            file.flush()
            os.fsync(file.fileno())
            made = _file(path.name, os.fstat(file.fileno()))
        draft.replace(path)
        _sync(self._folder)
        return made

    def _tidy(self, batch: int, needed: Collection[str]) -> None:
        """What the last batch has taken in, and what a former try of this one has left."""
        for each in self._all():
            if each.last <= batch and each.name not in needed:
                (self._folder / each.name).unlink(missing_ok=True)

    def _all(self) -> list[StateFile]:
        """Of those that end with the same batch, the one that reaches furthest back is last."""
        found: list[StateFile] = []
        for name in filter(NAME, _entries(self._folder)):
            with contextlib.suppress(FileNotFoundError):  # it was deleted while we looked
                found.append(_file(name, (self._folder / name).stat()))
        return sorted(found, key=lambda each: -each.first)

    def _damaged(self, what: str) -> StreamsError:
        return StreamsError(
            f"The state of a task in {self._folder} is not whole: {what}. Delete the state"
            " directory of the application, and it is restored from topics."
        )


def forget(folder: Path, query: str, done: int) -> None:
    """Before a query begins whose last batch that is done is known: what was kept for others, what
    was half written, and what tries of the batch behind it have left, which may run otherwise.
    (If there is more, the checkpoint has gone back, and tasks will say so.)"""
    for each in _entries(folder):
        if each != query:
            shutil.rmtree(folder / each, ignore_errors=True)
            continue
        for task in _entries(folder / each):
            for name in _entries(folder / each / task):
                if not NAME(name) or _last(name) == done + 1:
                    (folder / each / task / name).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _last(name: str) -> int:
    return int(name.partition("-")[2])


def _file(name: str, found: os.stat_result) -> StateFile:
    first, _, _ = name.partition("-")
    return StateFile(int(first), _last(name), found.st_size, (found.st_ino, found.st_mtime_ns))
