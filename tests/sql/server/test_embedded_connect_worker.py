"""The embedded Connect worker, which stops with its server. Without connectors: no Spark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.client.connect_client import ConnectClient, ConnectWorkerUnreachable
from ottla.rows.errors import SqlError
from ottla.sql.ksql_config import CONNECT_URL, KsqlConfig, check_no_worker
from ottla.sql.server.connect_worker import EmbeddedConnectWorker
from ottla.testing import LocalCluster

PATIENCE_S = 240.0
PARENT = """
import sys, time
from ottla.sql.server.connect_worker import EmbeddedConnectWorker
from ottla.sql.ksql_config import CONNECT_URL, KsqlConfig

beside = EmbeddedConnectWorker(KsqlConfig({"ksql.connect.worker.config": sys.argv[1]}))
print(beside.start().get(CONNECT_URL), beside._process.pid, flush=True)
time.sleep(600)
"""


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        ConnectClient(url, timeout_s=60).get("connectors")
    except ConnectWorkerUnreachable:
        return False
    return True


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def config(folder: Path, **properties: str) -> Path:
    file = folder / "worker.properties"
    given = {"listeners": "http://127.0.0.1:0", "group.id": folder.name, **properties}
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return file


@pytest.fixture
def settings(sql_cluster: LocalCluster, tmp_path: Path) -> KsqlConfig:
    return KsqlConfig(
        {
            "bootstrap.servers": sql_cluster.bootstrap_servers,
            "ksql.connect.worker.config": str(config(tmp_path)),
        }
    )


@pytest.fixture
def beside(settings: KsqlConfig) -> Iterator[EmbeddedConnectWorker]:
    made = EmbeddedConnectWorker(settings)
    yield made
    made.close()


def test_the_worker_answers_and_ends_with_the_server(beside: EmbeddedConnectWorker) -> None:
    url = beside.start().get(CONNECT_URL)
    assert url.startswith("http://127.0.0.1:")
    assert ConnectClient(url).get("connectors") == []
    assert "kafka_cluster_id" in ConnectClient(url).get(""), "the cluster is the server's"
    beside.close()
    assert not answers(url)
    assert beside._process is not None
    assert beside._process.returncode == 0


def test_a_configured_url_is_kept(settings: KsqlConfig) -> None:
    given = {**settings.properties, CONNECT_URL: "http://connect.example:8083"}
    made = EmbeddedConnectWorker(KsqlConfig(given))
    try:
        assert made.start().get(CONNECT_URL) == "http://connect.example:8083"
    finally:
        made.close()


def test_a_killed_worker_is_restarted(
    beside: EmbeddedConnectWorker, caplog: pytest.LogCaptureFixture
) -> None:
    url = beside.start().get(CONNECT_URL)
    assert beside._process is not None
    os.kill(beside._process.pid, signal.SIGKILL)
    until(lambda: "exited with code -9" in caplog.text)
    until(lambda: answers(url))


def test_the_worker_ends_with_a_killed_server(sql_cluster: LocalCluster, tmp_path: Path) -> None:
    file = config(tmp_path, **{"bootstrap.servers": sql_cluster.bootstrap_servers})
    command = [sys.executable, "-c", PARENT, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        url, pid = parent.stdout.readline().split()
        assert answers(url)
        parent.kill()
    until(lambda: not lives(int(pid)))


def test_a_worker_that_can_not_start_gives_the_reason(
    sql_cluster: LocalCluster, settings: KsqlConfig, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config(tmp_path, listeners=f"http://127.0.0.1:{port}")
        made = EmbeddedConnectWorker(settings)
        with pytest.raises(SqlError) as error:
            made.start()
        made.close()
    assert f"worker.properties did not start: Can't listen on 127.0.0.1:{port}" in str(error.value)
    config(tmp_path, listeners="https://127.0.0.1:0")
    with pytest.raises(SqlError, match="did not start: listeners: https needs a certificate"):
        EmbeddedConnectWorker(settings).start()
    nowhere = KsqlConfig({"ksql.connect.worker.config": str(tmp_path / "none")})
    with pytest.raises(SqlError, match="none: No such file or directory"):
        EmbeddedConnectWorker(nowhere)


def test_a_shell_starts_no_worker(settings: KsqlConfig) -> None:
    with pytest.raises(SqlError, match="a shell does not start a Connect worker"):
        check_no_worker(settings)
    check_no_worker(KsqlConfig())
