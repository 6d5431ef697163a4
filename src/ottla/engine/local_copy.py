"""Cells of a task on the disk of the machine where it runs: RocksDB, by rocksdict.

    <local folder>/<digest of the state's folder>-<task>/<slot>/     one store; a lock beside it

It is a copy: what counts are the files (task_files.py). A mark in it says behind which of them it
stands, by the file's id, and is written with the cells in one batch of RocksDB. So a process that
is killed leaves a copy behind an earlier file, and whoever comes next reads those that are newer.
Without a mark it was filled half, and is thrown away.

What a batch puts stays in memory until the next batch begins: if it runs again instead, that is
forgotten, and the copy is as it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.engine.cells import SortedKeys, behind_time
from ottla.engine.failures import StreamsError
from ottla.engine.serdes import LONG
from ottla.engine.state_file import Change

if TYPE_CHECKING:
    from rocksdict import Options, Rdict

CACHE_BYTES: Final = 64 * 1024 * 1024
WRITE_BUFFER_BYTES: Final = 16 * 1024 * 1024
WRITE_BUFFERS_BYTES: Final = 64 * 1024 * 1024  # of all tasks of a host
FILL_CELLS: Final = 20_000
SLOTS_MAX: Final = 64
UNUSED_S_MAX: Final = 24 * 3600.0
"""A copy that nobody has had open for so long is deleted by whoever opens another."""
MARK: Final = b"\0"
BETWEEN: Final = b"\0"
BEHIND: Final = b"\1"


class LocalCopies:
    """Those of a host. `folder` is where this machine keeps them; empty: for temporary files."""

    def __init__(self, folder: str = "") -> None:
        self._folder = Path(folder or default_folder())
        self._open: dict[str, LocalCopy] = {}
        self._options: Options | None = None

    def known(self, state: str, number: int) -> LocalCopy | None:
        """One that is open already."""
        return self._open.get(_name(state, number))

    def of(self, state: str, number: int) -> LocalCopy:
        """The copy of a task whose files are in the folder `state`."""
        name = _name(state, number)
        if name not in self._open:
            if self._options is None:
                self._options = _options()
                delete_unused(self._folder)
            self._open[name] = self._free(self._folder / name, self._options)
        return self._open[name]

    def close(self) -> None:
        for each in self._open.values():
            each.close()
        self._open.clear()

    def _free(self, folder: Path, options: Options) -> LocalCopy:
        """Another host on this machine may have one of the same task: of the time before."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for slot in range(SLOTS_MAX):
            lock = _locked(folder / f"{slot}.lock")
            if lock is not None:
                return LocalCopy(folder / str(slot), options, lock)
        raise StreamsError(f"{SLOTS_MAX} processes have a copy in {folder} open: too many")


class LocalCopy:
    """`behind` is the id of the file that it stands behind; None: it has nothing that counts."""

    def __init__(self, path: Path, options: Options, lock: int) -> None:
        self._path = path
        self._options = options
        self._lock = lock
        self._cells: dict[str, DiskCells] = {}
        self.behind: str | None = None
        try:
            self._db = self._opened()
            mark = self._db.get(MARK)
        except Exception:  # as of a disk that was full
            self._delete()
            self._db = self._opened()
            mark = None
        if mark is not None:
            self.behind, stores = pickle.loads(mark)
            for each in stores:
                self.open(each)

    @property
    def cells(self) -> dict[str, DiskCells]:
        return self._cells

    def open(self, store: str) -> DiskCells:
        if store not in self._cells:
            self._cells[store] = DiskCells(self._db, store)
        return self._cells[store]

    def empty(self) -> None:
        self._db.close()
        self._delete()
        self._cells.clear()
        self.behind = None
        self._db = self._opened()

    def fill(self, cells: Iterable[Change]) -> None:
        """Without a mark until `stand`, and without a log: it is built again if we are killed."""
        from rocksdict import WriteBatch, WriteOptions

        if self.behind is not None:
            self._db.delete(MARK)
            self.behind = None
        unlogged: Any = WriteOptions()
        unlogged.disable_wal = True
        left = iter(cells)
        while some := list(islice(left, FILL_CELLS)):
            batch = WriteBatch(raw_mode=True)
            for store, key, value in some:
                place = self.open(store).prefix + key
                if value is None:
                    batch.delete(place)
                else:
                    batch.put(place, value)
            self._db.write(batch, unlogged)
        self._db.flush()

    def stand(self, behind: str) -> None:
        """What was put is of the state behind this file: it is kept."""
        from rocksdict import WriteBatch

        if behind == self.behind and not any(each.fresh for each in self._cells.values()):
            return
        batch = WriteBatch(raw_mode=True)
        for cells in self._cells.values():
            for key, value in cells.fresh.items():
                if value is None:
                    batch.delete(cells.prefix + key)
                else:
                    batch.put(cells.prefix + key, value)
        batch.put(MARK, pickle.dumps((behind, list(self._cells))))
        self._db.write(batch)
        self.behind = behind
        self.forget_fresh()

    def forget_fresh(self) -> None:
        """What was put since `stand`."""
        for each in self._cells.values():
            each.forget_fresh()

    def close(self) -> None:
        self._cells.clear()
        self._db.close()
        os.utime(self._lock)
        os.close(self._lock)

    def _opened(self) -> Rdict:
        from rocksdict import Rdict

        return Rdict(str(self._path), self._options)

    def _delete(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


class DiskCells:
    """Of one store. `fresh` is what was put since the copy last stood behind a file."""

    on_disk = True

    def __init__(self, db: Rdict, store: str) -> None:
        self.prefix = store.encode() + BETWEEN
        self.fresh: dict[bytes, bytes | None] = {}
        self._end = store.encode() + BEHIND
        self._db = db
        self._read = db.get
        self._keys: SortedKeys | None = None

    def get(self, key: bytes) -> bytes | None:
        fresh = self.fresh
        if key in fresh:
            return fresh[key]
        found: bytes | None = self._read(self.prefix + key)
        return found

    def put(self, key: bytes, value: bytes | None) -> None:
        if self._keys is not None and key not in self.fresh:
            self._keys.add(key)
        self.fresh[key] = value

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """What is fresh goes before what RocksDB has, of which it gives one moment's."""
        if self._keys is None:
            self._keys = SortedKeys(self.fresh)
        fresh, cut = self.fresh, len(self.prefix)
        keys = self._keys.between(low, high)
        place = 0
        end = self._end if high is None else self.prefix + high
        cells: Any = self._db.items(from_key=self.prefix + (low or b""))
        for found, value in cells:
            if found >= end:
                break
            key = found[cut:]
            while place < len(keys) and keys[place] < key:
                if (put := fresh.get(keys[place])) is not None:
                    yield keys[place], put
                place += 1
            if place < len(keys) and keys[place] == key:
                place += 1
            now = fresh.get(key, value)
            if now is not None:
                yield key, now
        for each in keys[place:]:
            if (put := fresh.get(each)) is not None:
                yield each, put

    def under(
        self, stem: bytes, behind: int, first_ms: int, last_ms: int
    ) -> list[tuple[bytes, bytes]]:
        size = len(stem) + behind  # longer keys may begin with the same bytes
        found = self.range(stem + LONG.pack(first_ms), behind_time(stem, last_ms))
        return [cell for cell in found if len(cell[0]) == size and cell[0].startswith(stem)]

    def size(self) -> int:
        found = self._db.property_int_value("rocksdb.estimate-num-keys")
        return (found or 0) + len(self.fresh)

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        return list(self.fresh.items())

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        return self.range(None, None)

    def forget_fresh(self) -> None:
        self.fresh.clear()
        self._keys = None


def default_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}-state"


def delete_unused(folder: Path, now_s: float | None = None) -> None:
    """Copies of queries that are gone, and of tasks that have moved for good."""
    before_s = (time.time() if now_s is None else now_s) - UNUSED_S_MAX
    for file in folder.glob("*/*.lock"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < before_s and (lock := _locked(file)) is not None:
                shutil.rmtree(file.with_suffix(""), ignore_errors=True)
                file.unlink()
                os.close(lock)
                file.parent.rmdir()


def _name(state: str, number: int) -> str:
    return f"{hashlib.sha256(state.encode()).hexdigest()[:24]}-{number}"


def _locked(file: Path) -> int | None:
    """None: another process has it. It goes with ours, however that ends."""
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), file.stat()):  # it was not deleted just now
            os.utime(lock)
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _options() -> Options:
    """For all tasks of a host: they share memory for blocks, and for what is not written yet."""
    try:
        import rocksdict
    except ImportError:
        raise StreamsError(
            "The state of this application is larger than statestore.memory.max.bytes, and RocksDB"
            " is not there to keep it on disk: pip install rocksdict, where Spark's Python workers"
            " run; or give it more memory."
        ) from None
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    buffers = rocksdict.WriteBufferManager(WRITE_BUFFERS_BYTES, False)
    options.set_write_buffer_manager(buffers)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(1)
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(CACHE_BYTES))
    # Filters and indexes stay beside the cache, some 2 bytes for a cell: in it, in one of its
    # shards, they would push each other out, and a get took 200 us.
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options
