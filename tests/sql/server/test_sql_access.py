"""The REST API with TLS and authentication, and permissions of statements."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ottla.cli.app import main
from ottla.rest.hypercorn_server import HypercornServer
from ottla.rest.users import hash_password
from ottla.rows.errors import SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig, check_property, listener
from ottla.sql.run.query_executor import QueryExecutor
from ottla.sql.server.access import ServerAccess
from ottla.sql.server.app import make_app
from ottla.testing import LocalCluster

ANN, ROB = httpx.BasicAuth("ann", "a"), httpx.BasicAuth("rob", "r")
STREAM = "CREATE STREAM s (id INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql-access")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key", "-out", "ca.pem"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    both = (folder / "key").read_text() + (folder / "ca.pem").read_text()
    (folder / "both.pem").write_text(both)
    users = f"ann={hash_password('a')},admin\nrob={hash_password('r')},read-only\n"
    (folder / "users").write_text(users)
    (folder / "client").write_text(f"ssl.truststore.location={folder}/ca.pem\n")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with LocalCluster() as cluster:
        settings = KsqlConfig(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "listeners": "https://127.0.0.1:0",
                "ssl.keystore.location": str(folder / "both.pem"),
                "authentication.method": "BASIC",
                "authentication.realm": "KsqlServer-Props",
                "authentication.roles": "admin,read-only",
                "ottla.authentication.users.file": str(folder / "users"),
            }
        )
        host, port = listener(settings)
        door = ServerAccess(settings, host, port)
        never = threading.Event()
        engine = Engine(
            settings, QueryExecutor(settings, never.wait)
        )  # a Spark that is still starting
        engine.start()
        try:
            with HypercornServer(
                door.guarded(make_app(engine)), host, port, tls=door.tls
            ) as serving:
                yield serving.url
        finally:
            engine.close()


def test_statements_need_a_login_and_a_role(url: str, folder: Path) -> None:
    trust = ssl.create_default_context(cafile=folder / "ca.pem")
    with httpx.Client(base_url=url, verify=trust, timeout=60) as client:
        for path in ("/info", "/ksql", "/no-such-path"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error_code"]) == (401, 40100)
        assert client.get("/info", auth=ROB).status_code == 200
        refused = client.post("/ksql", json={"ksql": STREAM}, auth=ROB)
        assert (refused.status_code, refused.json()["error_code"]) == (403, 40300)
        mixed = {"ksql": f"SHOW STREAMS; {STREAM}"}
        assert client.post("/ksql", json=mixed, auth=ROB).status_code == 403
        assert client.post("/ksql", json={"ksql": STREAM}, auth=ANN).status_code == 200
        shown = client.post("/ksql", json={"ksql": "SHOW STREAMS;"}, auth=ROB)
        assert [stream["name"] for stream in shown.json()[0]["streams"]] == ["S"]
        assert client.post("/inserts-stream", content=b"{}", auth=ROB).status_code == 403
        assert client.post("/ksql/terminate", json={}, auth=ROB).status_code == 403
        properties = client.post("/ksql", json={"ksql": "SHOW PROPERTIES;"}, auth=ROB).text
        assert "scrypt" not in properties


def test_the_shell_logs_in(url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sql", "--server", url, "--config", str(folder / "client"), "-e", "SHOW TOPICS;"]
    assert main(words) != 0
    assert main([*words, "--user", "ann:a"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "ksql.streams.sasl.jaas.config",
        "ksql.streams.security.protocol",
        "consumer.ssl.truststore.location",
        "ksql.streams.producer.sasl.oauthbearer.token.endpoint.url",
        "ksql.streams.bootstrap.servers",
    ],
)
def test_a_statement_cannot_change_the_servers_login(name: str) -> None:
    with pytest.raises(SqlError):
        check_property(name, "x")


def test_clients_have_their_own_settings() -> None:
    settings = KsqlConfig(
        {
            "ksql.streams.ssl.truststore.location": "/kafka.pem",
            "ssl.truststore.location": "/rest.pem",
            "security.protocol": "SASL_SSL",
            "ksql.streams.sasl.mechanism": "PLAIN",
            "listeners": "https://0.0.0.0:8088",
            "ssl.client.authentication": "REQUIRED",
        }
    )
    assert settings.client == {
        "ssl.truststore.location": "/kafka.pem",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.client.authentication": "REQUIRED",
    }
    found = settings.listener_tls
    assert found is not None
    assert (found["ssl.truststore.location"], found["ssl.client.auth"]) == ("/rest.pem", "REQUIRED")
