"""The way out: replies queue here as byte strings and file slices until the socket takes them."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final

from ottla.net.flow import GATHER_PARTS_MAX, TURN_BYTES_MAX
from ottla.slices import FileSlice

Part = bytes | bytearray | memoryview | FileSlice

# Tells the kernel that more follows, so that a header and the records behind it share packets.
MORE: Final = getattr(socket, "MSG_MORE", 0)
SHORTER: Final = "a log file is shorter than the response promised"


class Outbox:
    """Parts for one plain socket. Slices go from the page cache to the socket by sendfile."""

    __slots__ = ("_fd", "_parts", "_socket", "size")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._parts: deque[Part] = deque()
        self.size = 0

    def push(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self._parts.append(part)
            self.size += len(part)

    def flush(self) -> bool:
        """Send what the socket takes. False: call again when it is writable."""
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
        """The byte strings at the head of the queue, up to the next slice, in one call."""
        run: list[bytes | bytearray | memoryview] = []
        flags = 0
        for part in self._parts:
            if isinstance(part, FileSlice):
                flags = MORE
                break
            run.append(part)
            if len(run) == GATHER_PARTS_MAX:
                break
        sent = self._socket.sendmsg(run, (), flags)
        self._consume(sent)
        return sent

    def _send_slice(self, head: FileSlice) -> int:
        source = head.file.fileno()
        if source < 0:  # a file in memory has nothing to send from
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
