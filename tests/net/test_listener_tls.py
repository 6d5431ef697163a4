"""Certificates that are replaced while a listener is open (KIP-226, KIP-978)."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from test_inter_broker_connection import beat
from test_server import Toy
from tls_rig import authority, client_security, issued, open_tls, serve_tls, settings

from ottla.config import ConfigError
from ottla.net.listener_tls import ListenerTls
from ottla.net.server import Server
from ottla.testing.certificates import LOCAL_NAMES, CertificateAuthority


def own_keystore(path: Path) -> Path:
    """A copy that a test may replace."""
    return Path(shutil.copy(issued("broker").keystore, path / "broker.pem"))


def serial(line: object) -> bytes:
    certificate: bytes = line._stream.certificate()  # type: ignore[attr-defined]
    return certificate


def test_a_file_that_changes_is_used_for_new_connections(tmp_path: Path) -> None:
    keystore = own_keystore(tmp_path)
    tls = ListenerTls(settings(keystore))

    async def test(toy: Toy, server: Server, port: int) -> None:
        old = await open_tls(port)
        tls.refresh()
        renewed = CertificateAuthority(authority().directory).issue("broker")
        shutil.copy(renewed.keystore, keystore)
        tls.refresh()
        new = await open_tls(port)
        assert serial(old) != serial(new)
        assert await beat(old, 1) == await beat(new, 1) == 1
        old.close()
        new.close()

    serve_tls(test, tls)


def test_an_unusable_file_is_logged_once_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keystore = own_keystore(tmp_path)
    tls = ListenerTls(settings(keystore))
    context = tls.context
    keystore.write_text("half a fi")
    with caplog.at_level(logging.ERROR, "ottla.net"):
        tls.refresh()
        tls.refresh()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "Listener SSL keeps its certificates" in caplog.text
    assert tls.context is context
    keystore.write_text(issued("broker").keystore.read_text())
    tls.refresh()
    assert tls.context is not context


def test_another_subject_is_refused_unless_allowed() -> None:
    tls = ListenerTls(settings())
    other = issued("other").keystore
    with pytest.raises(ConfigError, match="subject would change from CN=broker to CN=other"):
        tls.reconfigure(settings(other))
    tls.reconfigure(settings(other, ssl_allow_dn_changes="true"))
    assert tls.settings.keystore.location == str(other)


def test_a_lost_alternative_name_is_refused_unless_allowed() -> None:
    tls = ListenerTls(settings())
    fewer = issued("fewer", subject="/CN=broker", alternative_names=LOCAL_NAMES[:1]).keystore
    more = issued("more", subject="/CN=broker", alternative_names=(*LOCAL_NAMES, "DNS:x")).keystore
    with pytest.raises(ConfigError, match="2 subject alternative names would be lost"):
        tls.reconfigure(settings(fewer))
    tls.reconfigure(settings(more))
    tls.reconfigure(settings(fewer, ssl_allow_san_changes="true"))


def test_a_truststore_cannot_be_removed() -> None:
    tls = ListenerTls(settings())
    with pytest.raises(ConfigError, match="can't be removed from a listener"):
        tls.check(settings(ssl_truststore_location=""))


def test_brokers_can_replace_their_certificates_one_after_the_other(tmp_path: Path) -> None:
    stranger = CertificateAuthority(tmp_path)
    foreign = stranger.issue("broker").keystore
    client_auth = {"ssl_client_auth": "required"}
    tls = ListenerTls(settings(**client_auth), inter_broker=True)
    with pytest.raises(ConfigError, match="do not trust each other"):
        tls.check(settings(foreign, **client_auth))
    tls.check(settings(issued("renewed", subject="/CN=broker").keystore, **client_auth))
    alone = ListenerTls(settings(**client_auth))
    alone.check(settings(foreign, **client_auth))


def test_inter_broker_connections_use_the_certificates_of_their_listener() -> None:
    security = client_security(issued("alice").keystore)
    tls = security.tls
    assert tls is not None
    before = tls.client_context
    tls.reconfigure(settings(issued("alice-2", subject="/CN=alice").keystore))
    assert tls.client_context is not before
