"""The outbox: order, partial writes, sendfile, files in memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.net.limits import TURN_BYTES_MAX
from ottla.net.outbox import Outbox
from ottla.slices import FileSlice


class DiskFile:
    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        return self.fd

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self.fd, size, position)


class MemoryFile:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def fileno(self) -> int:
        return -1

    def pread(self, size: int, position: int) -> bytes:
        return self.data[position : position + size]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def drain(outbox: Outbox, theirs: socket.socket, size: int) -> bytes:
    """Flush and read in turns until `size` bytes came out."""
    received = bytearray()
    while len(received) < size:
        outbox.flush()
        try:
            received += theirs.recv(1 << 20)
        except BlockingIOError:
            continue
    return bytes(received)


def test_byte_strings_leave_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    outbox = Outbox(ours)
    outbox.push([b"one", bytearray(b"two"), memoryview(b"three")])
    assert outbox.size == 11
    assert outbox.flush()
    assert outbox.size == 0
    assert theirs.recv(100) == b"onetwothree"


def test_empty_parts_do_not_stop_the_queue(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    outbox = Outbox(ours)
    outbox.push([b"a", b"", b"b", b""])
    assert outbox.flush()
    assert theirs.recv(10) == b"ab"


def test_a_slice_of_a_file_goes_between_its_headers(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = pair
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    outbox = Outbox(ours)
    outbox.push([b"<", FileSlice(DiskFile(path), 2, 5), b">"])
    assert outbox.flush()
    assert theirs.recv(100) == b"<23456>"


def test_a_full_socket_keeps_the_rest_for_later(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = pair
    path = tmp_path / "log"
    content = os.urandom(3_000_000)
    path.write_bytes(content)
    outbox = Outbox(ours)
    outbox.push([b"h" * 500_000, FileSlice(DiskFile(path), 0, len(content)), b"t" * 500_000])
    assert not outbox.flush()
    assert 0 < outbox.size < 4_000_000
    expected = b"h" * 500_000 + content + b"t" * 500_000
    assert drain(outbox, theirs, len(expected)) == expected
    assert outbox.size == 0


def test_a_file_in_memory_is_read_instead_of_sent(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    outbox = Outbox(ours)
    outbox.push([b"<", FileSlice(MemoryFile(b"0123456789"), 3, 4), b">"])
    assert drain(outbox, theirs, 6) == b"<3456>"


def test_a_file_that_shrank_breaks_the_connection_instead_of_hanging(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, _ = pair
    path = tmp_path / "log"
    path.write_bytes(b"short")
    outbox = Outbox(ours)
    outbox.push([FileSlice(DiskFile(path), 0, 100)])
    with pytest.raises(ConnectionAbortedError):
        outbox.flush()


def test_one_turn_is_bounded(tmp_path: Path) -> None:
    """A reader as fast as the sender must not monopolise the loop."""
    path = tmp_path / "log"
    size = 3 * TURN_BYTES_MAX
    with path.open("wb") as file:
        file.truncate(size)

    class Bottomless:
        """A socket that takes everything."""

        def __init__(self) -> None:
            self.fd = os.open(tmp_path / "sink", os.O_WRONLY | os.O_CREAT)

        def fileno(self) -> int:
            return self.fd

    outbox = Outbox(Bottomless())  # type: ignore[arg-type]
    outbox.push([FileSlice(DiskFile(path), 0, size)])
    turns = 1
    while not outbox.flush():
        turns += 1
    assert turns == 3
