"""A TLS socket that behaves like a plain non-blocking one.

One difference is left. OpenSSL reads whole records, so bytes may wait in its buffer while the
kernel reports nothing to read: the owner must ask `pending` before it waits for the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
from typing import Final

RECORD_BYTES_MAX: Final = 16 * 1024
SOL_TLS: Final = 282
TLS_TX: Final = 1
CRYPTO_INFO_BYTES: Final = 4

# The peer has closed its end. Only Linux has this flag; 0 reports a broken connection only.
HANGUP: Final = getattr(select, "POLLRDHUP", 0)


class TlsStream:
    """Bytes over TLS, after the handshake. Errors are those of a plain socket."""

    __slots__ = ("_socket",)

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock

    def fileno(self) -> int:
        return self._socket.fileno()

    def pending(self) -> int:
        """Bytes that `recv_into` returns without a system call."""
        return self._socket.pending()

    def recv_into(self, buffer: memoryview) -> int:
        """One record's bytes, and what else OpenSSL has buffered; 0 is the end."""
        return self._receive(buffer, eager=False)

    def recv_all_into(self, buffer: memoryview) -> int:
        """As many records as have arrived.

        When more is expected, one system call in vain costs less than a turn of the loop after
        each TLS record: some clients send a Kafka record's header and its value in one each.
        """
        return self._receive(buffer, eager=True)

    def _receive(self, buffer: memoryview, *, eager: bool) -> int:
        received, size = 0, len(buffer)
        receive, pending = self._socket.recv_into, self._socket.pending
        try:
            while received < size:
                count = receive(buffer[received:])
                received += count
                if count == 0 or (not eager and count < RECORD_BYTES_MAX and not pending()):
                    break
        except ssl.SSLWantReadError:
            if not received:
                raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            # A peer that makes us write before we may read, and reads nothing, would make us spin.
            raise ConnectionAbortedError("the peer asks for new keys and does not read") from None
        except ssl.SSLError:
            if not received:
                raise
        return received

    def send(self, data: memoryview) -> int:
        """After BlockingIOError the same bytes have to be sent again."""
        try:
            return self._socket.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def is_gone(self) -> bool:
        """True if the peer has closed its end; reads nothing."""
        poll = select.poll()
        poll.register(self._socket.fileno(), HANGUP)
        return bool(poll.poll(0))

    def certificate(self) -> bytes | None:
        """The peer's certificate as DER, if it has presented one that is trusted."""
        return self._socket.getpeercert(binary_form=True)

    def in_kernel(self) -> bool:
        """True if the kernel encrypts what is sent (kTLS), so sendfile may be used."""
        try:
            self._socket.getsockopt(SOL_TLS, TLS_TX, CRYPTO_INFO_BYTES)
        except OSError:
            return False
        return True

    def describe(self) -> str:
        cipher = self._socket.cipher()
        return f"{self._socket.version()} {cipher[0] if cipher else ''}"

    def close(self) -> None:
        """Send close_notify first, or the peer takes this for a broken connection."""
        with contextlib.suppress(OSError, ValueError):
            self._socket.unwrap()
        self._socket.close()


async def connect_tls(sock: socket.socket, context: ssl.SSLContext, hostname: str) -> TlsStream:
    """The client's handshake on a connected socket, which is closed if the handshake fails."""
    loop = asyncio.get_running_loop()
    secured = context.wrap_socket(sock, server_hostname=hostname, do_handshake_on_connect=False)
    try:
        while True:
            try:
                secured.do_handshake()
                return TlsStream(secured)
            except ssl.SSLWantReadError:
                await _ready(loop, secured, loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await _ready(loop, secured, loop.add_writer, loop.remove_writer)
    except BaseException:
        secured.close()
        raise


async def _ready(loop, sock, add, remove) -> None:  # type: ignore[no-untyped-def]
    """Wait until the socket is readable, or writable."""
    ready = loop.create_future()
    fd = sock.fileno()
    add(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        remove(fd)
