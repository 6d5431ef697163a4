"""kafka-server-stop and zookeeper-server-stop end only what the start scripts recorded."""

from __future__ import annotations

import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_services import WAIT_S_MAX, reserved_ports, until

from ottla.cli.kafka import server_stop, zookeeper_server_stop
from ottla.cli.kafka.started_server import recorded_servers
from ottla.cli.local.process_identity import identity_of
from ottla.cli.local.run_records import FOLDER, RunRecords
from ottla.testing.zookeeper import ZooKeeperServer

START = (sys.executable, "-m", "ottla.cli.kafka.server_start")


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)


def properties(tmp_path: Path, node: int) -> Path:
    path = tmp_path / f"server-{node}.properties"
    path.write_text(
        f"node.id={node}\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data-{node}\n"
    )
    return path


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A similar broker, which kafka-server-start has not started."""
    words = ["serve", str(properties(tmp_path, 9))]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield process
    assert process.poll() is None, "the other process runs as before"
    process.kill()
    process.wait(WAIT_S_MAX)


def daemon(tmp_path: Path, node: int) -> int:
    """Its pid, once it serves."""
    log = tmp_path / "logs" / "kafkaServer.out"
    before = log.read_text().count("started in") if log.exists() else 0
    subprocess.run([*START, "-daemon", str(properties(tmp_path, node))], check=True)
    until(lambda: log.read_text().count("started in") > before)
    found = RunRecords().alive("kafka-server-start")
    return next(record.process.pid for record in found if record.details["node.id"] == str(node))


def has_ended(pid: int) -> bool:
    return identity_of(pid) is None


def test_only_recorded_brokers_end(
    tmp_path: Path,
    stranger: subprocess.Popen[bytes],
    capfd: pytest.CaptureFixture[str],
) -> None:
    one, two = daemon(tmp_path, 1), daemon(tmp_path, 2)
    assert server_stop.main(["--node-id=2"]) == 0
    until(lambda: has_ended(two))
    assert not has_ended(one)
    assert server_stop.main(["--node-id=7"]) == 1
    assert server_stop.main([]) == 0
    until(lambda: has_ended(one))
    assert "Shut down completed" in (tmp_path / "logs" / "kafkaServer.out").read_text()
    capfd.readouterr()
    assert server_stop.main([]) == 1
    assert capfd.readouterr().out == "No kafka server to stop\n"


def test_a_broker_in_the_foreground_is_recorded_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(properties(tmp_path, 3)), "--override", "node.id=4"]
    broker = subprocess.Popen([*START, *words], stderr=subprocess.DEVNULL)
    until(lambda: bool(RunRecords().alive("kafka-server-start")))
    (record,) = RunRecords().alive("kafka-server-start")
    assert (record.process.pid, record.details["node.id"]) == (broker.pid, "4")
    assert server_stop.main(["--process-role=controller"]) == 1
    monkeypatch.setenv("SIGNAL", "KILL")
    assert server_stop.main([]) == 0
    assert broker.wait(WAIT_S_MAX) == -signal.SIGKILL
    assert server_stop.main([]) == 1
    assert RunRecords().find("kafka-server-start") == []


def test_the_usage_is_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server_stop.main(["--help"]) == 0
    assert "It ends nothing else" in capfd.readouterr().out
    assert server_stop.main(["--all"]) == 1
    assert "--all is not an option" in capfd.readouterr().err
    assert server_stop.main(["--node-id=1", "--process-role=broker"]) == 1
    assert "node-id will take precedence" in capfd.readouterr().out
    assert zookeeper_server_stop.main([]) == 1
    assert capfd.readouterr().out == "No zookeeper server to stop\n"
    assert zookeeper_server_stop.main(["--help"]) == 0
    monkeypatch.setenv("SIGNAL", "NONE")
    assert server_stop.main([]) == 1
    assert "there is no such signal" in capfd.readouterr().err


def test_a_server_without_a_home_directory_starts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As under the random user ids of some container platforms."""

    def no_such_user(uid: int) -> None:
        raise KeyError(uid)

    for name in (FOLDER, "HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    with recorded_servers("kafka-server-start", {}):
        pass
    words = "there is no home directory for run records: set OTTLA_RUN_DIR to a folder"
    unrecorded = f"kafka-server-start: kafka-server-stop will not find this server: {words}\n"
    assert capfd.readouterr().err == unrecorded
    assert server_stop.main([]) == 1
    assert capfd.readouterr().err == f"kafka-server-stop: {words}\n"


@pytest.mark.zookeeper
@pytest.mark.parametrize("background", [True, False])
def test_zookeeper_is_ended(tmp_path: Path, background: bool) -> None:
    with reserved_ports(1) as (port,):
        path = tmp_path / "zookeeper.properties"
        path.write_text(
            f"dataDir={tmp_path}/zookeeper\nclientPort={port}\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\n"
        )
        start = [sys.executable, "-m", "ottla.cli.kafka.zookeeper_server_start"]
        words = [*start, *(["-daemon"] if background else []), str(path)]
        with open(tmp_path / "out", "wb") as out:
            starter = subprocess.Popen(words, stdout=out, stderr=out)
        server = ZooKeeperServer(port=port)
        until(server.serves)
        (record,) = RunRecords().alive("zookeeper-server-start")
        assert zookeeper_server_stop.main([]) == 0
        until(lambda: not record.is_alive)
        starter.wait(WAIT_S_MAX)
