"""A task's cells on the local disk of the machine where it runs, in RocksDB (rocksdict).

    <local folder>/<digest of the state's folder>-<task>/<slot>/     one database; a lock beside it

The database is a copy; the state files (task_files.py) are authoritative. A mark in it names the
state file that the copy corresponds to, and one RocksDB write batch stores mark and cells. So a
killed process leaves a copy that matches an earlier state file, and the next process reads only the
newer files. A copy without a mark was filled partially and is deleted.

The puts of a batch stay in memory until the next batch begins: if Spark runs the batch again
instead, they are dropped and the copy is as it was before the batch.
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
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.engine.cells import SortedKeys, behind_time
from ottla.engine.failures import StreamsError
from ottla.engine.state_file import CellChange
from ottla.engine.windowed_serdes import LONG

if TYPE_CHECKING:
    from rocksdict import Options, Rdict

CACHE_BYTES: Final = 64 * 1024 * 1024
WRITE_BUFFER_BYTES: Final = 16 * 1024 * 1024
WRITE_BUFFERS_BYTES: Final = 64 * 1024 * 1024  # of all tasks of a host
FILL_CELLS: Final = 20_000
SLOTS_MAX: Final = 64
UNUSED_S_MAX: Final = 24 * 3600.0
"""A process that opens a copy deletes those that have not been open for this long."""
MARK: Final = b"\0"
BETWEEN: Final = b"\0"
BEHIND: Final = b"\1"
_place: Final = itemgetter(0, 1)


class LocalCopies:
    """The copies of one host process in `folder`; empty: the folder for temporary files."""

    def __init__(self, folder: str = "") -> None:
        self._folder = Path(folder or default_folder())
        self._open: dict[str, LocalCopy] = {}
        self._options: Options | None = None

    def known(self, state: str, number: int) -> LocalCopy | None:
        """The task's copy if it is open."""
        return self._open.get(_name(state, number))

    def of(self, state: str, number: int) -> LocalCopy:
        """The copy of the task whose state files are in the folder `state`."""
        name = _name(state, number)
        if name not in self._open:
            if self._options is None:
                self._options = _options()
                delete_unused(self._folder)
            self._open[name] = self._free(self._folder / name, self._options)
        return self._open[name]

    def close(self) -> None:
        for copy in self._open.values():
            copy.close()
        self._open.clear()

    def _free(self, folder: Path, options: Options) -> LocalCopy:
        """Opens the first unlocked slot: an earlier host on this machine may still hold one."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for slot in range(SLOTS_MAX):
            lock = _locked(folder / f"{slot}.lock")
            if lock is not None:
                return LocalCopy(folder / str(slot), options, lock)
        raise StreamsError(f"Too many processes ({SLOTS_MAX}) have local state in {folder} open")


class LocalCopy:
    """`file_id` names the state file that the copy corresponds to; None: it is incomplete."""

    def __init__(self, path: Path, options: Options, lock: int) -> None:
        self._path = path
        self._options = options
        self._lock = lock
        self._cells: dict[str, DiskCells] = {}
        self.file_id: str | None = None
        try:
            self._db = self._opened()
            mark = self._db.get(MARK)
        except Exception:  # a full disk, for instance, can leave a damaged database
            self._delete()
            self._db = self._opened()
            mark = None
        if mark is not None:
            self.file_id, stores = pickle.loads(mark)
            for store in stores:
                self.open(store)

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
        self.file_id = None
        self._db = self._opened()

    def fill(self, cells: Iterable[CellChange]) -> None:
        """Bulk-loads cells. The mark is removed until `commit` and the WAL is off, because a killed
        process loads again from the state files. RocksDB compacts once, afterwards, because cells
        in no order of their keys would be rewritten again and again; and it gets them in order by
        portions, because Python sorts them faster."""
        from rocksdict import WriteBatch, WriteOptions

        if self.file_id is not None:
            self._db.delete(MARK)
            self.file_id = None
        unlogged: Any = WriteOptions()
        unlogged.disable_wal = True
        self._db.set_options({"disable_auto_compactions": "true"})
        left, last, prefix = iter(cells), None, b""
        while some := list(islice(left, FILL_CELLS)):
            some.sort(key=_place)  # stable: the last value of a cell still wins
            batch = WriteBatch(raw_mode=True)
            for store, key, value in some:
                if store != last:
                    last, prefix = store, self.open(store).prefix
                if value is None:
                    batch.delete(prefix + key)
                else:
                    batch.put(prefix + key, value)
            self._db.write(batch, unlogged)
        self._db.flush()
        self._db.set_options({"disable_auto_compactions": "false"})

    def commit(self, file_id: str) -> None:
        """Makes the puts durable: they are part of the state of this file. One write batch stores
        cells and mark, so they never disagree."""
        from rocksdict import WriteBatch

        os.utime(self._lock)  # a killed process does not close its copy
        if file_id == self.file_id and not any(cells.pending for cells in self._cells.values()):
            return
        batch = WriteBatch(raw_mode=True)
        for cells in self._cells.values():
            for key, value in cells.pending.items():
                if value is None:
                    batch.delete(cells.prefix + key)
                else:
                    batch.put(cells.prefix + key, value)
        batch.put(MARK, pickle.dumps((file_id, list(self._cells))))
        self._db.write(batch)
        self.file_id = file_id
        self.discard_pending()

    def discard_pending(self) -> None:
        """Drops the puts since `commit`."""
        for cells in self._cells.values():
            cells.discard_pending()

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
    """The cells of one store. `pending` has the puts since the last `commit`."""

    on_disk = True

    def __init__(self, db: Rdict, store: str) -> None:
        self.prefix = store.encode() + BETWEEN
        self.pending: dict[bytes, bytes | None] = {}
        self._end = store.encode() + BEHIND
        self._db = db
        self._read = db.get
        self._keys: SortedKeys | None = None

    def get(self, key: bytes) -> bytes | None:
        pending = self.pending
        if key in pending:
            return pending[key]
        found: bytes | None = self._read(self.prefix + key)
        return found

    def put(self, key: bytes, value: bytes | None) -> None:
        if self._keys is not None and key not in self.pending:
            self._keys.add(key)
        self.pending[key] = value

    def put_all(self, cells: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in cells:
            self.put(key, value)

    def put_new(
        self, cells: Sequence[tuple[bytes, bytes]], stems: Sequence[bytes], behind: int
    ) -> None:
        self.put_all(cells)

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Merges `pending`, which wins, into a consistent snapshot of RocksDB."""
        if self._keys is None:
            self._keys = SortedKeys(self.pending)
        pending, cut = self.pending, len(self.prefix)
        keys = self._keys.between(low, high)
        place = 0
        end = self._end if high is None else self.prefix + high
        cells: Any = self._db.items(from_key=self.prefix + (low or b""))
        for found, value in cells:
            if found >= end:
                break
            key = found[cut:]
            while place < len(keys) and keys[place] < key:
                if (put := pending.get(keys[place])) is not None:
                    yield keys[place], put
                place += 1
            if place < len(keys) and keys[place] == key:
                place += 1
            now = pending.get(key, value)
            if now is not None:
                yield key, now
        for key in keys[place:]:
            if (put := pending.get(key)) is not None:
                yield key, put

    def under(
        self, stem: bytes, behind: int, first_ms: int, last_ms: int
    ) -> list[tuple[bytes, bytes]]:
        size = len(stem) + behind  # longer keys may begin with the same bytes
        found = self.range(stem + LONG.pack(first_ms), behind_time(stem, last_ms))
        return [cell for cell in found if len(cell[0]) == size and cell[0].startswith(stem)]

    def under_each(
        self, wanted: Iterable[tuple[bytes, int, int]], behind: int
    ) -> list[list[tuple[bytes, bytes]]]:
        return [self.under(stem, behind, first_ms, last_ms) for stem, first_ms, last_ms in wanted]

    def size(self) -> int:
        found = self._db.property_int_value("rocksdb.estimate-num-keys")
        return (found or 0) + len(self.pending)

    def changes(self, store: str) -> list[tuple[str, bytes, bytes | None]]:
        return [(store, key, value) for key, value in self.pending.items()]

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        return self.range(None, None)

    def discard_pending(self) -> None:
        self.pending.clear()
        self._keys = None


def default_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}-state"


def delete_unused(folder: Path, now_s: float | None = None) -> None:
    """Deletes copies of dropped queries and of tasks that have moved to another machine."""
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
    """None if another process holds the lock. The kernel releases ours however we exit."""
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), file.stat()):  # not deleted in between
            os.utime(lock)
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _options() -> Options:
    """Options for all tasks of a host, which share a block cache and memory for write buffers."""
    try:
        import rocksdict
    except ImportError:
        raise StreamsError(
            "The state of this application is larger than statestore.memory.max.bytes, and RocksDB"
            " is not installed to keep it on disk: pip install rocksdict, where Spark's Python"
            " workers run; or give it more memory."
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
    # Filters and indexes stay outside the cache (about 2 bytes per cell): inside it they evicted
    # each other from its shards, and a get took 200 us.
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options
