"""A Connect worker that the server starts, and that ends with it. Without connectors: no Spark."""

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

from ottla.client.connect_worker import Rest, Unreachable
from ottla.rows.errors import SqlError
from ottla.sql.server.connect_worker import WorkerBeside
from ottla.sql.settings import CONNECT_URL, Settings, check_no_worker
from ottla.testing import LocalCluster

PATIENCE_S = 240.0
PARENT = """
import sys, time
from ottla.sql.server.connect_worker import WorkerBeside
from ottla.sql.settings import CONNECT_URL, Settings

beside = WorkerBeside(Settings({"ksql.connect.worker.config": sys.argv[1]}))
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
        Rest(url, timeout_s=60).get("connectors")
    except Unreachable:
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
def settings(sql_cluster: LocalCluster, tmp_path: Path) -> Settings:
    return Settings(
        {
            "bootstrap.servers": sql_cluster.bootstrap_servers,
            "ksql.connect.worker.config": str(config(tmp_path)),
        }
    )


@pytest.fixture
def beside(settings: Settings) -> Iterator[WorkerBeside]:
    made = WorkerBeside(settings)
    yield made
    made.close()


def test_it_answers_where_the_server_asks_and_ends_with_it(beside: WorkerBeside) -> None:
    url = beside.start().get(CONNECT_URL)
    assert url.startswith("http://127.0.0.1:")
    assert Rest(url).get("connectors") == []
    assert "kafka_cluster_id" in Rest(url).get(""), "the cluster is the server's"
    beside.close()
    assert not answers(url)
    assert beside._process is not None
    assert beside._process.returncode == 0


def test_a_url_that_was_given_stays(settings: Settings) -> None:
    given = {**settings.properties, CONNECT_URL: "http://connect.example:8083"}
    made = WorkerBeside(Settings(given))
    try:
        assert made.start().get(CONNECT_URL) == "http://connect.example:8083"
    finally:
        made.close()


def test_one_that_is_killed_is_started_again(
    beside: WorkerBeside, caplog: pytest.LogCaptureFixture
) -> None:
    url = beside.start().get(CONNECT_URL)
    assert beside._process is not None
    os.kill(beside._process.pid, signal.SIGKILL)
    until(lambda: "has ended by itself (exit code -9)" in caplog.text)
    until(lambda: answers(url))


def test_it_ends_with_a_server_that_was_killed(sql_cluster: LocalCluster, tmp_path: Path) -> None:
    file = config(tmp_path, **{"bootstrap.servers": sql_cluster.bootstrap_servers})
    command = [sys.executable, "-c", PARENT, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        url, pid = parent.stdout.readline().split()
        assert answers(url)
        parent.kill()
    until(lambda: not lives(int(pid)))


def test_one_that_can_not_start_says_why(
    sql_cluster: LocalCluster, settings: Settings, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config(tmp_path, listeners=f"http://127.0.0.1:{port}")
        made = WorkerBeside(settings)
        with pytest.raises(SqlError) as error:
            made.start()
        made.close()
    assert f"worker.properties did not start: Can't listen on 127.0.0.1:{port}" in str(error.value)
    config(tmp_path, listeners="https://127.0.0.1:0")
    with pytest.raises(SqlError, match="did not start: listeners: https needs a certificate"):
        WorkerBeside(settings).start()
    nowhere = Settings({"ksql.connect.worker.config": str(tmp_path / "none")})
    with pytest.raises(SqlError, match="none: No such file or directory"):
        WorkerBeside(nowhere)


def test_a_shell_starts_none(settings: Settings) -> None:
    with pytest.raises(SqlError, match="a shell starts no Connect worker"):
        check_no_worker(settings)
    check_no_worker(Settings())
