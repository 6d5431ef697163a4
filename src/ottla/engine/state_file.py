"""One state file of a task: its name and its contents.

    <first>-<last>-<id>-<after>

It has the cells that the batches `first` to `last` changed, with their values after `last`. Every
file has a new `id`; `after` is the id of its predecessor. So the names alone say which files form
one state, even if several attempts or instances have written to the folder.

The contents are pickles: a header, portions of one store's cells (its name, keys, values), and an
empty portion as the end mark, which shows that the file is complete. The header has the lineage:
the ids of the files that this one has merged, latest first, as far as there is room. A local copy
of the state after one of them needs only this file and its successors.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice, repeat
from operator import itemgetter
from typing import IO, Final, Self, TypedDict

PORTION: Final = 8192
"""Cells per pickle."""
LINE_IDS_MIN: Final = 128
LINE_SHARE: Final = 128
"""A lineage has an id per this many bytes of its file: at most a sixteenth of its size."""
NOTHING: Final = "0" * 16
"""The predecessor of the first file."""
NAME: Final = re.compile(r"(\d+)-(\d+)-([0-9a-f]{16})-([0-9a-f]{16})").fullmatch
FORMER_NAME: Final = re.compile(r"\d+-\d+").fullmatch

CellChange = tuple[str, bytes, bytes | None]
"""Store, key and current value; None for a deleted cell."""


class StateFileHeader(TypedDict):
    line: bytes
    """The lineage: ids of eight bytes each."""
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
        """Parses a name; None if it is not a state file's."""
        found = NAME(name)
        return found and cls(int(found[1]), int(found[2]), found[3], found[4], size)


def new_id() -> str:
    return os.urandom(8).hex()


def line_of(taken: Iterable[tuple[str, bytes]], size: int) -> bytes:
    """The lineage of a file that merges others, from their ids and lineages, latest first."""
    line = b"".join(bytes.fromhex(id_) + older for id_, older in taken)
    return line[: 8 * max(LINE_IDS_MIN, size // LINE_SHARE)]


def is_in(line: bytes, id_: str) -> bool:
    wanted = bytes.fromhex(id_)
    return any(line[at : at + 8] == wanted for at in range(0, len(line), 8))


def write(file: IO[bytes], head: StateFileHeader, changes: Iterable[CellChange]) -> None:
    pickle.dump(head, file, pickle.HIGHEST_PROTOCOL)
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    pickler.fast = True  # no memo: hardly an object is in a portion twice
    for store, some in groupby(changes, itemgetter(0)):
        while portion := list(islice(some, PORTION)):
            # Not zip(*portion), which takes twice as long for a few thousand cells.
            keys, values = list(map(itemgetter(1), portion)), list(map(itemgetter(2), portion))
            pickler.dump((store, keys, values))
    pickler.dump(())


def read_head(file: IO[bytes]) -> StateFileHeader:
    head: StateFileHeader = pickle.load(file)
    return head


def read_cells(file: IO[bytes]) -> Iterator[CellChange]:
    """The cells after the header."""
    while portion := pickle.load(file):
        store, keys, values = portion
        yield from zip(repeat(store), keys, values, strict=False)


def merged(sources: Iterable[Iterable[CellChange]]) -> Iterator[CellChange]:
    """Merges sorted sources; of duplicate cells the one of the earliest source wins."""
    ranked = [_ranked(rank, source) for rank, source in enumerate(sources)]
    before: tuple[str, bytes] | None = None
    for store, key, _, value in merge(*ranked):
        if (store, key) != before:
            before = store, key
            yield store, key, value


def _ranked(
    rank: int, source: Iterable[CellChange]
) -> Iterator[tuple[str, bytes, int, bytes | None]]:
    return ((store, key, rank, value) for store, key, value in source)
