"""Connect's REST with authentication: rights, forwarding between workers, masked secrets."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from workers import Stage, ask, until, worker

from ottla.cli.app import main
from ottla.client.connect_client import Login
from ottla.rest.users import hash_password
from ottla.testing import LocalCluster

CONFIG = {
    "connector.class": "Lines",
    "topic": "t",
    "tasks.max": "1",
    "connection.password": "hunter2",
    "producer.override.sasl.jaas.config": "PlainLoginModule hunter2",
    "api.token": "${env:NO_SECRET}",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as found:
        yield found


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("users") / "users.properties"
    path.write_text(f"ann={hash_password('a')},admin\nrob={hash_password('r')},read-only\n")
    return str(path)


def _asked(url: str, method: str, path: str, login: Login | None, body: Any = None) -> Any:
    """(status, JSON)."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    headers = {"Content-Type": "application/json"}
    if login is not None:
        headers["Authorization"] = login.header
    try:
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data else None
    finally:
        connection.close()


def _settled(url: str, method: str, path: str, login: Login, body: Any = None) -> Any:
    """As `_asked`, but retries 409, which workers answer during a rebalance."""
    answers: list[Any] = []

    def stable() -> bool:
        answers.append(_asked(url, method, path, login, body))
        return answers[-1][0] != 409

    until(stable)
    return answers[-1]


def _basic(users: str) -> dict[str, str]:
    return {"authentication.method": "BASIC", "ottla.authentication.users.file": users}


def test_cve_2019_12399_a_follower_forwards_credentials_and_masks_secrets(
    cluster: LocalCluster, users: str
) -> None:
    stage = Stage()
    ann, rob = Login("ann", "a"), Login("rob", "r")
    with (
        worker(cluster.bootstrap_servers, stage, **_basic(users)) as one,
        worker(cluster.bootstrap_servers, stage, **_basic(users)) as two,
    ):
        both = (one, two)
        until(lambda: all(worker.herder.ready and worker.herder.view.stable for worker in both))
        until(lambda: one.herder.view.generation == two.herder.view.generation)
        (follower,) = (worker for worker in both if not worker.herder.view.is_leader)
        assert _asked(follower.url, "GET", "/connectors", None)[0] == 401
        assert _asked(follower.url, "GET", "/connectors", Login("ann", "b"))[0] == 401
        assert _asked(follower.url, "GET", "/connectors", rob) == (200, [])
        assert _asked(follower.url, "GET", "/admin/loggers", rob)[0] == 403
        body = {"name": "lines", "config": CONFIG}
        assert _asked(follower.url, "POST", "/connectors", rob, body)[0] == 403
        status, made = _settled(follower.url, "POST", "/connectors", ann, body)
        assert (status, made["name"]) == (201, "lines")
        _check_masks(one, two, ann, made["config"])
        assert _settled(follower.url, "DELETE", "/connectors/lines", ann)[0] == 204


def _check_masks(one: Any, two: Any, ann: Login, made: dict[str, str]) -> None:
    """CVE-2019-12399. A masked setting that is put back keeps its value."""
    until(lambda: all("lines" in worker.herder.configs.connectors for worker in (one, two)))
    shown = _asked(two.url, "GET", "/connectors/lines/config", ann)[1]
    assert shown == made
    assert shown["connection.password"] == "[hidden]"
    assert shown["producer.override.sasl.jaas.config"] == "[hidden]"
    assert shown["api.token"] == "${env:NO_SECRET}"
    for path in ("/connectors?expand=info", "/connectors/lines", "/connectors/lines/tasks"):
        assert "hunter2" not in json.dumps(_asked(one.url, "GET", path, ann))
    status, _ = _settled(two.url, "PUT", "/connectors/lines/config", ann, {**shown, "topic": "u"})
    assert status == 200
    until(lambda: one.herder.configs.connectors["lines"].config["topic"] == "u")
    kept = one.herder.configs.connectors["lines"].config
    assert kept["connection.password"] == "hunter2"


def test_rest_listens_on_loopback_by_default(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    from ottla.connect.worker_config import WorkerConfig

    assert WorkerConfig({}).listener == ("127.0.0.1", 8083)
    with caplog.at_level(logging.WARNING):
        with worker(cluster.bootstrap_servers, Stage(), alone=True) as found:
            assert ask(found.url, "GET", "/connectors").status == 200
        assert "WITHOUT AUTHENTICATION" not in caplog.text
        with worker(cluster.bootstrap_servers, Stage(), alone=True, listeners="http://:0"):
            assert "CONNECT'S REST LISTENS ON 0.0.0.0" in caplog.text
    assert "WITHOUT AUTHENTICATION" in caplog.text


def test_the_command_line_logs_in(
    cluster: LocalCluster,
    users: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key", "-out", "ca.pem"]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    Path("both.pem").write_text(Path("key").read_text() + Path("ca.pem").read_text())
    given = {"listeners": "https://127.0.0.1:0", "ssl.keystore.location": "both.pem"}
    trust = "ssl.truststore.location=ca.pem\n"
    Path("trust").write_text(trust)
    Path("login").write_text(trust + "basic.auth.user.info=rob:r\n")
    with worker(cluster.bootstrap_servers, Stage(), alone=True, **given, **_basic(users)) as found:
        url, host = found.url, found.url.removeprefix("https://")
        assert main(["connect", "--config", "trust", "list", "--url", url]) == 1
        assert "User cannot access" in capsys.readouterr().err
        ways = (
            ["connect", "--config", "trust", "--user", "ann:a", "list", "--url", url],
            ["connect", "--config", "trust", "list", "--url", f"https://ann:a@{host}"],
            ["connect", "--config", "login", "list", "--url", url],
        )
        for words in ways:
            assert main(words) == 0, capsys.readouterr().err
        monkeypatch.setenv("OTTLA_CONNECT_USER", "ann:a")
        assert main(["connect", "--config", "trust", "list", "--url", url]) == 0
        with pytest.raises(ssl.SSLError):
            http.client.HTTPSConnection(host, timeout=60).request("GET", "/")
