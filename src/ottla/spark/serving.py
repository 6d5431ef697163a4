"""hypercorn around the app, in a thread or in the foreground.

Not uvicorn: ksqlDB's clients speak HTTP/2 with prior knowledge on a plain connection, which uvicorn
does not; hypercorn does, with HTTP/1.1 and WebSocket on the same port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
from types import TracebackType
from typing import Any, Final, Self

from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.rest.listening_socket import listening_socket, url_of

START_S_MAX: Final = 10.0
GRACE_S: Final = 2.0
STREAMS_MAX: Final = 256  # of one HTTP/2 connection, at once
REQUESTS_MAX: Final = 1 << 30  # of one connection; hypercorn's thousand would end long-lived ones
KEEP_ALIVE_S: Final = 75  # longer than clients keep an idle connection: they close it, not we
UNREAD_BYTES_MAX: Final = 1 << 20
UNREAD_S_MAX: Final = 5.0
"""How much of a request, and for how long, is read although its answer is ready."""


class Serving:
    """Serves in a thread of its own; `port` is known when this is made (0: any free one)."""

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._app = app
        self._tls = tls
        self._socket = listening_socket(host, port)
        self.host: str = host
        self.port: int = self._socket.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-http", daemon=True)

    @property
    def url(self) -> str:
        return url_of(self.host, self.port, secure=self._tls is not None)

    def start(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_S_MAX):
            raise RuntimeError("the HTTP server did not start")
        return self

    def close(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_unless_cancelled)
        self._stop = asyncio.Event()
        self._ready.set()
        app: Any = ReadWhole(self._app)  # hypercorn has types of its own for ASGI
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


class ReadWhole:
    """Reads the rest of a request's body before its answer ends.

    A request may be refused before its body is there (a wrong path, a server that takes no
    statements). hypercorn then hangs up behind the answer without saying that it will, and a client
    that uses the connection again is told that the server has disconnected.
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
    """Of a body that says how long it is: others are streams, and end when they want to."""
    value = dict(scope["headers"]).get(b"content-length", b"")
    return int(value) if value.isdigit() else 0


class _Secure(Config):
    """hypercorn reads certificates from files by itself; here they may come from elsewhere."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context

    @property
    def ssl_enabled(self) -> bool:
        return True

    def create_ssl_context(self) -> ssl.SSLContext:
        return self._context


def _unless_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Connections that are open at the end are cancelled; Python 3.11 prints a trace of each."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


def _quiet_log() -> logging.Logger:
    """Where it listens is said by who starts it."""
    log = logging.getLogger("ottla.spark.http")
    log.setLevel(logging.WARNING)
    return log
