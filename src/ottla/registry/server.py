"""The registry's HTTP server, on an event loop in its own thread."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import uvicorn

from ottla.net.loop import run as run_loop
from ottla.registry.http_protocol import BoundedHttpProtocol
from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
from ottla.registry.rest.access import REALM, with_access_check
from ottla.registry.rest.app import RegistryApp
from ottla.rest.server_thread import ServerThread
from ottla.rest.settings import AccessSettings

KEEP_ALIVE_S: Final = 75
GRACE_S: Final = 2
POLL_S: Final = 0.002


class RegistryServer(ServerThread):
    """`start` returns once the topic is read and the port is served."""

    def __init__(
        self,
        registry: KafkaSchemaRegistry,
        host: str = "127.0.0.1",
        port: int = 8081,
        *,
        tls: ssl.SSLContext | None = None,
        access: AccessSettings | None = None,
    ) -> None:
        super().__init__(host, port, tls=tls, thread_name="ottla-registry")
        self._registry = registry
        self._access = access or AccessSettings(REALM)
        self._server: uvicorn.Server | None = None

    def _serve(self) -> None:
        run_loop(self._serve_requests())

    def _shut_down(self) -> None:
        if self._server is not None:
            self._server.should_exit = True

    async def _serve_requests(self) -> None:
        try:
            await self._registry.start()
            self._server = server = uvicorn.Server(self._config())
            serving = asyncio.create_task(server.serve(sockets=[self._socket]))
            while not server.started and not serving.done():
                await asyncio.sleep(POLL_S)
            self._serving()
            await serving
        finally:
            await self._registry.stop()

    def _config(self) -> uvicorn.Config:
        app: Any = with_access_check(RegistryApp(self._registry), self._access)
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
