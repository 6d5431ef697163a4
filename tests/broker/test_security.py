"""Listeners with certificates on a real broker: principals, and replaced certificates."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.security import warn_of_open_listeners
from ottla.config import ConfigError, ListenerSettings, ServerConfig, tls_settings
from ottla.errors import ErrorCode, KafkaError
from ottla.net.certificates import certificates_of
from ottla.net.connection_security import ConnectionSecurity
from ottla.net.inter_broker_connection import InterBrokerConnection
from ottla.net.listener_tls import ListenerTls
from ottla.testing.certificates import CertificateAuthority, CertificateFiles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Test = Callable[["Rig"], Coroutine[Any, Any, None]]
KEYSTORE = "listener.name.ssl.ssl.keystore.location"
BROKER = 4
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Rig:
    """A broker with an SSL listener, and clients with certificates."""

    def __init__(self, path: Path, properties: dict[str, str]) -> None:
        self.authority = CertificateAuthority(path / "certificates")
        own = self.authority.issue("broker").keystore
        self.keystore = Path(shutil.copy(own, path / "broker.pem"))
        self.config = {
            "log.dirs": str(path / "data"),
            "listeners": "SSL://127.0.0.1:0",
            KEYSTORE: str(self.keystore),
            "ssl.truststore.location": str(self.authority.certificate),
            **properties,
        }
        self.broker = Broker(ServerConfig(self.config))

    async def connect(self, certificate: CertificateFiles | None = None) -> InterBrokerConnection:
        """A client with this certificate; without one, with the broker's."""
        keystore = certificate.keystore if certificate else self.keystore
        config = ServerConfig({**self.config, KEYSTORE: str(keystore)})
        tls = ListenerTls(tls_settings(ListenerSettings(config, "SSL"), "SSL"))
        return await InterBrokerConnection.open(
            "127.0.0.1",
            self.broker.port,
            client_id="test",
            timeout_s=60,
            security=ConnectionSecurity(tls),
        )

    def principals(self) -> set[str]:
        """The principals of the connected clients."""
        channels = self.broker._server._channels
        return {str(channel._session.principal) for channel in channels}

    async def alter(self, line: InterBrokerConnection, value: str) -> tuple[ErrorCode, str]:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=BROKER,
                    resource_name=str(self.broker.node_id),
                    configs=[AlterableConfig(name=KEYSTORE, config_operation=0, value=value)],
                )
            ]
        )
        answer = await line.call(
            request,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsResponse,
            timeout_s=60,
        )
        result = answer.responses[0]
        return ErrorCode(result.error_code), result.error_message or ""


def run(path: Path, test: Test, **properties: str) -> None:
    async def main() -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        rig = Rig(path, named)
        await rig.broker.start()
        try:
            async with asyncio.timeout(60):
                await test(rig)
        finally:
            await rig.broker.stop()

    asyncio.run(main())


def seen(line: InterBrokerConnection) -> bytes:
    assert line._stream is not None
    found = line._stream.certificate()
    assert found is not None
    return found


def test_the_certificate_determines_the_principal(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        subject = "/O=Org, Inc./OU=Team/CN=alice/emailAddress=a@example.org"
        line = await rig.connect(rig.authority.issue("alice", subject=subject))
        mail = "1.2.840.113549.1.9.1=#160d61406578616d706c652e6f7267"  # as Java writes it
        assert rig.principals() == {f"User:{mail},CN=alice,OU=Team,O=Org\\, Inc."}
        line.close()

    run(tmp_path, test, ssl_client_auth="required")


def test_rules_make_names_of_subjects(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        line = await rig.connect(rig.authority.issue("alice", subject="/OU=Team/CN=Alice"))
        assert rig.principals() == {"User:alice"}
        with pytest.raises(KafkaError):
            await rig.connect(rig.authority.issue("bob", subject="/O=Other/CN=Bob"))
        line.close()

    rules = "RULE:^CN=([^,]*),OU=Team$/$1/L"
    run(tmp_path, test, ssl_client_auth="required", ssl_principal_mapping_rules=rules)


def test_without_a_certificate_a_client_is_anonymous(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        line = await rig.connect()
        assert rig.principals() == {"User:ANONYMOUS"}
        line.close()

    run(tmp_path, test)


def test_certificates_are_replaced_by_a_config_change(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        old = await rig.connect()
        renewed = rig.authority.issue("renewed", subject="/CN=broker")
        assert await rig.alter(old, str(renewed.keystore)) == (ErrorCode.NONE, "")
        new = await rig.connect()
        while seen(new) == seen(old):
            new.close()
            new = await rig.connect()
        for wrong, reason in (
            (str(rig.authority.issue("other").keystore), "the subject would change"),
            ("/no/such/file", "No such file"),
        ):
            code, message = await rig.alter(old, wrong)
            assert code is ErrorCode.INVALID_REQUEST
            assert reason in message
        again = await rig.connect()
        assert seen(again) == seen(new)
        for line in (old, new, again):
            line.close()

    run(tmp_path, test)


def test_a_certificate_in_the_config_survives_a_restart(tmp_path: Path) -> None:
    """Even if the previous file is gone, because the metadata store names the new one."""

    async def test(rig: Rig) -> None:
        old = await rig.connect()
        renewed = rig.authority.issue("renewed", subject="/CN=broker")
        assert await rig.alter(old, str(renewed.keystore)) == (ErrorCode.NONE, "")
        old.close()
        await rig.broker.stop()
        rig.keystore.unlink()
        rig.broker = Broker(ServerConfig(rig.config))
        await rig.broker.start()
        new = await rig.connect(renewed)
        (wanted, *_) = certificates_of(renewed.certificate.read_text())
        assert seen(new) == wanted
        new.close()

    run(tmp_path, test)


def test_certificates_are_replaced_when_the_file_changes(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        old = await rig.connect()
        renewed = rig.authority.issue("renewed", subject="/CN=broker")
        shutil.copy(renewed.keystore, rig.keystore)
        new = await rig.connect(renewed)
        while seen(new) == seen(old):
            new.close()
            await asyncio.sleep(0.01)
            new = await rig.connect(renewed)
        new.close()
        old.close()

    run(tmp_path, test, ottla_ssl_files_check_interval_ms="20")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.pem", None, "No such file"),
        ("store.jks", bytes.fromhex("feedfeed00000002"), "keytool -importkeystore"),
        ("empty.pem", b"-----BEGIN NOTHING-----", "no private key"),
    ],
)
def test_a_broker_with_a_bad_keystore_does_not_start(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    async def main() -> None:
        await Rig(tmp_path, {KEYSTORE: str(path)}).broker.start()

    with pytest.raises(ConfigError, match=reason):
        asyncio.run(main())


def test_a_listener_with_tls_needs_a_keystore(tmp_path: Path) -> None:
    async def main() -> None:
        await Broker(
            ServerConfig({"log.dirs": str(tmp_path), "listeners": "SSL://127.0.0.1:0"})
        ).start()

    with pytest.raises(ConfigError, match="listener SSL needs a key and a certificate"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("listener", "more", "said"),
    [
        ("PLAINTEXT://0.0.0.0:9092", {}, "may do all"),
        ("PLAINTEXT://:9092", {}, "may do all"),
        ("PLAINTEXT://[::]:9092", {"authorizer.class.name": AUTHORIZER}, "of User:ANONYMOUS"),
        ("SSL://0.0.0.0:9092", {"ssl.client.auth": "requested"}, "may do all"),
        ("SSL://0.0.0.0:9092", {"ssl.client.auth": "required"}, None),
        ("SASL_PLAINTEXT://0.0.0.0:9092", {}, None),
        ("PLAINTEXT://127.0.0.1:9092", {}, None),
        ("PLAINTEXT://localhost:9092", {}, None),
        ("PLAINTEXT://[::1]:9092", {}, None),
    ],
)
def test_an_open_listener_logs_a_warning(
    caplog: pytest.LogCaptureFixture, listener: str, more: dict[str, str], said: str | None
) -> None:
    protocol = listener.partition(":")[0]
    advertised = {"advertised.listeners": f"{protocol}://b1:9092"}
    config = ServerConfig({"listeners": listener, **advertised, **more})
    with caplog.at_level(logging.WARNING):
        warn_of_open_listeners(config)
    assert (said in caplog.text) if said else (not caplog.records)
