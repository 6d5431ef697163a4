"""Embedded stores for state that is larger than memory: rocksdict, lmdb, sqlite3.

    python -m benchmarks.state_on_disk --keys 10000000

One process for each store, the same keys (20 B) and values (50 B) in the same order:

    load      all keys in their order, into an empty store
    get       random keys, one after another, most of them there
    update    batches of random keys, each in one transaction or write batch
    range     100 cells from a random key on
    delete    batches of random keys
    open      the store that is there, and one get

Nothing is synced: what is measured is a copy of files that can be built again (decision 42).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

STORES = ("rocksdict", "lmdb", "sqlite3")
BATCH = 100_000
GETS = 300_000
RANGES = 3_000
RANGE_CELLS = 100

Cell = tuple[bytes, bytes | None]


class Store(Protocol):
    def load(self, cells: Iterator[tuple[bytes, bytes]]) -> None: ...
    def get(self, key: bytes) -> bytes | None: ...
    def write(self, cells: Iterable[Cell]) -> None: ...
    def range(self, low: bytes, count: int) -> int: ...
    def close(self) -> None: ...


class Rocks:
    def __init__(self, folder: Path) -> None:
        from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteOptions

        options = Options(raw_mode=True)
        options.create_if_missing(True)
        table = BlockBasedOptions()
        table.set_block_cache(Cache(64 * 1024 * 1024))
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self._db = Rdict(str(folder), options)
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True
        self.get = self._db.get

    def load(self, cells: Iterator[tuple[bytes, bytes]]) -> None:
        for some in _batches(cells, BATCH):
            self.write(some)
        self._db.flush()

    def write(self, cells: Iterable[Cell]) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        for key, value in cells:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._db.write(batch, self._unlogged)

    def range(self, low: bytes, count: int) -> int:
        found = 0
        for _ in self._db.items(from_key=low):
            found += 1
            if found == count:
                break
        return found

    def close(self) -> None:
        self._db.flush()
        self._db.close()


class Lmdb:
    def __init__(self, folder: Path) -> None:
        import lmdb

        self._db = lmdb.open(
            str(folder), map_size=1 << 40, sync=False, metasync=False, lock=False, readahead=False
        )
        self._reading = self._db.begin(buffers=False)
        self.get = self._reading.get

    def load(self, cells: Iterator[tuple[bytes, bytes]]) -> None:
        self._reading.abort()
        for some in _batches(cells, BATCH):
            with self._db.begin(write=True) as writing, writing.cursor() as cursor:
                cursor.putmulti(some, append=True)
        self._reading = self._db.begin(buffers=False)
        self.get = self._reading.get

    def write(self, cells: Iterable[Cell]) -> None:
        self._reading.abort()
        with self._db.begin(write=True) as writing:
            for key, value in sorted(cells):
                if value is None:
                    writing.delete(key)
                else:
                    writing.put(key, value)
        self._reading = self._db.begin(buffers=False)
        self.get = self._reading.get

    def range(self, low: bytes, count: int) -> int:
        found = 0
        with self._reading.cursor() as cursor:
            cursor.set_range(low)
            for _ in cursor.iternext():
                found += 1
                if found == count:
                    break
        return found

    def close(self) -> None:
        self._reading.abort()
        self._db.close()


class Sqlite:
    def __init__(self, folder: Path) -> None:
        import sqlite3

        folder.mkdir(exist_ok=True)
        self._db = sqlite3.connect(folder / "cells", isolation_level=None)
        run = self._db.execute
        run("pragma page_size = 4096")
        run("pragma journal_mode = wal")
        run("pragma synchronous = off")
        run("pragma cache_size = -65536")
        run("create table if not exists cells (k blob primary key, v blob) without rowid")
        self._run = run

    def load(self, cells: Iterator[tuple[bytes, bytes]]) -> None:
        for some in _batches(cells, BATCH):
            self._put(some)

    def get(self, key: bytes) -> bytes | None:
        found = self._run("select v from cells where k = ?", (key,)).fetchone()
        return None if found is None else found[0]

    def write(self, cells: Iterable[Cell]) -> None:
        ordered = sorted(cells)
        self._put([cell for cell in ordered if cell[1] is not None])
        gone = [(key,) for key, value in ordered if value is None]
        if gone:
            self._run("begin")
            self._db.executemany("delete from cells where k = ?", gone)
            self._run("commit")

    def _put(self, cells: Iterable[Cell]) -> None:
        self._run("begin")
        self._db.executemany("insert or replace into cells values (?, ?)", cells)
        self._run("commit")

    def range(self, low: bytes, count: int) -> int:
        rows = self._run("select k, v from cells where k >= ? order by k limit ?", (low, count))
        return len(rows.fetchall())

    def close(self) -> None:
        self._db.close()


KINDS: dict[str, Callable[[Path], Store]] = {"rocksdict": Rocks, "lmdb": Lmdb, "sqlite3": Sqlite}


def ordered_keys(count: int) -> Iterator[bytes]:
    """Keys in order, without a list of all: they are evenly spaced."""
    step = (1 << 160) // count
    return ((number * step).to_bytes(20, "big") for number in range(count))


def measure(kind: str, folder: Path, count: int) -> dict[str, Any]:
    step = (1 << 160) // count
    draw = random.Random(1)

    def some_key() -> bytes:
        return (draw.randrange(count) * step).to_bytes(20, "big")

    store = KINDS[kind](folder)
    figures: dict[str, Any] = {"store": kind, "keys": count}

    def timed(name: str, work: Callable[[], int]) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        operations = work()
        figures[name] = {
            "s": round(time.perf_counter() - began, 2),
            "us_each": round((time.perf_counter() - began) / operations * 1e6, 2),
            "cpu_us_each": round((time.process_time() - cpu) / operations * 1e6, 2),
            "anonymous_mib": _memory_mib("RssAnon"),
            "resident_mib": _memory_mib("VmRSS"),
        }

    def load() -> int:
        store.load((key, key[:10] * 5) for key in ordered_keys(count))
        return count

    def get() -> int:
        found = sum(store.get(some_key()) is not None for _ in range(GETS))
        assert found > GETS * 0.9
        return GETS

    def update() -> int:
        for _ in range(5):
            store.write({some_key(): os.urandom(50) for _ in range(BATCH)}.items())
        return 5 * BATCH

    def cells_of_ranges() -> int:
        return sum(store.range(some_key(), RANGE_CELLS) for _ in range(RANGES))

    def delete() -> int:
        for _ in range(2):
            store.write(dict.fromkeys(some_key() for _ in range(BATCH)).items())
        return 2 * BATCH

    def reopen() -> int:
        nonlocal store
        store.close()
        store = KINDS[kind](folder)
        store.get(some_key())
        return 1

    for name, work in (
        ("load", load),
        ("get", get),
        ("update", update),
        ("range", cells_of_ranges),
        ("delete", delete),
        ("open", reopen),
        ("get again", get),
    ):
        timed(name, work)
    store.close()
    files = [path for path in folder.rglob("*") if path.is_file()]
    figures["disk_mib"] = sum(file.stat().st_blocks * 512 for file in files) >> 20
    return figures


def _batches(cells: Iterator[tuple[bytes, bytes]], size: int) -> Iterator[list[Any]]:
    while some := [cell for _, cell in zip(range(size), cells, strict=False)]:
        yield some


def _memory_mib(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) >> 10
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--store", choices=STORES)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.store:
        print(json.dumps(measure(given.store, given.folder, given.keys)))
        return
    for kind in STORES:
        folder = Path(tempfile.mkdtemp(prefix="ottla-state-"))
        command = [sys.executable, "-m", "benchmarks.state_on_disk", "--store", kind]
        try:
            subprocess.run(
                [*command, "--keys", str(given.keys), "--folder", str(folder / kind)], check=True
            )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
