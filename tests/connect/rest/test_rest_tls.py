"""REST over TLS: by a PEM file or texts, between workers too, and with a client's certificate."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import Stage, until, worker

from ottla.cli.verbs.connect_rest import Rest
from ottla.connect.errors import ConfigException
from ottla.connect.rest import tls
from ottla.connect.settings import Settings
from ottla.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as found:
        yield found


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """`both`: a key and its certificate, `certificate`: that alone. Files."""
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


def test_workers_speak_tls_to_people_and_to_each_other(
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
        assert all(each.url.startswith("https://127.0.0.1:") for each in both)
        until(lambda: all(each.herder.ready and each.herder.view.settled for each in both))
        until(lambda: one.herder.view.generation == two.herder.view.generation)
        (follower,) = (each for each in both if not each.herder.view.leads)
        status, body = asked(follower.url, "/connectors/nobody", people, "DELETE")
        assert (status, body) == (  # the leader's answer, passed on
            404,
            {"error_code": 404, "message": "Connector nobody not found"},
        )
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(one.url, "/", ssl.create_default_context())
        monkeypatch.setenv("SSL_CERT_FILE", pem["certificate"])
        assert Rest(one.url).get("connectors") == []


def test_a_certificate_may_be_asked_for(cluster: LocalCluster, pem: dict[str, str]) -> None:
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
    ("given", "told"),
    [
        ({}, "https needs a certificate and its key"),
        ({"ssl.keystore.location": "/no/such.pem"}, "No such file"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.key": "y"}, "no private key"),
        ({"ssl.client.auth": "maybe"}, "is one of none, requested, required"),
        ({"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"}, "No such file"),
    ],
)
def test_what_can_not_be_used_is_told(
    given: dict[str, str], told: str, pem: dict[str, str]
) -> None:
    own = {} if not given or any("keystore" in each for each in given) else pem
    with pytest.raises(ConfigException, match=told):
        tls.server_context({**({"ssl.keystore.location": own["both"]} if own else {}), **given})


def test_a_listener_is_http_or_https() -> None:
    assert Settings({"listeners": "HTTPS://:8443"}).scheme == "https"
    assert Settings({}).scheme == "http"
    with pytest.raises(ConfigException, match="http or https"):
        _ = Settings({"listeners": "ftp://:21"}).scheme
