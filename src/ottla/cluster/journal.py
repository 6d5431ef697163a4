"""The embedded store's file: every commit as one frame, appended and flushed.

    file    magic "OTTLAMD1", then frames
    frame   uint32 length of the payload, uint32 CRC-32 of length and payload, payload
    payload operations, one after another: uint8 kind (1 set, 2 delete), uint16 length of the
            key, key, and for a set int32 version, uint32 length of the value, value

A frame that a crash left incomplete is truncated when the file is opened; all acknowledged commits
are before it. When the file has grown to several times the size of its live entries, it is
rewritten beside the old one and renamed over it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ottla.cluster.store import KeyChange, MetaStoreError, VersionedValue

MAGIC = b"OTTLAMD1"
GROWTH_BYTES_MIN = 1024 * 1024
"""The least growth of the file before it is rewritten."""

_FRAME = struct.Struct(">II")
_OPERATION = struct.Struct(">BH")
_VALUE = struct.Struct(">iI")
_SET, _DELETE = 1, 2

log = logging.getLogger("ottla.cluster")


class JournalDisk:
    """The file operations of a journal that can fail; tests replace them."""

    def pwrite(self, descriptor: int, data: memoryview, position: int) -> int:
        return os.pwrite(descriptor, data, position)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)


DISK: Final = JournalDisk()


class Journal:
    """An open journal. `entries` has its content as of opening."""

    def __init__(
        self,
        path: Path,
        *,
        sync: bool,
        growth_bytes_min: int = GROWTH_BYTES_MIN,
        disk: JournalDisk = DISK,
    ) -> None:
        self._path = path
        self._sync = sync
        self._growth_bytes_min = growth_bytes_min
        self._disk = disk
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._lock(self._descriptor)
            self.entries = self._read()
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, changes: Iterable[KeyChange]) -> None:
        """Write one commit; on return it survives a crash. MetaStoreError if the write failed."""
        self._write(_frame(changes))

    @property
    def outgrown(self) -> bool:
        return self._size - self._base_size > max(self._growth_bytes_min, 2 * self._base_size)

    def rewrite(self, entries: dict[str, VersionedValue]) -> None:
        """Replace the file by one that has only these entries."""
        beside = self._path.with_name(self._path.name + ".new")
        changes = (KeyChange(key, entry) for key, entry in entries.items())
        content = MAGIC + b"".join(_frame([change]) for change in changes)
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            self._lock(descriptor)
            self._write_all(descriptor, content, 0)
            self._flush(descriptor)
            self._disk.rename(beside, self._path)
        except (OSError, MetaStoreError) as error:
            os.close(descriptor)
            raise MetaStoreError(f"cannot write {beside}: {error}") from error
        self._flush_directory()
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._size = self._base_size = len(content)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> dict[str, VersionedValue]:
        data = self._path.read_bytes()
        entries: dict[str, VersionedValue] = {}
        if len(data) < len(MAGIC):
            if not MAGIC.startswith(data):
                raise MetaStoreError(f"{self._path} is not a metadata journal")
            self._initialize()
            return entries
        if not data.startswith(MAGIC):
            raise MetaStoreError(f"{self._path} is not a metadata journal")
        frames = _Frames(data)
        for payload in frames:
            for change in _operations(payload):
                _apply(entries, change)
        self._truncate(frames, len(data))
        self._base_size = self._size
        return entries

    def _lock(self, descriptor: int) -> None:
        """Lock the file, because two processes would truncate each other's unfinished writes. The
        lock ends with the process."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MetaStoreError(f"{self._path} is in use by another process") from error

    def _initialize(self) -> None:
        os.ftruncate(self._descriptor, 0)
        self._size = 0
        self._write(MAGIC)
        self._base_size = self._size
        self._flush_directory()

    def _truncate(self, frames: _Frames, size: int) -> None:
        """Truncate what cannot be read; keep a copy if it is more than an unfinished write."""
        self._size = frames.end
        if frames.damaged:
            copy = self._path.with_name(self._path.name + ".damaged")
            shutil.copyfile(self._path, copy)
            log.error(
                "%s is damaged at byte %d: commits there are lost; a copy of the file is in %s",
                self._path,
                frames.damaged[0],
                copy,
            )
        if frames.end < size:
            log.warning(
                "%s: cut %d bytes of an unfinished write at byte %d",
                self._path,
                size - frames.end,
                frames.end,
            )
            os.ftruncate(self._descriptor, frames.end)
            self._flush(self._descriptor)

    def _write(self, data: bytes) -> None:
        try:
            self._write_all(self._descriptor, data, self._size)
            self._flush(self._descriptor)
        except OSError as error:
            # The part that was written must not be taken for a commit later.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise MetaStoreError(f"cannot write {self._path}: {error}") from error
        self._size += len(data)

    def _write_all(self, descriptor: int, data: bytes, position: int) -> None:
        view = memoryview(data)
        while view:
            count = self._disk.pwrite(descriptor, view, position)
            position += count
            view = view[count:]

    def _flush(self, descriptor: int) -> None:
        if self._sync:
            os.fdatasync(descriptor)

    def _flush_directory(self) -> None:
        if self._sync:
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)


class _Frames:
    """Iterates the payloads of complete frames. `end` is where the readable part ends.

    A frame with a wrong checksum is skipped if the next one is valid: every operation has the whole
    value that it sets, so the later ones are right without it.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.end = len(MAGIC)
        self.damaged: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        position = self.end
        while (following := self._valid_end(position)) or self._valid_end(
            self._claimed_end(position)
        ):
            if following:
                yield self._data[position + _FRAME.size : following]
            else:
                self.damaged.append(position)
                following = self._claimed_end(position)
            position = self.end = following

    def _valid_end(self, position: int) -> int:
        """The end of the frame at this position, or 0 if it is not complete and valid."""
        end = self._claimed_end(position)
        if end == 0 or end > len(self._data):
            return 0
        length, checksum = _FRAME.unpack_from(self._data, position)
        payload = self._data[position + _FRAME.size : end]
        return end if _checksum(length, payload) == checksum else 0

    def _claimed_end(self, position: int) -> int:
        if position == 0 or position + _FRAME.size > len(self._data):
            return 0
        length: int = _FRAME.unpack_from(self._data, position)[0]
        return position + _FRAME.size + length


def _checksum(length: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(length.to_bytes(4, "big")))


def _frame(changes: Iterable[KeyChange]) -> bytes:
    payload = bytearray()
    for change in changes:
        key = change.key.encode()
        payload += _OPERATION.pack(_DELETE if change.entry is None else _SET, len(key))
        payload += key
        if change.entry is not None:
            payload += _VALUE.pack(change.entry.version, len(change.entry.value))
            payload += change.entry.value
    return _FRAME.pack(len(payload), _checksum(len(payload), bytes(payload))) + payload


def _operations(payload: bytes) -> Iterator[KeyChange]:
    position = 0
    while position < len(payload):
        kind, key_length = _OPERATION.unpack_from(payload, position)
        position += _OPERATION.size
        key = payload[position : position + key_length].decode()
        position += key_length
        if kind == _DELETE:
            yield KeyChange(key, None)
            continue
        version, size = _VALUE.unpack_from(payload, position)
        position += _VALUE.size
        yield KeyChange(key, VersionedValue(payload[position : position + size], version))
        position += size


def _apply(entries: dict[str, VersionedValue], change: KeyChange) -> None:
    if change.entry is None:
        entries.pop(change.key, None)
    else:
        entries[change.key] = change.entry
