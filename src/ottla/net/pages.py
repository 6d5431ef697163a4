"""Pages over HTTP, made for each request, for monitoring that asks now and then.

GET and HEAD, HTTP/1.0 and 1.1, one request per connection. A client whose request is slow or long
is disconnected; beyond CONNECTIONS_MAX connections others get 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

HEAD_BYTES_MAX: Final = 16 * 1024
REQUEST_TIMEOUT_S: Final = 5.0
RESPONSE_TIMEOUT_S: Final = 30.0
CONNECTIONS_MAX: Final = 16
BACKLOG: Final = 16

log = logging.getLogger("ottla.net")


class Page(NamedTuple):
    content_type: str
    body: bytes


MakePage = Callable[[], Awaitable[Page]]


class PageServer:
    """Serves `pages`, a function per path, on the running loop."""

    def __init__(
        self,
        pages: Mapping[str, MakePage],
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._pages = pages
        self._request_timeout_s = request_timeout_s
        self._connections_max = connections_max
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; an empty host means all interfaces. Returns the port that was bound."""
        sock = _listen(host, port)
        try:
            self._server = await asyncio.start_server(
                self._connected, sock=sock, limit=HEAD_BYTES_MAX
            )
        except BaseException:
            sock.close()
            raise
        return int(sock.getsockname()[1])

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client disconnected, or sent no request in time
        except Exception:
            log.exception("Failed to serve a page")
        finally:
            self._tasks.discard(task)
            writer.transport.abort()  # the kernel has the response, and still sends it

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._request_timeout_s):
            head = await reader.readuntil(b"\r\n\r\n")
        status, page, with_body = await self._find(head)
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            writer.write(_head(status, page))
            if with_body:
                writer.write(page.body)
            writer.write_eof()
            await reader.read(1)  # until the client closes too, which then has all of it

    async def _find(self, head: bytes) -> tuple[HTTPStatus, Page, bool]:
        method, target = _request_line(head)
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _said("only GET and HEAD are served\n"), True
        if len(self._tasks) > self._connections_max:
            return HTTPStatus.SERVICE_UNAVAILABLE, _said("too many connections, try again\n"), True
        make = self._pages.get(target.partition("?")[0])
        if make is None:
            there = ", ".join(self._pages)
            return HTTPStatus.NOT_FOUND, _said(f"no such page; there are: {there}\n"), True
        try:
            return HTTPStatus.OK, await make(), method == "GET"
        except Exception:
            log.exception("Failed to make page %s", target)
            return HTTPStatus.INTERNAL_SERVER_ERROR, _said("failed: see the broker's log\n"), True


def _listen(host: str, port: int) -> socket.socket:
    if host:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        found.sort(key=lambda entry: entry[0] != socket.AF_INET)  # as listeners do it
        family, *_, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
    return socket.create_server(("", port), backlog=BACKLOG)


def _request_line(head: bytes) -> tuple[str, str]:
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return (words[0], words[1]) if len(words) == 3 else ("", "")


def _said(text: str) -> Page:
    return Page("text/plain; charset=utf-8", text.encode())


def _head(status: HTTPStatus, page: Page) -> bytes:
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
