"""One file of a task's state: its name, and what is in it.

    <first>-<last>-<id>-<after>

It has the cells that the batches `first` to `last` have changed, as they are behind `last`. `id` is
new with each file that is written; `after` is the id of the file that it stands on, so that names
alone say which files are one state, whoever else has written some.

Inside are pickles: a head, portions of cells, and an empty portion, without which it is not whole.
The head has the line: the ids of the files that this one has replaced, latest first, as far as
there is room. A copy of the state that stands behind one of them needs only this file and those
behind it.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import IO, Final, Self, TypedDict

PORTION: Final = 8192
"""Cells that are pickled at once."""
LINE_IDS_MIN: Final = 128
LINE_SHARE: Final = 128
"""A line has an id for so many bytes of its file: it is a sixteenth of it at most."""
NOTHING: Final = "0" * 16
"""What the first file stands on."""
NAME: Final = re.compile(r"(\d+)-(\d+)-([0-9a-f]{16})-([0-9a-f]{16})").fullmatch
FORMER_NAME: Final = re.compile(r"\d+-\d+").fullmatch

Change = tuple[str, bytes, bytes | None]
"""Which store, which cell, and what is in it now: None if it is gone."""


class Head(TypedDict):
    line: bytes
    """The ids, eight bytes each."""
    ordered: bool


@dataclass(frozen=True, slots=True)
class StateFile:
    first: int
    last: int
    id: str
    after: str
    size: int = 0

    @property
    def name(self) -> str:
        return f"{self.first}-{self.last}-{self.id}-{self.after}"

    @classmethod
    def named(cls, name: str, size: int) -> Self | None:
        """None for the name of something else."""
        found = NAME(name)
        return found and cls(int(found[1]), int(found[2]), found[3], found[4], size)


def new_id() -> str:
    return os.urandom(8).hex()


def line_of(taken: Iterable[tuple[str, bytes]], size: int) -> bytes:
    """From the ids and the lines of files that are taken in, latest first."""
    line = b"".join(bytes.fromhex(id_) + older for id_, older in taken)
    return line[: 8 * max(LINE_IDS_MIN, size // LINE_SHARE)]


def is_in(line: bytes, id_: str) -> bool:
    wanted = bytes.fromhex(id_)
    return any(line[at : at + 8] == wanted for at in range(0, len(line), 8))


def write(file: IO[bytes], head: Head, changes: Iterable[Change]) -> None:
    pickle.dump(head, file, pickle.HIGHEST_PROTOCOL)
    left = iter(changes)
    while portion := list(islice(left, PORTION)):
        pickle.dump(portion, file, pickle.HIGHEST_PROTOCOL)
    pickle.dump([], file, pickle.HIGHEST_PROTOCOL)


def read_head(file: IO[bytes]) -> Head:
    head: Head = pickle.load(file)
    return head


def read_cells(file: IO[bytes]) -> Iterator[Change]:
    """Behind the head."""
    while portion := pickle.load(file):
        yield from portion


def merged(sources: Iterable[Iterable[Change]]) -> Iterator[Change]:
    """Of cells that come several times, the one of the earliest source; each source is in order."""
    ranked = [_ranked(rank, source) for rank, source in enumerate(sources)]
    before: tuple[str, bytes] | None = None
    for store, key, _, value in merge(*ranked):
        if (store, key) != before:
            before = store, key
            yield store, key, value


def _ranked(rank: int, source: Iterable[Change]) -> Iterator[tuple[str, bytes, int, bytes | None]]:
    return ((store, key, rank, value) for store, key, value in source)
