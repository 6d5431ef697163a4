"""The HTTP server of SQL and Connect: hypercorn around an ASGI app, in a thread.

Not uvicorn, because ksqlDB's clients speak HTTP/2 with prior knowledge on a plain connection, which
uvicorn does not support; hypercorn does, with HTTP/1.1 and WebSocket on the same port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Any, Final, Self

from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.rest.server_thread import ServerThread

START_S_MAX: Final = 10.0
GRACE_S: Final = 2.0
STREAMS_MAX: Final = 256  # concurrent ones of one HTTP/2 connection
REQUESTS_MAX: Final = 1 << 30  # hypercorn's default of a thousand would end long-lived connections
KEEP_ALIVE_S: Final = 75  # longer than clients keep idle connections, so that they close them
UNREAD_BYTES_MAX: Final = 1 << 20
UNREAD_S_MAX: Final = 5.0
"""How much of a request is still read, and for how long, once its response is ready."""


class HypercornServer(ServerThread):
    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(host, port, tls=tls, thread_name="ottla-http")
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def start(self, timeout_s: float | None = START_S_MAX) -> Self:
        return super().start(timeout_s)

    def _serve(self) -> None:
        asyncio.run(self._serve_requests())

    def _shut_down(self) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve_requests(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_unless_cancelled)
        self._stop = asyncio.Event()
        self._serving()
        app: Any = RequestDrain(self._app)  # hypercorn has its own types for ASGI
        await serve(app, self._config(), shutdown_trigger=self._stop.wait)

    def _config(self) -> Config:
        config = Config() if self._tls is None else _Secure(self._tls)
        config.bind = [f"fd://{self._socket.detach()}"]  # hypercorn closes it
        config.graceful_timeout = GRACE_S
        config.h2_max_concurrent_streams = STREAMS_MAX
        config.keep_alive_max_requests = REQUESTS_MAX
        config.keep_alive_timeout = KEEP_ALIVE_S
        config.accesslog = None
        config.errorlog = _quiet_log()
        config.include_server_header = False
        return config


class RequestDrain:
    """Reads the rest of a request's body before its response ends.

    A request may be refused before its body has arrived (a wrong path, a server that accepts no
    statements). hypercorn then closes the connection after the response without announcing it, and
    a client that reuses the connection gets a disconnect.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not 0 < _length(scope) <= UNREAD_BYTES_MAX:
            await self._app(scope, receive, send)
            return
        whole = False

        async def received() -> Message:
            nonlocal whole
            message = await receive()
            whole = whole or not message.get("more_body", False)
            return message

        async def read_rest() -> None:
            while not whole:
                await received()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(read_rest(), UNREAD_S_MAX)
            await send(message)

        await self._app(scope, received, sent)


def _length(scope: Scope) -> int:
    """The announced length of the body; 0 for streams, which are not drained."""
    value = dict(scope["headers"]).get(b"content-length", b"")
    return int(value) if value.isdigit() else 0


class _Secure(Config):
    """hypercorn reads certificates from files; ours may come from elsewhere."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context

    @property
    def ssl_enabled(self) -> bool:
        return True

    def create_ssl_context(self) -> ssl.SSLContext:
        return self._context


def _unless_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Open connections are cancelled at the end; Python 3.11 prints a trace for each."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


def _quiet_log() -> logging.Logger:
    """Without hypercorn's line about its address, which the caller prints."""
    log = logging.getLogger("ottla.rest.http")
    log.setLevel(logging.WARNING)
    return log
