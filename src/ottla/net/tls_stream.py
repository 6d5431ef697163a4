"""A TLS socket with the manners of a plain non-blocking one, so that its owner need not know.

OpenSSL reads whole records: bytes may wait in its buffer while the kernel has nothing to tell of.
So the owner asks `pending` before it waits for the socket.
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

# The far side has closed its end; elsewhere than on Linux only that the connection is broken.
HANGUP: Final = getattr(select, "POLLRDHUP", 0)


class TlsStream:
    """Bytes over TLS, after the handshake. Errors are those of a plain socket."""

    __slots__ = ("_socket",)

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock

    def fileno(self) -> int:
        return self._socket.fileno()

    def pending(self) -> int:
        """Bytes that `recv_into` gives without asking the kernel."""
        return self._socket.pending()

    def recv_into(self, buffer: memoryview) -> int:
        """One record's bytes, and what else OpenSSL holds already; 0 is the end."""
        return self._receive(buffer, eager=False)

    def recv_all_into(self, buffer: memoryview) -> int:
        """Fill it as far as there is something. Where more is expected it is better to ask the
        kernel once in vain than to wait for the loop after each record, which may be tiny: some
        clients make one of each record's header, and one of its value."""
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
            # Who makes us write before we may read, and takes nothing, would keep us spinning.
            raise ConnectionAbortedError("the peer asks for new keys, and does not read") from None
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
        """Whether the far side has closed its end, found out without reading."""
        poll = select.poll()
        poll.register(self._socket.fileno(), HANGUP)
        return bool(poll.poll(0))

    def certificate(self) -> bytes | None:
        """The far side's, as DER, if it has shown one that is trusted."""
        return self._socket.getpeercert(binary_form=True)

    def in_kernel(self) -> bool:
        """Whether the kernel encrypts what is sent (kTLS), so that sendfile may be used."""
        try:
            self._socket.getsockopt(SOL_TLS, TLS_TX, CRYPTO_INFO_BYTES)
        except OSError:
            return False
        return True

    def describe(self) -> str:
        cipher = self._socket.cipher()
        return f"{self._socket.version()} {cipher[0] if cipher else ''}"

    def close(self) -> None:
        """Say that nothing more comes, lest the far side takes it for a broken connection."""
        with contextlib.suppress(OSError, ValueError):
            self._socket.unwrap()
        self._socket.close()


async def connect_tls(sock: socket.socket, context: ssl.SSLContext, hostname: str) -> TlsStream:
    """The client's handshake on a connected socket, which is closed if it fails."""
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
    """Until the socket can be read, or written."""
    ready = loop.create_future()
    fd = sock.fileno()
    add(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        remove(fd)
