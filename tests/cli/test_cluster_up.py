"""`ottla cluster up` and `zookeeper-server-start`, as somebody would type them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.cli.app import main
from ottla.cli.kafka import zookeeper_server_start
from ottla.client import Admin
from ottla.testing.ports import reserve_port
from ottla.testing.topics import wait_for_topic
from ottla.testing.zookeeper import ZooKeeperServer

END_S_MAX = 120.0


def free_ports(count: int) -> tuple[int, int]:
    """The first of several in a row for brokers, and one for ZooKeeper."""
    for first in range(21000, 29000, 50):
        wanted = [*range(first, first + count), first + 40]
        if all(_is_free(port) for port in wanted):
            return first, first + 40
    pytest.fail("no ports are free")


def _is_free(port: int) -> bool:
    import socket

    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def cluster_up(folder: Path, port: int, zookeeper_port: int) -> Iterator[list[str]]:
    """What it has printed when it is up; all of it after SIGTERM."""
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
def test_one_command_is_a_cluster_and_the_next_one_finds_its_topics(tmp_path: Path) -> None:
    port, zookeeper_port = free_ports(2)
    servers = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    with cluster_up(tmp_path, port, zookeeper_port) as lines:
        assert f"bootstrap servers  {servers}" in lines
        with Admin(servers) as admin:
            admin.topics.create("orders", 2)
            wait_for_topic([port, port + 1], "orders")  # the other broker hears of it later
            created = admin.topics.describe("orders")["orders"]
            assert not isinstance(created, Exception)
            assert {each.replicas for each in created.partitions} == {(0, 1), (1, 0)}
    with cluster_up(tmp_path, port, zookeeper_port), Admin(servers) as admin:
        assert admin.topics.names() == ["orders"]
    assert "Ottla" in (tmp_path / "broker-1.log").read_text()


def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("ottla.testing.zookeeper.DEBIAN_JAR", "/nowhere.jar")
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    assert main(["cluster", "up", "--data", str(tmp_path)]) == 1
    assert "apt-get install zookeeper" in capfd.readouterr().err
    assert main(["cluster", "up", "--override", "num.partitions"]) == 1
    assert "NAME=VALUE" in capfd.readouterr().err


def test_zookeeper_server_start_says_how_it_is_used(
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
