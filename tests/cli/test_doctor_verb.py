"""ottla doctor: what is there, what is reachable, what is wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import main
from ottla.cli.doctor import installation
from ottla.cli.doctor.diagnosis import Verdict
from ottla.cli.local.run_records import FOLDER
from ottla.testing import LocalCluster
from ottla.testing.ports import reserve_port

VARIABLES = (
    "OTTLA_BOOTSTRAP_SERVER",
    "OTTLA_SCHEMA_REGISTRY_URL",
    "OTTLA_SQL_SERVER",
    "OTTLA_CONNECT_URL",
    "ZOOKEEPER_HOME",
)


@pytest.fixture(autouse=True)
def plain_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "run"))
    for each in VARIABLES:
        monkeypatch.delenv(each, raising=False)


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def doctor(*words: str) -> tuple[int, dict[str, Any]]:
        capfd.readouterr()
        code = main(["doctor", "--json", *words])
        return code, {each["name"]: each for each in json.loads(capfd.readouterr().out)}

    return doctor


Doctor = Callable[..., tuple[int, dict[str, Any]]]


def test_what_runs_is_fine(doctor: Doctor) -> None:
    with LocalCluster(registry=True) as cluster:
        words = ("-b", cluster.bootstrap_servers, "--registry-url", cluster.registry_url)
        code, found = doctor(*words)
    assert (code, found["broker"]["verdict"], found["registry"]["verdict"]) == (0, "fine", "fine")
    assert "1 broker" in found["broker"]["words"]
    assert "interpreted" in found["Ottla"]["words"] or "compiled" in found["Ottla"]["words"]
    assert found["[registry]"]["verdict"] == "fine"


def test_an_address_that_somebody_gave_has_to_answer(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reserve_port() as reserved:
        nobody = f"localhost:{reserved.getsockname()[1]}"
        code, found = doctor("-b", nobody)
        assert (code, found["broker"]["verdict"]) == (1, "wrong")
        assert "refused" in found["broker"]["words"]
        monkeypatch.setattr("ottla.cli.verbs.doctor.LOCALHOST", nobody)
        monkeypatch.setenv("OTTLA_CONNECT_URL", f"http://{nobody}")
        code, found = doctor()
    assert found["broker"]["verdict"] == "missing"
    assert (code, found["Connect worker"]["verdict"]) == (1, "wrong")
    assert "`ottla up`" in found["Connect worker"]["remedy"]


def test_somebody_else_on_a_port_is_wrong(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        code, found = doctor("--registry-url", f"http://{address}")
    assert (code, found["registry"]["verdict"]) == (1, "wrong")


def test_replicas_that_lag_are_wrong(doctor: Doctor) -> None:
    with LocalCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        servers = cluster.bootstrap_servers
        assert doctor("-b", servers)[0] == 0
        cluster.stop_broker(1)
        code, found = doctor("-b", servers.split(",")[0])
    assert (code, found["replicas"]["verdict"]) == (1, "wrong")
    assert "orders-0" in found["replicas"]["words"]


def test_a_zookeeper_home_without_zookeeper_is_wrong(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path / "nowhere"))
    code, found = doctor()
    assert (code, found["ZooKeeper"]["verdict"]) == (1, "wrong")
    assert str(tmp_path / "nowhere") in found["ZooKeeper"]["words"]


def test_versions_are_compared_with_the_requirements() -> None:
    old = installation._too_old([("rich", ">=9999"), ("typer", ">=0.1,<9999"), ("none", ">=1")])
    assert len(old) == 1
    assert old[0].startswith("rich ")
    assert installation._absent([("rich", ""), ("no-such-package", "")]) == ["no-such-package"]
    extra = installation._extra("registry", [("no-such-package", ">=1")])
    assert extra.verdict is Verdict.MISSING
    assert "no-such-package" in extra.words


def test_java_is_looked_for_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_version", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert installation._java().verdict is Verdict.MISSING


def test_what_people_see(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalCluster() as cluster:
        assert main(["doctor", "-b", cluster.bootstrap_servers]) == 0
    shown = capfd.readouterr().out
    assert "installed" in shown
    assert "Nothing is wrong." in shown
