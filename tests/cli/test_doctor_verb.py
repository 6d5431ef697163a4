"""ottla doctor: what is installed, what is reachable, what is wrong."""

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
from ottla.extras import install_command
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
    for entry in VARIABLES:
        monkeypatch.delenv(entry, raising=False)


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def doctor(*words: str) -> tuple[int, dict[str, Any]]:
        capfd.readouterr()
        code = main(["doctor", "--json", *words])
        return code, {entry["name"]: entry for entry in json.loads(capfd.readouterr().out)}

    return doctor


Doctor = Callable[..., tuple[int, dict[str, Any]]]


def test_running_services_are_fine(doctor: Doctor) -> None:
    with LocalCluster(registry=True) as cluster:
        words = ("-b", cluster.bootstrap_servers, "--registry-url", cluster.registry_url)
        code, found = doctor(*words)
    assert (code, found["broker"]["verdict"], found["registry"]["verdict"]) == (0, "fine", "fine")
    assert "1 broker" in found["broker"]["words"]
    assert "interpreted" in found["Ottla"]["words"] or "compiled" in found["Ottla"]["words"]
    assert found["[registry]"]["verdict"] == "fine"


def test_a_given_address_must_answer(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_another_program_on_the_port_is_reported(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        code, found = doctor("--registry-url", f"http://{address}")
    assert (code, found["registry"]["verdict"]) == (1, "wrong")


def test_lagging_replicas_are_reported(doctor: Doctor) -> None:
    with LocalCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        servers = cluster.bootstrap_servers
        assert doctor("-b", servers)[0] == 0
        cluster.stop_broker(1)
        code, found = doctor("-b", servers.split(",")[0])
    assert (code, found["replicas"]["verdict"]) == (1, "wrong")
    assert "orders-0" in found["replicas"]["words"]


def test_a_zookeeper_home_without_zookeeper_is_reported(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path / "nowhere"))
    code, found = doctor()
    assert (code, found["ZooKeeper"]["verdict"]) == (1, "wrong")
    assert str(tmp_path / "nowhere") in found["ZooKeeper"]["words"]


def test_a_zookeeper_home_with_the_jar_on_top_is_fine(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ottla cluster up` starts it, so the doctor must not call it wrong."""
    (tmp_path / "zookeeper-3.9.3.jar").touch()
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    _, found = doctor()
    assert (found["ZooKeeper"]["verdict"], found["ZooKeeper"]["words"]) == ("fine", str(tmp_path))


def test_versions_are_compared_with_the_requirements() -> None:
    old = installation._too_old([("rich", ">=9999"), ("typer", ">=0.1,<9999"), ("none", ">=1")])
    assert len(old) == 1
    assert old[0].startswith("rich ")
    assert installation._absent([("rich", ""), ("no-such-package", "")]) == ["no-such-package"]
    extra = installation._extra("registry", [("no-such-package", ">=1")])
    assert extra.verdict is Verdict.MISSING
    assert "no-such-package" in extra.words
    assert extra.remedy == f"`{install_command('registry')}` brings it."


def test_java_is_looked_for_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_version", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert installation._java().verdict is Verdict.MISSING


def test_the_report_is_readable(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalCluster() as cluster:
        assert main(["doctor", "-b", cluster.bootstrap_servers]) == 0
    shown = capfd.readouterr().out
    assert "installed" in shown
    assert "Nothing is wrong." in shown
