"""The location of state files: a folder in a file system, or a prefix in an object store.

    /shared/state, file:///shared/state     a local or mounted file system
    s3://bucket/prefix?endpoint_override=   a URI of pyarrow.fs (s3, gs, abfs, hdfs)

A file appears completely or not at all, and is never overwritten, because its name is unique
(state_file.py). A file system needs a draft, fsync and a rename for that; an object store shows an
object only when it is complete, and has no rename.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from pyarrow import fs

DRAFT: Final = ".new-"
SPOOLED_BYTES_MAX: Final = 16 * 1024 * 1024
COPY_BYTES: Final = 8 * 1024 * 1024
READ_BYTES: Final = 8 * 1024 * 1024
S3_SILENCE_S: Final = 60

Write = Callable[[IO[bytes]], None]


@dataclass(frozen=True, slots=True)
class FolderEntry:
    name: str
    size: int = 0
    modified_ns: int = 0


class StateFolder(Protocol):
    def make(self) -> None:
        """Creates the folder. `put` creates two levels below it, but not the folder itself, so that
        a late task can't bring back a folder that was deleted."""

    def files(self) -> list[FolderEntry]: ...

    def names(self) -> list[str]:
        """The names of its files and folders; empty if it does not exist."""

    def open(self, name: str) -> IO[bytes]: ...

    def put(self, name: str, write: Write) -> FolderEntry:
        """Durable when this returns; after an error or a crash there is no file."""

    def delete(self, name: str) -> None:
        """Deletes a file, or a folder with its contents, if it exists."""

    def child(self, name: str) -> StateFolder: ...


def state_folder(place: str) -> StateFolder:
    """By its path or URI."""
    if not is_uri(place):
        return LocalFolder(Path(place))
    if place.startswith("file:"):
        return LocalFolder(Path(place.removeprefix("file:").replace("//", "", 1)))
    base, _, query = place.partition("?")
    root = "/".join(base.split("/")[:3])  # scheme and bucket
    system, bucket = _file_system(f"{root}?{query}" if query else root)
    return ObjectFolder(system, "/".join((bucket, *base.rstrip("/").split("/")[3:])))


def is_uri(place: str) -> bool:
    return "://" in place or place.startswith("file:")


def joined(place: str, *names: str) -> str:
    """A folder within a path or URI; a URI's query stays at the end."""
    if not is_uri(place):
        return str(Path(place, *names))
    base, mark, query = place.partition("?")
    return "/".join((base.rstrip("/"), *names)) + mark + query


class LocalFolder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        for parent in list(self._path.parents)[:2]:
            _sync(parent)

    def files(self) -> list[FolderEntry]:
        found: list[FolderEntry] = []
        for name in self.names():
            with contextlib.suppress(FileNotFoundError):  # deleted since the listing
                status = (self._path / name).stat()
                found.append(FolderEntry(name, status.st_size, status.st_mtime_ns))
        return found

    def names(self) -> list[str]:
        try:
            return os.listdir(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open(self, name: str) -> IO[bytes]:
        return (self._path / name).open("rb")

    def put(self, name: str, write: Write) -> FolderEntry:
        if not self._path.exists():
            # Creates the folders of the query and the task, but not their parent: that is deleted
            # with a dropped query, and a late task must not bring it back.
            self._path.parent.mkdir(exist_ok=True)
            self._path.mkdir(exist_ok=True)
            for parent in list(self._path.parents)[:2]:
                _sync(parent)
        path = self._path / name
        # fsync before the rename, then of the folder: after a crash the name exists only with the
        # whole contents, and once this has returned, it exists.
        draft = path.with_name(f"{name}{DRAFT}{os.urandom(4).hex()}")
        with draft.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            status = os.fstat(file.fileno())
        draft.replace(path)
        _sync(self._path)
        return FolderEntry(name, status.st_size, status.st_mtime_ns)

    def delete(self, name: str) -> None:
        path = self._path / name
        try:
            path.unlink()
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(path, ignore_errors=True)

    def child(self, name: str) -> StateFolder:
        return LocalFolder(self._path / name)

    def __str__(self) -> str:
        return str(self._path)


class ObjectFolder:
    """A prefix of an object store, by pyarrow."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system = system
        self._path = path

    def make(self) -> None:
        """A prefix exists when an object has it."""

    def files(self) -> list[FolderEntry]:
        return [
            FolderEntry(info.base_name, info.size, info.mtime_ns or 0)
            for info in self._listed()
            if info.is_file
        ]

    def names(self) -> list[str]:
        return [info.base_name for info in self._listed()]

    def open(self, name: str) -> IO[bytes]:
        opened: IO[bytes] = self._system.open_input_stream(
            f"{self._path}/{name}", buffer_size=READ_BYTES
        )
        return opened

    def put(self, name: str, write: Write) -> FolderEntry:
        """Spools the file before it sends the first byte, because a pyarrow stream can't be
        abandoned: after an error it is closed, and what it has so far becomes an object."""
        with tempfile.SpooledTemporaryFile(SPOOLED_BYTES_MAX) as whole:
            write(whole)
            size = whole.tell()
            whole.seek(0)
            try:
                with self._system.open_output_stream(f"{self._path}/{name}") as out:
                    while data := whole.read(COPY_BYTES):
                        out.write(data)
            except BaseException:
                self.delete(name)
                raise
        return FolderEntry(name, size)

    def delete(self, name: str) -> None:
        path = f"{self._path}/{name}"
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(path)
            return
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_dir(path)

    def child(self, name: str) -> StateFolder:
        return ObjectFolder(self._system, f"{self._path}/{name}")

    def _listed(self) -> list[fs.FileInfo]:
        from pyarrow import fs

        found: list[fs.FileInfo] = self._system.get_file_info(
            fs.FileSelector(self._path, allow_not_found=True)
        )
        return found

    def __str__(self) -> str:
        return f"{self._system.type_name}://{self._path}"


@cache
def _file_system(root: str) -> tuple[fs.FileSystem, str]:
    """One per process, because it keeps connections; with the bucket's path, without secrets."""
    from pyarrow import fs

    system, bucket = fs.FileSystem.from_uri(root)
    if system.type_name == "s3":
        # A URI can't have timeouts. Amazon's client gives up a request after 3 s of silence: a busy
        # server takes longer to complete an upload of 500 MB, or to find a place in that object.
        remade, (options,) = system.__reduce__()
        system = remade({**options, "request_timeout": S3_SILENCE_S})
    return system, bucket


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
