"""A task host with more state than it may have in memory: how it grows, and how it starts again.

    python -m benchmarks.state_restart --keys 10000000

Through the real host, its own process (`task_server.home_of`): batches of 200,000 new keys (20
B, values of 50 B), then updates of random keys in a few batches, then restarts:

    new machine     nothing is there but the files
    same machine    the host was killed; its copy on disk is there, but for the last batch

With `--at-once` the keys are not sent in batches: one first file is written, in the order in which
they would have come. A host whose state is on disk writes it in the order of its keys, which is
read with about half of the CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla.client.serde import Bytes
from ottla.engine.graph import Graph, ProcessorNode, SourceNode
from ottla.engine.packed_rows import pack_input_rows
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import InputRow, Record, ValueAndTimestamp
from ottla.engine.state_folder import LocalFolder
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task_files import TaskFiles
from ottla.engine.task_plan import TaskPlan
from ottla.engine.task_server import TaskClient, connect_to_task_host
from ottla.engine.windowed_serdes import LONG
from ottla.spark.chunk_processor import pickled

BATCH = 200_000


class Keep(Processor[bytes, bytes]):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.table = context.store("table")

    def process(self, record: Record[bytes, bytes]) -> None:
        self.table.get(record.key)
        self.table.put(record.key, ValueAndTimestamp(record.value, record.timestamp))


def plan(local: Path, memory_bytes_max: int) -> TaskPlan:
    graph = Graph()
    graph.add(SourceNode("in", ("rows",), Bytes(), Bytes()))
    graph.add_store(StoreSpec("table", StoreKind.TIMESTAMPED_KEY_VALUE, Bytes(), Bytes()))
    graph.add(ProcessorNode("keep", Keep, ["in"], ["table"]))
    (piece,) = subtopologies(graph)
    made = TaskPlan(piece, "bench", 1, "nowhere:1")
    return replace(made, memory_bytes_max=memory_bytes_max, local_folder=str(local))


def key_of(number: int) -> bytes:
    """20 bytes; consecutive numbers give keys in random order."""
    return (number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big") + b"k" * 12


def rows(numbers: Iterator[int]) -> bytes:
    return pack_input_rows(
        [
            InputRow("rows", 0, offset, 1_000, key_of(number), os.urandom(25).hex().encode())
            for offset, number in enumerate(numbers)
        ]
    )


class BatchRuns:
    """Batches of one query, and their times."""

    def __init__(self, state: Path) -> None:
        self._state = str(state)
        self.next = 0

    def run(self, home: TaskClient, cell: bytes) -> dict[str, Any]:
        cpu, began = _cpu_s(home.line.peer), time.perf_counter()
        home.run(self._state, self.next, 0, [cell])
        self.next += 1
        return {
            "batch": self.next - 1,
            "s": round(time.perf_counter() - began, 2),
            "cpu_s": round(_cpu_s(home.line.peer) - cpu, 2),
            "anonymous_mib": _memory_mib(home.line.peer, "RssAnon"),
            "resident_mib": _memory_mib(home.line.peer, "VmRSS"),
            "resident_max_mib": _memory_mib(home.line.peer, "VmHWM"),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--at-once", action="store_true")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ottla-restart-"))
    try:
        measure(folder, given.keys, given.memory_mib << 20, at_once=given.at_once)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a host may still be closing its copy


def measure(folder: Path, keys: int, memory_bytes_max: int, *, at_once: bool) -> None:
    runs, draw = BatchRuns(folder / "state"), random.Random(1)
    here = pickled(plan(folder / "here", memory_bytes_max))
    few = rows(draw.randrange(keys) for _ in range(1_000))
    if at_once:
        write_at_once(folder / "state" / "0", keys)
        runs.next = 1
    else:
        home = connect_to_task_host("bench", here)
        for first in range(0, keys, BATCH):
            _say("grows", runs.run(home, rows(iter(range(first, min(first + BATCH, keys))))))
        for _ in range(5):
            _say("updates", runs.run(home, rows(draw.randrange(keys) for _ in range(BATCH))))
        _kill(home)
    _say_files(folder)
    there = pickled(plan(folder / "there", memory_bytes_max))
    home = connect_to_task_host("bench", there)
    for name in ("new machine", "goes on", "goes on", "goes on"):
        _say(name, runs.run(home, few))
    _say_files(folder)
    _kill(home)
    home = connect_to_task_host("bench", there)
    for name in ("same machine", "goes on"):
        _say(name, runs.run(home, few))
    home.end()


def write_at_once(folder: Path, keys: int) -> None:
    """In no order of the keys; and the values are all the same, so that the file is small."""
    value = LONG.pack(1_000) + b"v" * 50
    cells = {"table": _Cells((key_of(number), value) for number in range(keys))}
    TaskFiles(LocalFolder(folder)).write(0, [], [], cells)  # type: ignore[arg-type]


class _Cells:
    """Enough of a store's cells to write a first file."""

    def __init__(self, cells: Iterator[tuple[bytes, bytes]]) -> None:
        self.items = lambda: cells


def _kill(home: TaskClient) -> None:
    os.kill(home.line.peer, signal.SIGKILL)
    home.close()


def _say_files(folder: Path) -> None:
    found = sorted((folder / "state" / "0").iterdir(), key=lambda path: path.stat().st_mtime)
    names = {"-".join(item.name.split("-")[:2]): item.stat().st_size >> 10 for item in found}
    print(json.dumps({"what": "files, KiB", **names}), flush=True)


def _say(name: str, figures: dict[str, Any]) -> None:
    print(json.dumps({"what": name, **figures}), flush=True)


def _cpu_s(process: int) -> float:
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(process: int, name: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) >> 10
    return 0


if __name__ == "__main__":
    main()
