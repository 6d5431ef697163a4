"""For tests of TLS: an authority, listener settings, and a server with TLS."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from test_server import FRAME_BYTES_MAX, Toy

from ottla.config import ListenerSettings, ServerConfig, TlsSettings, tls_settings
from ottla.net.connection_security import ConnectionSecurity
from ottla.net.inter_broker_connection import InterBrokerConnection
from ottla.net.listener_tls import ListenerTls
from ottla.net.loop import run
from ottla.net.server import Server
from ottla.testing.certificates import CertificateAuthority, CertificateFiles

TlsTest = Callable[[Toy, Server, int], Coroutine[Any, Any, None]]


@functools.cache
def authority() -> CertificateAuthority:
    return CertificateAuthority(Path(tempfile.mkdtemp(prefix="ottla-tls-")))


@functools.cache
def issued(name: str, **more: Any) -> CertificateFiles:
    return authority().issue(name, **more)


def settings(keystore: Path | None = None, **properties: str) -> TlsSettings:
    """Of listener SSL; names with underscores for dots."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    config = ServerConfig(
        {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": str(keystore or issued("broker").keystore),
            "ssl.truststore.location": str(authority().certificate),
            **named,
        }
    )
    return tls_settings(ListenerSettings(config, "SSL"), "SSL")


def client_security(keystore: Path | None = None, **properties: str) -> ConnectionSecurity:
    return ConnectionSecurity(ListenerTls(settings(keystore, **properties)))


async def open_tls(
    port: int, security: ConnectionSecurity | None = None, host: str = "localhost"
) -> InterBrokerConnection:
    return await InterBrokerConnection.open(
        host,
        port,
        client_id="test",
        timeout_s=60,
        security=client_security() if security is None else security,
    )


def serve_tls(test: TlsTest, tls: ListenerTls | None = None, **limits: Any) -> None:
    async def main() -> None:
        toy = Toy()
        values: dict[str, Any] = {
            "frame_bytes_max": 64 * FRAME_BYTES_MAX,
            "connections_max": 100,
            "connections_per_ip_max": 100,
            "idle_s_max": 60.0,
            "backlog": 50,
        }
        server = Server(toy, **{**values, **limits})
        port = server.listen("SSL", "127.0.0.1", 0, tls=tls or ListenerTls(settings()))
        server.accept()
        try:
            await test(toy, server, port)
        finally:
            await server.stop(0.1)

    run(main())
