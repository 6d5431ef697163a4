"""`ottla cluster up` and `zookeeper-server-start`, as typed by a user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from local_services import foreground, ran, status_of

from ottla.cli.app import main
from ottla.cli.kafka import zookeeper_server_start, zookeeper_shell
from ottla.cli.local.process_identity import identity_of
from ottla.cli.local.run_records import FOLDER
from ottla.client import Admin
from ottla.testing.ports import reserve_port, reserve_ports_in_a_row
from ottla.testing.topics import wait_for_topic
from ottla.testing.zookeeper import ZooKeeperServer

END_S_MAX = 120.0


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """The first of two in a row for brokers, and one for ZooKeeper."""
    with ExitStack() as reserved:
        row = [reserved.enter_context(held) for held in reserve_ports_in_a_row(3)]
        broker, _, zookeeper = [held.getsockname()[1] for held in row]
        yield broker, zookeeper


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "run"))


@contextmanager
def cluster_up(folder: Path, port: int, zookeeper_port: int) -> Iterator[list[str]]:
    """The output once it is up; the complete output after SIGTERM."""
    words = ["--brokers", "2", "--port", str(port), "--zookeeper-port", str(zookeeper_port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "cluster", "up", *words, "--data", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("Ctrl-C"):
                break
        yield lines
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=END_S_MAX)
    lines += out.splitlines()
    assert process.returncode == 0
    assert lines[-1] == "all stopped"


@pytest.mark.zookeeper
@pytest.mark.timeout(300)
def test_one_command_is_a_cluster_and_the_next_one_finds_its_topics(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    port, zookeeper_port = ports
    servers = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    with cluster_up(tmp_path, port, zookeeper_port) as lines:
        assert f"bootstrap servers  {servers}" in lines
        with Admin(servers) as admin:
            admin.topics.create("orders", 2)
            wait_for_topic([port, port + 1], "orders")  # the other broker hears of it later
            created = admin.topics.describe("orders")["orders"]
            assert not isinstance(created, Exception)
            assert {partition.replicas for partition in created.partitions} == {(0, 1), (1, 0)}
    with cluster_up(tmp_path, port, zookeeper_port), Admin(servers) as admin:
        assert admin.topics.names() == ["orders"]
    assert "Ottla" in (tmp_path / "broker-1.log").read_text()


@pytest.mark.zookeeper
@pytest.mark.timeout(300)
def test_brokers_are_killed_and_started_again_from_another_terminal(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    port, zookeeper_port = ports
    servers = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    words = ["--brokers", "2", "--port", str(port), "--zookeeper-port", str(zookeeper_port)]
    with foreground(tmp_path, "cluster", "up", *words) as cluster:
        cluster.wait_for("Ctrl-C stops them")
        with Admin(servers) as admin:
            admin.topics.create("orders", 1, replication_factor=2)
        before = status_of(tmp_path, "cluster")
        killed = ran(tmp_path, "cluster", "kill", "1")
        assert "broker-1 was killed" in killed.stdout
        cluster.wait_for("broker-1 was killed by `ottla cluster kill`")
        assert status_of(tmp_path, "cluster")["broker-1"]["state"] == "ended"
        assert ran(tmp_path, "cluster", "kill", "1").returncode == 1
        assert "there is no service broker-5" in ran(tmp_path, "cluster", "kill", "5").stderr
        assert "broker-1 is ready on" in ran(tmp_path, "cluster", "restart", "1").stdout
        cluster.wait_for("broker-1 runs again")
        ran(tmp_path, "cluster", "restart", "0")  # one that runs is stopped before
        after = status_of(tmp_path, "cluster")
        assert {service["state"] for service in after.values()} == {"ready"}
        assert after["zookeeper"]["pid"] == before["zookeeper"]["pid"]
        assert after["broker-0"]["pid"] != before["broker-0"]["pid"]
        with Admin(servers) as admin:
            assert admin.topics.names(internal=False) == ["orders"]
        down = ran(tmp_path, "cluster", "down")
        assert down.stdout.splitlines()[-1] == "all stopped"
        assert cluster.process.wait(END_S_MAX) == 0
    assert all(identity_of(service["pid"]) is None for service in after.values())


@pytest.mark.zookeeper
def test_zookeeper_shell_is_zookeepers_own(capfd: pytest.CaptureFixture[str]) -> None:
    with ZooKeeperServer() as server:
        assert zookeeper_shell.main([server.connect, "create", "/orders", "beer"]) == 0
        assert zookeeper_shell.main([server.connect, "get", "/orders"]) == 0
        assert "beer" in capfd.readouterr().out
    assert zookeeper_shell.main([]) == 1
    assert "USAGE: zookeeper-shell zookeeper_host:port" in capfd.readouterr().out


def test_zookeeper_shell_takes_kafkas_names_for_tls(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = zookeeper_shell.tls_settings(
        {
            "zookeeper.ssl.keystore.location": "/key.p12",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
        }
    )
    assert settings["zookeeper.ssl.keyStore.location"] == "/key.p12"
    assert settings["zookeeper.client.secure"] == "true"
    assert settings["zookeeper.ssl.hostnameVerification"] == "false"
    path = tmp_path / "tls.properties"
    path.write_text("zookeeper.ssl.keystor.location=x\n")
    words = ["localhost:1", "-zk-tls-config-file", str(path)]
    assert zookeeper_shell.main(words) == 1
    assert "knows no zookeeper.ssl.keystor.location" in capfd.readouterr().err


def test_missing_prerequisites_are_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("ottla.testing.zookeeper.DEBIAN_JAR", "/nowhere.jar")
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    assert main(["cluster", "up", "--data", str(tmp_path)]) == 1
    assert "apt-get install zookeeper" in capfd.readouterr().err
    assert main(["cluster", "up", "--override", "num.partitions"]) == 1
    assert "NAME=VALUE" in capfd.readouterr().err


def test_zookeeper_server_start_prints_its_usage(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert zookeeper_server_start.main([]) == 1
    assert "USAGE: zookeeper-server-start" in capfd.readouterr().err
    assert zookeeper_server_start.main([str(tmp_path / "none")]) == 1
    assert "is not there" in capfd.readouterr().err


@pytest.mark.zookeeper
def test_zookeeper_server_start_serves(tmp_path: Path) -> None:
    reserved = reserve_port()
    port = reserved.getsockname()[1]
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(
        f"dataDir={tmp_path}/data\nclientPort={port}\nadmin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.kafka.zookeeper_server_start", str(properties)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KAFKA_HEAP_OPTS": "-Xmx64M"},
    )
    try:
        server = ZooKeeperServer(port=port)
        server._process = process
        server.wait_until_it_serves()
    finally:
        process.terminate()
        process.wait(END_S_MAX)
        reserved.close()
