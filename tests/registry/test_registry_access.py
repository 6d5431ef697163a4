"""Access to the registry's REST: logins, roles, TLS; and a broker with authentication."""

from __future__ import annotations

import base64
import json
import ssl
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from registry_records import INT

from ottla.errors import KafkaError
from ottla.registry.rest.access import right_of
from ottla.registry.settings import settings_of
from ottla.rest.guard import Right
from ottla.testing import LocalCluster
from ottla.testing.certificates import CertificateAuthority

READ = ("rob", "letmein")
ADMIN = ("ann", "secret")


def call(
    connection: HTTPConnection,
    method: str,
    path: str,
    login: tuple[str, str] | None = None,
    body: Any = None,
) -> int:
    headers = {}
    if login is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_a_login_and_a_role_are_needed_over_tls(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("rob: letmein,read-only\nann: secret,admin\n")
    users.chmod(0o600)
    authority = CertificateAuthority(tmp_path)
    authority.issue("localhost")
    properties = {
        "listeners": "https://localhost:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "localhost.pem"),
        "authentication.method": "BASIC",
        "ottla.authentication.users.file": str(users),
    }
    with LocalCluster(security="sasl_plaintext") as cluster:
        properties["kafkastore.bootstrap.servers"] = cluster.bootstrap_servers
        server = settings_of(properties, cluster.client_settings()).server()
        with server:
            assert server.url.startswith("https://")
            context = ssl.create_default_context(cafile=str(authority.certificate))
            there = HTTPSConnection("localhost", server.port, context=context, timeout=60)
            schema = {"schema": INT}
            assert call(there, "GET", "/subjects") == 401
            assert call(there, "GET", "/subjects", ("rob", "wrong")) == 401
            assert call(there, "GET", "/subjects", READ) == 200
            assert call(there, "POST", "/subjects/s/versions", READ, schema) == 403
            assert call(there, "POST", "/subjects/s/versions", ADMIN, schema) == 200
            assert call(there, "POST", "/subjects/s", READ, schema) == 200
            assert call(there, "DELETE", "/subjects/s", READ) == 403


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        ("GET", "/subjects/s/versions", Right.READ),
        ("POST", "/subjects/s", Right.READ),
        ("POST", "/compatibility/subjects/s/versions", Right.READ),
        ("POST", "/subjects/s/versions", Right.CHANGE),
        ("POST", "/subjects/s/versions/", Right.CHANGE),
        ("POST", "/subjects/s/versions/1/tags", Right.CHANGE),
        ("POST", "/contexts/compatibility/subjects/s/versions", Right.CHANGE),
        ("PUT", "/config", Right.CHANGE),
        ("DELETE", "/subjects/s", Right.CHANGE),
    ],
)
def test_each_path_needs_its_permission(method: str, path: str, right: Right) -> None:
    assert right_of(method, path) is right


@pytest.mark.parametrize(
    "wrong",
    [
        {"listeners": "ftp://localhost:1"},
        {"listeners": "https://localhost:8081"},
        {"schema.compatibility.level": "sometimes"},
        {"authentication.method": "BASIC"},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(KafkaError):
        settings_of(wrong, {})
