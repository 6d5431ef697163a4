"""Limits for slow clients: endless headers, a missing request, half a body."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ottla.registry.http_protocol import BoundedHttpProtocol
from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
from ottla.registry.server import RegistryServer
from ottla.testing import LocalCluster

HEAD = b"DELETE /subjects/s HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch, LocalCluster() as cluster:
        patch.setattr(BoundedHttpProtocol, "request_s_max", 0.5)
        with RegistryServer(KafkaSchemaRegistry(cluster.bootstrap_servers), port=0) as server:
            yield server.port


def conversation(port: int, *parts: bytes) -> bytes:
    """All bytes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as there:
        said = b""
        try:
            for part in parts:
                there.sendall(part)
            while data := there.recv(65536):
                said += data
        except ConnectionError:
            pass
        return said


@pytest.mark.parametrize("begun", [(), (HEAD,), (HEAD + b"Content-Length: 99\r\n\r\n", b"{")])
def test_a_request_that_does_not_come_whole_ends_its_connection(
    port: int, begun: tuple[bytes, ...]
) -> None:
    assert conversation(port, *begun) == b""  # and nothing was deleted by half a request


def test_headers_have_a_limit(port: int) -> None:
    many = [b"X-Header: " + b"x" * 8000 + b"\r\n"] * 200
    said = conversation(port, HEAD, *many)
    assert said.startswith(b"HTTP/1.1 400") or not said  # a reset may overtake the answer


def test_a_body_has_a_limit_and_the_registry_serves_on(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"POST /subjects/s/versions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += b"Content-Length: 33554432\r\n\r\n"
    said = conversation(port, head, *[b" " * 65536] * 512)
    assert b"42209" in said or not said
    monkeypatch.setattr(BoundedHttpProtocol, "request_s_max", 60)  # a busy machine is not a client
    quick = b"GET /subjects HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert conversation(port, quick).endswith(b"[]")
