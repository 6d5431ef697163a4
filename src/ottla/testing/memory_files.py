"""A file system in memory that fails on demand, as a disk fails a broker.

    files = MemoryFiles()
    files.fail("pwrite", after=3, error=errno.EIO)   # the fourth write fails, and those after it
    files.short_write(after=0, size=10)              # the next write takes ten bytes
    files.fill(1000)                                 # room for a thousand bytes more, then ENOSPC
    files.crash(random.Random(7))                    # power cut: unsynced bytes are lost or torn

Names (create, rename, remove) are durable in order, as on a journaling file system; a file's bytes
are durable up to its last sync. A crash keeps a random part of the bytes after it, and may leave
zeros or garbage in a block that was not written in time.
"""

from __future__ import annotations

import errno
import os
from random import Random
from typing import NoReturn

from ottla.storage.files import Data, DirectoryEntry, LockedError

RUBBISH_SIZE_MAX = 64


class MemoryFile:
    """An open file. It keeps its bytes even after the name is removed."""

    __slots__ = ("_files", "_node", "path")

    def __init__(self, files: MemoryFiles, node: Inode, path: str) -> None:
        self._files = files
        self._node = node
        self.path = path

    def __repr__(self) -> str:
        return f"MemoryFile({self.path})"

    def fileno(self) -> int:
        return -1

    def pread(self, size: int, position: int) -> bytes:
        self._files.check("pread", self.path)
        if position < 0:
            _raise(errno.EINVAL, self.path)
        return bytes(self._node.data[position : position + size])

    def pwrite(self, data: Data, position: int) -> int:
        self._files.check("pwrite", self.path)
        content = self._node.data
        count = self._files.allowed(len(data), position + len(data) - len(content), self.path)
        if position > len(content):
            content += bytes(position - len(content))
        content[position : position + count] = data[:count]
        self._node.synced_size = min(self._node.synced_size, position)
        return count

    def truncate(self, size: int) -> None:
        self._files.check("truncate", self.path)
        del self._node.data[size:]
        self._node.synced_size = min(self._node.synced_size, size)

    def size(self) -> int:
        return len(self._node.data)

    def sync(self) -> None:
        self._files.check("sync", self.path)
        self._node.synced_size = len(self._node.data)


class Inode:
    """The bytes of a file, and how many of them a crash can't harm."""

    __slots__ = ("data", "modified_ms", "synced_size")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced_size = 0
        self.modified_ms = 0


class MemoryLock:
    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        self._files.locked.discard(self._path)


class MemoryFiles:
    """Satisfies `ottla.storage.files.Files`."""

    def __init__(self) -> None:
        self.nodes: dict[str, Inode] = {}
        self.dirs: set[str] = {"/"}
        self.locked: set[str] = set()
        self.calls: dict[str, int] = {}
        self._faults: dict[str, tuple[int, int]] = {}
        self._short: tuple[int, int] | None = None
        self._room: int | None = None

    # Faults

    def fail(self, operation: str, *, after: int = 0, error: int = errno.EIO) -> None:
        """After `after` more calls, `operation` raises `error`, until `heal`."""
        self._faults[operation] = (self.calls.get(operation, 0) + after, error)

    def short_write(self, *, after: int = 0, size: int = 0) -> None:
        """After `after` more writes, one write accepts only `size` bytes."""
        self._short = (self.calls.get("pwrite", 0) + after, size)

    def fill(self, room: int) -> None:
        """The disk has `room` bytes left: a write that needs more is short, the next one gets
        ENOSPC."""
        self._room = room

    def heal(self) -> None:
        self._faults.clear()
        self._short = None
        self._room = None

    def crash(self, chance: Random | None = None) -> None:
        """A power cut. Without `chance` all unsynced bytes are lost; with it, some of them."""
        self.heal()
        self.locked.clear()
        for node in self.nodes.values():
            size = node.synced_size
            if chance is not None and len(node.data) > size:
                size = chance.randint(size, len(node.data))
            del node.data[size:]
            if chance is not None and size > node.synced_size and chance.random() < 0.3:
                rubbish = chance.randint(1, RUBBISH_SIZE_MAX)
                node.data += bytes(rubbish) if chance.random() < 0.5 else chance.randbytes(rubbish)
            node.synced_size = len(node.data)

    def kill(self) -> None:
        """The process ends without warning; the operating system has all its writes."""
        self.heal()
        self.locked.clear()

    def flip(self, path: str, position: int, mask: int = 0x01) -> None:
        self.nodes[path].data[position] ^= mask

    def check(self, operation: str, path: str) -> None:
        count = self.calls.get(operation, 0)
        self.calls[operation] = count + 1
        fault = self._faults.get(operation)
        if fault is not None and count >= fault[0]:
            _raise(fault[1], path)

    def allowed(self, size: int, growth: int, path: str) -> int:
        """How many bytes of a write are accepted."""
        if self._short is not None and self.calls["pwrite"] - 1 >= self._short[0]:
            size = min(size, self._short[1])
            self._short = None
            return size
        if self._room is not None and growth > 0:
            if self._room == 0:
                _raise(errno.ENOSPC, path)
            taken = min(growth, self._room)
            self._room -= taken
            return size - (growth - taken)
        return size

    # Files

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        self.check("open", path)
        node = self.nodes.get(path)
        if create:
            if os.path.dirname(path) not in self.dirs:
                _raise(errno.ENOENT, path)
            if node is None:
                node = self.nodes[path] = Inode()
            del node.data[:]
            node.synced_size = 0
        if node is None:
            _raise(errno.ENOENT, path)
        return MemoryFile(self, node, path)

    def read(self, path: str) -> bytes:
        self.check("read", path)
        return bytes(self._node(path).data)

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        making = path + ".tmp"
        file = self.open(making, create=True)
        try:
            if file.pwrite(data, 0) != len(data):
                _raise(errno.ENOSPC, making)
            if sync:
                file.sync()
        except OSError:
            self.remove(making)
            raise
        self.rename(making, path)

    def entries(self, path: str) -> list[DirectoryEntry]:
        self.check("entries", path)
        if path not in self.dirs:
            _raise(errno.ENOENT, path)
        prefix = path.rstrip("/") + "/"
        found = [
            DirectoryEntry(name[len(prefix) :], len(node.data), False)
            for name, node in self.nodes.items()
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        ]
        found += [
            DirectoryEntry(name[len(prefix) :], 0, True)
            for name in self.dirs
            if name.startswith(prefix)
            and len(name) > len(prefix)
            and "/" not in name[len(prefix) :]
        ]
        return found

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.dirs

    def size(self, path: str) -> int:
        return len(self._node(path).data)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        if source in self.dirs:
            self._rename_dir(source, target)
            return
        self.nodes[target] = self._node(source)
        del self.nodes[source]

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self.nodes.pop(path, None)

    def remove_tree(self, path: str) -> None:
        self.check("remove", path)
        prefix = path + "/"
        for name in [name for name in self.nodes if name.startswith(prefix)]:
            del self.nodes[name]
        self.dirs = {name for name in self.dirs if name != path and not name.startswith(prefix)}

    def make_dir(self, path: str) -> None:
        self.check("make_dir", path)
        while path not in self.dirs:
            self.dirs.add(path)
            path = os.path.dirname(path)

    def sync(self, path: str) -> None:
        self.check("sync", path)
        if path in self.dirs:
            return
        node = self._node(path)
        node.synced_size = len(node.data)

    def space(self, path: str) -> tuple[int, int]:
        used = sum(len(node.data) for node in self.nodes.values())
        room = 1 << 40 if self._room is None else self._room
        return used + room, room

    def lock(self, path: str) -> MemoryLock:
        if path in self.locked:
            raise LockedError(path)
        self.locked.add(path)
        return MemoryLock(self, path)

    def _node(self, path: str) -> Inode:
        node = self.nodes.get(path)
        if node is None:
            _raise(errno.ENOENT, path)
        return node

    def _rename_dir(self, source: str, target: str) -> None:
        old = source + "/"
        for name in [name for name in self.nodes if name.startswith(old)]:
            self.nodes[f"{target}/{name[len(old) :]}"] = self.nodes.pop(name)
        self.dirs = {
            target + name[len(source) :] if name == source or name.startswith(old) else name
            for name in self.dirs
        }


def _raise(code: int, path: str) -> NoReturn:
    raise OSError(code, os.strerror(code), path)
