from __future__ import annotations

import socket
import ssl
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.client.bootstrap_servers import parse_bootstrap_servers
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.probe import probe
from ottla.errors import ErrorCode, KafkaError
from ottla.testing import LocalCluster
from ottla.testing.certificates import CertificateAuthority
from ottla.wire.apis import ApiKey
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse


def test_addresses_are_hosts_and_ports() -> None:
    assert parse_bootstrap_servers("a:1, b:2") == [("a", 1), ("b", 2)]
    assert parse_bootstrap_servers("[::1]:9092") == [("::1", 9092)]
    assert parse_bootstrap_servers("a:1,,b:2,") == [("a", 1), ("b", 2)], "as Kafka's clients"


@pytest.mark.parametrize("text", ["localhost", "a:b", ":9092", "a:70000", "a:1,b", ",", ""])
def test_an_invalid_address_is_named(text: str) -> None:
    with pytest.raises(KafkaError, match=r"Invalid url in bootstrap\.servers"):
        parse_bootstrap_servers(text)


def test_the_second_server_is_tried_when_the_first_is_down(bootstrap: str) -> None:
    with ConnectionPool(f"localhost:1,{bootstrap}") as lines:
        assert lines.nodes()
    probe(f"localhost:1,{bootstrap}")


@pytest.mark.parametrize(
    ("security", "sentence"),
    [("ssl", "it seems to speak TLS"), ("sasl_plaintext", "it seems to ask for a login")],
)
def test_a_plain_client_learns_at_once_that_the_listener_is_secured(
    security: str, sentence: str
) -> None:
    with (
        LocalCluster(security=security) as cluster,
        pytest.raises(KafkaError, match=sentence) as caught,
    ):
        probe(cluster.bootstrap_servers)
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION


def test_an_api_that_a_broker_does_not_serve(bootstrap: str) -> None:
    with ConnectionPool(bootstrap) as lines, pytest.raises(KafkaError, match="Vote") as caught:
        lines.call(VoteRequest(), ApiKey.VOTE, VoteResponse)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_absent_broker_is_reported(bootstrap: str) -> None:
    with ConnectionPool(bootstrap) as lines, pytest.raises(KafkaError, match="999") as caught:
        lines.connection(999)
    assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def test_an_idle_connection_is_reopened() -> None:
    with LocalCluster() as cluster, ConnectionPool(cluster.bootstrap_servers) as lines:
        before = lines.nodes()
        hang_up(lines)
        assert lines.nodes(refresh=True) == before
        cluster.stop()
        with pytest.raises(KafkaError, match="cannot reach"):
            lines.nodes(refresh=True)


def hang_up(lines: ConnectionPool) -> None:
    """As a broker does."""
    lines.first._socket.shutdown(socket.SHUT_RDWR)


def _server(answer: bytes | None) -> tuple[str, int]:
    """A server that reads a little and sends these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as client:
            client.recv(1000)
            if answer is not None:
                client.sendall(answer)
                with suppress(ConnectionResetError):  # it closes with unread bytes
                    client.recv(1000)

    threading.Thread(target=serve, daemon=True).start()
    host, port = listener.getsockname()
    return host, port


def test_a_closed_connection_is_a_network_exception() -> None:
    host, port = _server(None)
    with pytest.raises(KafkaError, match="closed the connection") as caught:
        BrokerConnection(host, port, settings={}, timeout_s=60)
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize("reset", [False, True])
def test_a_broker_that_closes_after_the_tls_handshake_has_refused_it(
    tmp_path: Path, reset: bool
) -> None:
    """As TLS 1.3 refuses a client's certificate, when the alert is lost on the way."""
    authority = CertificateAuthority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("broker").keystore)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, context.wrap_socket(listener.accept()[0], server_side=True) as client:
            if reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    threading.Thread(target=serve, daemon=True).start()
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    with pytest.raises(KafkaError, match=r"SSL handshake with .* failed") as caught:
        BrokerConnection(*listener.getsockname(), settings=settings, timeout_s=60)
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION


def test_an_answer_that_is_not_kafkas_is_a_network_exception() -> None:
    host, port = _server(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(KafkaError) as caught:
        BrokerConnection(host, port, settings={}, timeout_s=60)
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION


def test_a_silent_broker_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        with pytest.raises(KafkaError, match="did not answer ApiVersions") as caught:
            BrokerConnection(host, port, settings={}, timeout_s=0.05)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_an_unknown_sasl_mechanism_is_reported(bootstrap: str) -> None:
    host, port = parse_bootstrap_servers(bootstrap)[0]
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "DIGEST-MD5"}
    with pytest.raises(KafkaError, match="DIGEST-MD5") as caught:
        BrokerConnection(host, port, settings=settings, timeout_s=60)
    assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_version_may_be_bounded_from_above(bootstrap: str) -> None:
    with ConnectionPool(bootstrap) as lines:
        line = lines.first
        line.send(MetadataRequest(topics=[]), ApiKey.METADATA, version_max=1)
        line.send(MetadataRequest(topics=[]), ApiKey.METADATA)
        old = line.receive(ApiKey.METADATA, MetadataResponse)
        new = line.receive(ApiKey.METADATA, MetadataResponse)
    assert old.cluster_id is None  # Metadata has it from v2 on
    assert new.cluster_id
