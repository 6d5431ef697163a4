"""A registry behind an HTTP port, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from types import TracebackType
from typing import Any, Final, Self

import uvicorn

from ottla.net.loop import run as run_loop
from ottla.registry.http_protocol import BoundedHttpProtocol
from ottla.registry.rest.access import REALM, guarded
from ottla.registry.rest.app import RegistryApp
from ottla.registry.schema_registry import SchemaRegistry
from ottla.rest.listening_socket import listening_socket, url_of
from ottla.rest.settings import AccessSettings

KEEP_ALIVE_S: Final = 75
GRACE_S: Final = 2
POLL_S: Final = 0.002


class RegistryServer:
    """`start` returns when it has read the topic and serves; what keeps it from that is raised."""

    def __init__(
        self,
        registry: SchemaRegistry,
        host: str = "127.0.0.1",
        port: int = 8081,
        *,
        tls: ssl.SSLContext | None = None,
        access: AccessSettings | None = None,
    ) -> None:
        self._registry = registry
        self._access = access or AccessSettings(REALM)
        self._tls = tls
        self._socket = listening_socket(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="ottla-registry", daemon=True)

    @property
    def url(self) -> str:
        return url_of(self.host, self.port, secure=self._tls is not None)

    def start(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self.stop()
            raise self._failure
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        if self._thread.is_alive():
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
        self.stop()

    def _run(self) -> None:
        try:
            run_loop(self._serve())
        except BaseException as error:
            self._failure = error
        self._started.set()

    async def _serve(self) -> None:
        try:
            await self._registry.start()
            self._server = server = uvicorn.Server(self._config())
            serving = asyncio.create_task(server.serve(sockets=[self._socket]))
            while not server.started and not serving.done():
                await asyncio.sleep(POLL_S)
            self._started.set()
            await serving
        finally:
            await self._registry.stop()

    def _config(self) -> uvicorn.Config:
        app: Any = guarded(RegistryApp(self._registry), self._access)
        config = uvicorn.Config(
            app,
            http=BoundedHttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        config.load()
        config.ssl = self._tls
        return config
