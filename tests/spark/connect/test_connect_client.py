"""Where a worker is, as people write it."""

from __future__ import annotations

import pytest

from ottla.spark.connect.client import Login, Refused, Rest, Unreachable, address
from ottla.spark.connect.errors import ConfigException


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
def test_what_is_no_url_of_a_worker_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigException, match="expected something like http://") as error:
        Rest(url)
    assert "secret" not in str(error.value)


def test_nobody_there_is_told_with_the_place() -> None:
    with pytest.raises(Unreachable, match=r"at http://127\.0\.0\.1:1: Connection refused\."):
        Rest("http://127.0.0.1:1").get("connectors")
    assert Refused(404, "no").status == 404


def test_a_login_is_basic_authentication() -> None:
    assert Login("Aladdin", "open sesame").header == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
