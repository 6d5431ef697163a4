"""Replies on their way out: byte strings and file slices that wait for the socket."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from ottla.net.limits import GATHER_PARTS_MAX, TLS_CHUNK_BYTES, TURN_BYTES_MAX
from ottla.net.tls_stream import TlsStream
from ottla.slices import FileSlice

Part = bytes | bytearray | memoryview | FileSlice

# More follows: lets the kernel put a header and the records behind it into the same packets.
MORE: Final = getattr(socket, "MSG_MORE", 0)
SHORTER: Final = "a log file is shorter than the response promised"


class Outbox:
    """Parts for one plain socket. Slices go from the page cache to the socket by sendfile."""

    __slots__ = ("_fd", "_parts", "_socket", "size")

    def __init__(self, sock: socket.socket | TlsStream) -> None:
        self._socket: Any = sock
        self._fd = sock.fileno()
        self._parts: deque[Part] = deque()
        self.size = 0

    def push(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self._parts.append(part)
            self.size += len(part)

    def flush(self) -> bool:
        """Send as much as the socket takes. False: call again when it is writable."""
        parts = self._parts
        turn = TURN_BYTES_MAX
        try:
            while parts:
                if turn <= 0:
                    return False
                head = parts[0]
                if isinstance(head, FileSlice):
                    sent = self._send_slice(head)
                elif len(parts) == 1:
                    sent = self._socket.send(head)
                    self._consume(sent)
                else:
                    sent = self._send_run()
                turn -= sent
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def _send_run(self) -> int:
        """Send the byte strings up to the next slice in one system call."""
        run: list[bytes | bytearray | memoryview] = []
        flags = 0
        for part in self._parts:
            if isinstance(part, FileSlice):
                flags = MORE
                break
            run.append(part)
            if len(run) == GATHER_PARTS_MAX:
                break
        sent: int = self._socket.sendmsg(run, (), flags)
        self._consume(sent)
        return sent

    def _send_slice(self, head: FileSlice) -> int:
        source = head.file.fileno()
        if source < 0:  # a file in memory has no descriptor for sendfile
            data = head.read()
            if len(data) != head.size:
                raise ConnectionAbortedError(SHORTER)
            self._parts[0] = data
            return 0
        sent = os.sendfile(self._fd, source, head.position, min(head.size, TURN_BYTES_MAX))
        if sent == 0:
            raise ConnectionAbortedError(SHORTER)
        self.size -= sent
        if sent == head.size:
            self._parts.popleft()
        else:
            self._parts[0] = FileSlice(head.file, head.position + sent, head.size - sent)
        return sent

    def _consume(self, sent: int) -> None:
        """Drop `sent` bytes of the byte strings at the head."""
        parts = self._parts
        self.size -= sent
        while sent:
            head = parts[0]
            size = len(head)
            if sent < size:
                assert not isinstance(head, FileSlice)
                parts[0] = memoryview(head)[sent:]
                return
            sent -= size
            parts.popleft()
        while parts and not len(parts[0]):
            parts.popleft()


class TlsOutbox(Outbox):
    """Parts for one TLS connection, gathered into chunks because each call makes TLS records.

    Slices are read into the chunk, unless the kernel encrypts (kTLS): then sendfile sends them.
    """

    __slots__ = ("_chunk", "_in_kernel", "_scratch")

    def __init__(self, stream: TlsStream, scratch: memoryview | None = None) -> None:
        super().__init__(stream)
        self._in_kernel = stream.in_kernel()
        self._scratch = memoryview(bytearray(TLS_CHUNK_BYTES)) if scratch is None else scratch
        self._chunk: memoryview | None = None  # what OpenSSL has only sent in part

    def flush(self) -> bool:
        turn = TURN_BYTES_MAX
        try:
            while self.size:
                if turn <= 0:
                    return False
                if (
                    self._in_kernel
                    and self._chunk is None
                    and isinstance(self._parts[0], FileSlice)
                ):
                    turn -= self._send_slice(self._parts[0])
                else:
                    turn -= self._send_chunk()
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def _send_chunk(self) -> int:
        chunk = self._gather() if self._chunk is None else self._chunk
        try:
            sent: int = self._socket.send(chunk)
        except BlockingIOError:
            # OpenSSL must get the same bytes again, and other connections use the scratch buffer
            # meanwhile: hence a copy.
            if self._chunk is None:
                self._chunk = memoryview(bytes(chunk))
            raise
        self.size -= sent
        rest = chunk[sent:]
        if not len(rest):
            self._chunk = None
        else:
            self._chunk = rest if self._chunk is not None else memoryview(bytes(rest))
        return sent

    def _gather(self) -> memoryview:
        """As many parts as fit into one chunk."""
        parts, scratch = self._parts, self._scratch
        filled = 0
        while parts and filled < len(scratch):
            head = parts[0]
            room = scratch[filled:]
            if isinstance(head, FileSlice):
                if self._in_kernel:
                    break
                count = _read_slice(head, room)
                rest: Part = FileSlice(head.file, head.position + count, head.size - count)
            else:
                count = min(len(head), len(room))
                view = memoryview(head)
                room[:count] = view[:count]
                rest = view[count:]
            filled += count
            if len(rest):
                parts[0] = rest
            else:
                parts.popleft()
        return scratch[:filled]


def _read_slice(head: FileSlice, room: memoryview) -> int:
    count = min(head.size, len(room))
    source = head.file.fileno()
    if source < 0:
        data = head.file.pread(count, head.position)
        room[: len(data)] = data
        read = len(data)
    else:
        read = os.preadv(source, [room[:count]], head.position)
    if read == 0:
        raise ConnectionAbortedError(SHORTER)
    return read
