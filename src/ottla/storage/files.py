"""The seam to the disk: everything that storage asks of an operating system.

`DiskFiles` is the real one; `ottla.testing.memory_files` has one in memory whose calls can be made
to fail. A file is closed when the last reference to it is dropped, so that a fetch under way keeps
the descriptor of a segment that retention has just deleted.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import NamedTuple, Protocol

Data = bytes | bytearray | memoryview

# The disk has no room, or the process no descriptors: the files are sound, and a later call may
# succeed. Any other error takes the whole directory offline.
PASSING_ERRNOS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
)


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    size: int
    is_dir: bool


class LockedError(Exception):
    """Another process holds the directory."""


class File(Protocol):
    """An open file, read and written at positions."""

    def fileno(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes: ...

    def pwrite(self, data: Data, position: int) -> int: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def sync(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Every method may raise OSError."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File: ...

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        """Replace a file atomically: a crash leaves all of `data`, or the old content."""

    def entries(self, path: str) -> list[DirectoryEntry]: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Delete a file; it is not an error if it does not exist."""

    def remove_tree(self, path: str) -> None: ...

    def make_dir(self, path: str) -> None: ...

    def sync(self, path: str) -> None:
        """Sync a file's bytes, or a directory's names, to the disk."""

    def space(self, path: str) -> tuple[int, int]:
        """Total bytes and free bytes of the volume."""

    def lock(self, path: str) -> Lock:
        """LockedError if another process has it."""


class DiskFile:
    """A descriptor that is closed with the last reference to it."""

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def __del__(self) -> None:
        os.close(self._fd)

    def __repr__(self) -> str:
        return f"DiskFile({self.path})"

    def fileno(self) -> int:
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def pwrite(self, data: Data, position: int) -> int:
        return os.pwrite(self._fd, data, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def sync(self) -> None:
        os.fsync(self._fd)


class DiskLock:
    """Two locks on one file: flock keeps out another Ottla, lockf (POSIX) a Java broker."""

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LockedError(path) from None
            raise

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DiskFiles:
    """The operating system's files."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT | os.O_TRUNC
        return DiskFile(os.open(path, flags, 0o644), path)

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            data = os.read(fd, size) if size else b""
            while len(data) < size and (more := os.read(fd, size - len(data))):
                data += more
            return data
        finally:
            os.close(fd)

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        # The suffix is Kafka's, and neither broker reads such a file at its next start. The data is
        # synced before the rename: else a power cut could leave the new name with no bytes.
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            if file.pwrite(data, 0) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), temporary)
            if sync:
                file.sync()
            os.replace(temporary, path)
        except OSError:
            self.remove(temporary)
            raise
        if sync:
            self.sync(os.path.dirname(path))

    def entries(self, path: str) -> list[DirectoryEntry]:
        found = []
        with os.scandir(path) as names:
            for name in names:
                if name.is_dir(follow_symlinks=False):
                    found.append(DirectoryEntry(name.name, 0, True))
                else:
                    found.append(DirectoryEntry(name.name, name.stat().st_size, False))
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        import shutil  # slow to load, and not needed to start

        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def sync(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def space(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def lock(self, path: str) -> DiskLock:
        return DiskLock(path)
