"""TLS and SASL with a real ZooKeeper, through the broker's properties."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from ottla.cluster.store import MetaStoreError, VersionedValue
from ottla.cluster.zookeeper_options import open_store
from ottla.config import ServerConfig
from ottla.testing.ports import reserve_port
from ottla.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper

JAAS = """\
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_ottla="a-secret";
};
"""
SASL_PROPERTIES = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}


@pytest.fixture
def sasl_server(tmp_path: Path, zookeeper: ZooKeeperServer) -> ZooKeeperServer:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(JAAS)
    return ZooKeeperServer(
        properties=SASL_PROPERTIES,
        java_options=[f"-Djava.security.auth.login.config={jaas}"],
    )


def config(connect: str, **properties: str) -> ServerConfig:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ServerConfig({"zookeeper.connect": connect, **named})


def test_a_broker_authenticates_with_sasl_and_others_cannot_write(
    sasl_server: ZooKeeperServer,
) -> None:
    async def scenario() -> None:
        known = config(
            sasl_server.connect + "/ottla",
            ottla_zookeeper_sasl_username="ottla",
            ottla_zookeeper_sasl_password="a-secret",
            zookeeper_set_acl="true",
        )
        store = await open_store(known)
        await store.create("/a", b"1")
        stranger = await open_store(config(sasl_server.connect + "/ottla"))
        assert await stranger.get("/a") == VersionedValue(b"1", 0)
        with pytest.raises(MetaStoreError, match="NoAuth"):
            await stranger.put("/a", b"2", version=0)
        assert await store.put("/a", b"3", version=0) == 1
        await stranger.close()
        await store.close()

    with sasl_server:
        asyncio.run(scenario())


def test_a_wrong_password_is_reported(sasl_server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        wrong = config(
            sasl_server.connect,
            ottla_zookeeper_sasl_username="ottla",
            ottla_zookeeper_sasl_password="guessed",
        )
        with pytest.raises(MetaStoreError, match="rejected our credentials"):
            await open_store(wrong)

    with sasl_server:
        asyncio.run(scenario())


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A PEM file with key and certificate, and one with the certificate alone."""
    key, certificate, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    files = ["-addext", names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both, certificate


def test_a_broker_uses_tls_and_is_identified_by_its_certificate(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    both, certificate = make_certificate(tmp_path)
    reserved = reserve_port()
    port = reserved.getsockname()[1]
    server = ZooKeeperServer(
        properties={
            "secureClientPort": str(port),
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(both),
            "ssl.trustStore.location": str(certificate),
        },
    )

    async def scenario() -> None:
        secure = config(
            f"localhost:{port}/ottla",
            zookeeper_ssl_client_enable="true",
            zookeeper_ssl_truststore_location=str(certificate),
            zookeeper_ssl_keystore_location=str(both),
            zookeeper_connection_timeout_ms="30000",
        )
        store = await open_store(secure)
        await store.create("/a/b", b"1")
        assert await store.list("/") == {"/a/b": VersionedValue(b"1", 0)}
        await store.close()
        plain = config(f"localhost:{port}", zookeeper_connection_timeout_ms="1000")
        with pytest.raises(MetaStoreError, match="not reachable"):
            await open_store(plain)

    with server:
        asyncio.run(scenario())
    reserved.close()
