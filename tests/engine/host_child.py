"""A task host in a separate process, which kills itself at a chosen point.

Each batch counts words that its number says; a file has the number of the last one that is done.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "streams" / "run"))

from streams_by_hand import counted, rows_in, rows_of, sent

from ottla.engine import state_file, task_files
from ottla.engine.local_copy import LocalCopy
from ottla.engine.packed_rows import pack_input_rows
from ottla.engine.state_file import CellChange
from ottla.engine.state_folder import ObjectFolder
from ottla.engine.task import StreamTask
from ottla.engine.task_host import TaskHost
from ottla.engine.task_plan import TaskPlan

WORDS = 1_500
FIRST_WORDS = 2_500


pack_input_rows(rows_in("word"))  # imports what it needs: a server that forks has it then


def words_of(batch: int) -> list[str]:
    """The first batch has many records, so that later ones do not merge its file."""
    draw = random.Random(batch)
    count = FIRST_WORDS if batch == 0 else 60
    return [f"word {draw.randrange(WORDS)}" for _ in range(count)]


def counts_behind(batch: int) -> Counter[str]:
    return Counter(word for earlier in range(batch + 1) for word in words_of(earlier))


def plan_on_disk(local: Path) -> TaskPlan:
    """All state on disk: the memory limit is zero."""
    return replace(counted(), memory_bytes_max=0, local_folder=str(local))


def run_batch(host: Any, folder: str, batch: int) -> dict[str, int]:
    return sent(rows_of(host.run(folder, batch, 0, [pack_input_rows(rows_in(*words_of(batch)))])))


def run_batches(
    folder: str, local: Path, batches: Iterable[int], done: Path, point: str, nth: int = 1
) -> None:
    """Killed when it reaches the point for the nth time."""
    task_files.UNORDERED_BYTES_MAX = 0  # type: ignore[misc]
    left = nth

    def die() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    POINTS[point](die)
    host = TaskHost(plan_on_disk(local))
    for batch in batches:
        run_batch(host, folder, batch)
        done.write_text(str(batch))
    host.close()


Die = Callable[[], None]


def _before(owner: Any, name: str) -> Callable[[Die], None]:
    def patch(die: Die) -> None:
        original = getattr(owner, name)

        def dying(*given: Any, **named: Any) -> Any:
            die()
            return original(*given, **named)

        setattr(owner, name, dying)

    return patch


def _within(owner: Any, name: str, place: int) -> Callable[[Die], None]:
    """In the middle of the cells that a function receives."""

    def patch(die: Die) -> None:
        original = getattr(owner, name)

        def half(cells: Iterable[CellChange]) -> Iterator[CellChange]:
            for number, cell in enumerate(cells):
                if number == 20:
                    die()
                yield cell

        def dying(*given: Any) -> Any:
            arguments = list(given)
            arguments[place] = half(arguments[place])
            return original(*arguments)

        setattr(owner, name, dying)

    return patch


POINTS: dict[str, Callable[[Die], None]] = {
    "nowhere": lambda die: None,
    "batch": _before(StreamTask, "commit"),
    "file": _within(state_file, "write", 2),
    "compaction": _before(state_file, "_ranked"),
    "rename": _before(Path, "replace"),
    "tidy": _before(Path, "unlink"),
    "copy": _within(LocalCopy, "fill", 1),
    "mark": _before(LocalCopy, "commit"),
    "upload": _before(tempfile.SpooledTemporaryFile, "read"),
    "object": _before(ObjectFolder, "delete"),
}
