"""Unread bytes of a file: what a fetch passes from the disk to the socket."""

from __future__ import annotations

from typing import Protocol


class ReadableFile(Protocol):
    """An open file; it is closed with the last reference to it."""

    def fileno(self) -> int:
        """The descriptor for sendfile; -1 when there is none (a file in memory)."""

    def pread(self, size: int, position: int) -> bytes: ...


class FileSlice:
    """`size` bytes of `file` from `position` on."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: ReadableFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FileSlice({self.file!r}, position={self.position}, size={self.size})"
