"""REST over TLS: keys from PEM files or text, between workers, and with client certificates."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import Stage, until, worker

from ottla.cli.verbs.connect_rest import ConnectRest
from ottla.connect.errors import ConfigException
from ottla.connect.rest import tls
from ottla.connect.worker_config import WorkerConfig
from ottla.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as found:
        yield found


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files: `both` has key and certificate, `certificate` only the latter."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return {"both": str(both), "certificate": str(certificate), "key": str(key)}


def asked(url: str, path: str, context: ssl.SSLContext, method: str = "GET") -> tuple[int, object]:
    connection = http.client.HTTPSConnection(
        url.removeprefix("https://"), timeout=60, context=context
    )
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def test_workers_use_tls_with_clients_and_with_each_other(
    cluster: LocalCluster, pem: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": pem["both"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": pem["certificate"],
        "ssl.client.auth": "requested",
    }
    stage = Stage()
    people = ssl.create_default_context(cafile=pem["certificate"])
    with (
        worker(cluster.bootstrap_servers, stage, **given) as one,
        worker(cluster.bootstrap_servers, stage, **given) as two,
    ):
        both = (one, two)
        assert all(worker.url.startswith("https://127.0.0.1:") for worker in both)
        until(lambda: all(worker.herder.ready and worker.herder.view.stable for worker in both))
        until(lambda: one.herder.view.generation == two.herder.view.generation)
        (follower,) = (worker for worker in both if not worker.herder.view.is_leader)
        status, body = asked(follower.url, "/connectors/nobody", people, "DELETE")
        assert (status, body) == (  # the leader's response, forwarded
            404,
            {"error_code": 404, "message": "Connector nobody not found"},
        )
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(one.url, "/", ssl.create_default_context())
        monkeypatch.setenv("SSL_CERT_FILE", pem["certificate"])
        assert ConnectRest(one.url).get("connectors") == []


def test_a_client_certificate_may_be_required(cluster: LocalCluster, pem: dict[str, str]) -> None:
    texts = {name: Path(pem[name]).read_text() for name in ("certificate", "key")}
    given = {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": "/of/clients/alone.pem",
        "listeners.https.ssl.keystore.certificate.chain": texts["certificate"],
        "listeners.https.ssl.keystore.key": texts["key"],
        "listeners.https.ssl.truststore.certificates": texts["certificate"],
        "listeners.https.ssl.client.auth": "required",
    }
    stranger = ssl.create_default_context(cafile=pem["certificate"])
    friend = ssl.create_default_context(cafile=pem["certificate"])
    friend.load_cert_chain(pem["both"])
    with worker(cluster.bootstrap_servers, Stage(), alone=True, **given) as alone:
        status, body = asked(alone.url, "/connectors", friend)
        assert (status, body) == (200, [])
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            asked(alone.url, "/connectors", stranger)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "https needs a certificate and its key"),
        ({"ssl.keystore.location": "/no/such.pem"}, "No such file"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.key": "y"}, "no private key"),
        ({"ssl.client.auth": "maybe"}, "is one of none, requested, required"),
        ({"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"}, "No such file"),
    ],
)
def test_invalid_tls_settings_are_rejected(
    given: dict[str, str], message: str, pem: dict[str, str]
) -> None:
    own = {} if not given or any("keystore" in setting for setting in given) else pem
    with pytest.raises(ConfigException, match=message):
        tls.server_context({**({"ssl.keystore.location": own["both"]} if own else {}), **given})


def test_a_listener_is_http_or_https() -> None:
    assert WorkerConfig({"listeners": "HTTPS://:8443"}).scheme == "https"
    assert WorkerConfig({}).scheme == "http"
    with pytest.raises(ConfigException, match="http or https"):
        _ = WorkerConfig({"listeners": "ftp://:21"}).scheme
