"""hypercorn around the app, in a thread or in the foreground.

Not uvicorn: ksqlDB's clients speak HTTP/2 with prior knowledge on a plain connection, which uvicorn
does not; hypercorn does, with HTTP/1.1 and WebSocket on the same port.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from types import TracebackType
from typing import Any, Final, Self

from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette

START_S_MAX: Final = 10.0
GRACE_S: Final = 2.0
STREAMS_MAX: Final = 256  # of one HTTP/2 connection, at once
REQUESTS_MAX: Final = 1 << 30  # of one connection; hypercorn's thousand would end long-lived ones
BACKLOG: Final = 256


class Serving:
    """Serves in a thread of its own; `port` is known when this is made (0: any free one)."""

    def __init__(
        self,
        app: Starlette,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._app = app
        self._tls = tls
        self._socket = _listening(host, port)
        self.host: str = host
        self.port: int = self._socket.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-http", daemon=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

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
        self._stop = asyncio.Event()
        self._ready.set()
        app: Any = self._app  # hypercorn has types of its own for ASGI
        await serve(app, self._config(), shutdown_trigger=self._stop.wait)

    def _config(self) -> Config:
        config = Config() if self._tls is None else _Secure(self._tls)
        config.bind = [f"fd://{self._socket.detach()}"]  # hypercorn closes it
        config.graceful_timeout = GRACE_S
        config.h2_max_concurrent_streams = STREAMS_MAX
        config.keep_alive_max_requests = REQUESTS_MAX
        config.accesslog = None
        config.errorlog = _quiet_log()
        config.include_server_header = False
        return config


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


def _quiet_log() -> logging.Logger:
    """Where it listens is said by who starts it."""
    log = logging.getLogger("ottla.spark.http")
    log.setLevel(logging.WARNING)
    return log


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made
