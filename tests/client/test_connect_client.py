"""The URL of a worker, and which responses are retried."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ottla.client.connect_client import (
    ConnectClient,
    ConnectStatusError,
    ConnectWorkerUnreachable,
    InvalidWorkerUrl,
    Login,
    address,
)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("http://localhost:8083", "localhost", 8083, ""),
        ("http://localhost:8083/", "localhost", 8083, ""),
        ("https://connect.example/api/", "connect.example", None, "/api"),
        ("localhost", "localhost", 8083, ""),
        ("localhost:8084", "localhost", 8084, ""),
        ("http://[::1]:8083", "::1", 8083, ""),
    ],
)
def test_a_url_is_read(url: str, host: str, port: int | None, path: str) -> None:
    parts = address(url)
    assert (parts.hostname, parts.port, parts.path) == (host, port, path)


@pytest.mark.parametrize("url", ["ftp://x", "http://", "", "http://me:secret@host:8083"])
def test_an_invalid_url_is_refused_without_showing_its_secrets(url: str) -> None:
    with pytest.raises(InvalidWorkerUrl, match="expected something like http://") as error:
        ConnectClient(url)
    assert "secret" not in str(error.value)


def test_an_unreachable_worker_is_named() -> None:
    with pytest.raises(
        ConnectWorkerUnreachable, match=r"at http://127\.0\.0\.1:1: Connection refused\."
    ):
        ConnectClient("http://127.0.0.1:1").get("connectors")
    assert ConnectStatusError(404, "no").status == 404


def test_a_login_is_basic_authentication() -> None:
    assert Login("Aladdin", "open sesame").header == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


@contextmanager
def worker(*answers: tuple[int, str]) -> Iterator[str]:
    """A worker that sends these responses one after another, and then `[]` forever."""
    left = list(answers)

    class ScriptedHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, message = left.pop(0) if left else (200, "")
            body = {"error_code": status, "message": message} if message else []
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *words: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), ScriptedHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


REBALANCES = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance"
    " was underway.",
    "Request cannot be completed because a rebalance is expected",
    "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
)


def test_rebalances_are_waited_for() -> None:
    with worker(*((409, entry) for entry in REBALANCES)) as url:
        assert ConnectClient(url, retry_s=0.01).get("connectors") == []


def test_an_endless_rebalance_is_reported() -> None:
    with (
        worker(*[(409, REBALANCES[1])] * 100) as url,
        pytest.raises(ConnectStatusError, match="a rebalance is expected"),
    ):
        ConnectClient(url, retry_s=0.01, rebalance_s_max=0.05).get("connectors")


def test_other_conflicts_are_reported_at_once() -> None:
    with (
        worker((409, "Connector rebalance already exists")) as url,
        pytest.raises(ConnectStatusError, match="already exists"),
    ):
        ConnectClient(url).get("connectors")
