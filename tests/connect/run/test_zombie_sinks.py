"""A zombie worker of a sink: it takes nothing from its successor, and releases its tasks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from ottla.client.record import TopicPartition
from ottla.connect.errors import ConnectException
from ottla.connect.run import connector_query, connector_runner
from ottla.connect.run.connector_status import ConnectorState, ConnectorStatus
from ottla.connect.run.remote_tasks import REMOTE_TASK_MODULE
from ottla.connect.run.worker_context import WorkerContext
from ottla.queries import lifecycle
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

WAIT_S_MAX = 240.0
NAME = "frozen"
WHERE = TopicPartition("frozen", 0)


class Zombie:
    """A worker in its own process. Processes that it starts are recognised by their TMPDIR."""

    def __init__(self, config: dict[str, str], worker: WorkerContext, folder: Path) -> None:
        self._mark = f"TMPDIR={folder}".encode()
        self._log = folder / "log"
        self._hold = folder / "hold"
        given = {
            "name": NAME,
            "config": config,
            "worker": dict(worker.properties),
            "hold": str(self._hold),
        }
        program = Path(__file__).with_name("zombie_worker.py")
        with self._log.open("wb") as output:
            self._driver = subprocess.Popen(
                [sys.executable, str(program), json.dumps(given)],
                stdout=output,
                stderr=output,
                env={**os.environ, "TMPDIR": str(folder)},
            )

    def hold(self) -> None:
        """Makes the worker pause before its next commit."""
        self._hold.touch()

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)
        self._hold.unlink()

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def says(self, words: str) -> bool:
        return words in self.log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def tasks(self) -> list[int]:
        return [pid for pid in self._family() if _read(pid, "comm").startswith(b"connect-")]

    def end(self) -> None:
        self._send(signal.SIGKILL)
        self._driver.wait()

    def _send(self, number: int) -> None:
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _family(self) -> list[int]:
        pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return [pid for pid in pids if self._mark in _read(pid, "environ").split(b"\0")]


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


@contextmanager
def frozen_later(config: dict[str, str], worker: WorkerContext, folder: Path) -> Iterator[Zombie]:
    folder.mkdir()
    zombie = Zombie(config, worker, folder)
    try:
        yield zombie
    finally:
        zombie.end()


def hosts_of(keeper: int) -> set[int]:
    """The processes of tasks whose driver is this one."""
    pids = {int(path.name) for path in Path("/proc").glob("[0-9]*")}
    words = {pid: _read(pid, "cmdline").split(b"\0") for pid in pids}
    ours = (REMOTE_TASK_MODULE.encode(), str(keeper).encode())
    return {pid for pid, its in words.items() if all(word in its for word in ours)}


class NoSpark:
    """What a run needs of a session before its query starts."""

    conf: ClassVar = {"spark.master": "local[1]"}

    def newSession(self) -> NoSpark:  # noqa: N802 (Spark's name)
        return self


def test_a_fenced_sink_ends_its_tasks_before_it_backs_off(
    broker: LocalCluster, worker: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes of its tasks are real, and start before the query does."""
    broker.create_topic("replaced", partitions=1)
    started: set[int] = set()
    received: list[ConnectorStatus] = []

    def wait_until(is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not is_so():
            assert time.monotonic() < deadline, received
            time.sleep(0.05)

    def begin(*given: Any) -> None:
        wait_until(lambda: bool(hosts_of(os.getpid())))
        started.update(hosts_of(os.getpid()))
        raise ConnectException(f"another worker {connector_runner.TAKEN_OVER}")

    monkeypatch.setattr(connector_query, "start_connector_query", begin)
    monkeypatch.setattr(lifecycle, "SUPERSEDED_MS", 10**9)
    config = {"connector.class": "FileStreamSink", "topics": "replaced", "file": "/dev/null"}
    spark: Any = NoSpark()
    running = connector_runner.start_connector(
        "replaced", config, spark=lambda: spark, worker=worker, on_state=received.append
    )
    try:
        wait_until(lambda: bool(received) and received[-1].state is ConnectorState.UNASSIGNED)
        wait_until(lambda: not started & hosts_of(os.getpid()))
        assert started
    finally:
        running.stop()


@pytest.mark.long
def test_a_thawed_sink_commits_nothing_after_its_successor(
    spark: SparkSession, broker: LocalCluster, worker: WorkerContext, tmp_path: Path
) -> None:
    broker.create_topic("frozen", partitions=1)
    out = tmp_path / "out.txt"
    config = {"connector.class": "FileStreamSink", "topics": "frozen", "file": str(out)}
    seen: list[int] = []

    def produce(first: int, last: int) -> None:
        with broker.producer(value=str) as producer:
            for number in range(first, last):
                producer.send("frozen", str(number))

    def committed() -> int:
        with broker.admin() as admin:
            at = admin.groups.offsets(f"connect-{NAME}").get(WHERE)
        seen.append(0 if at is None else at.offset)
        return seen[-1]

    def lines() -> set[int]:
        return {int(line) for line in out.read_text().split()} if out.exists() else set()

    with frozen_later(config, worker, tmp_path / "zombie") as zombie:

        def wait_until(is_so: Callable[[], bool]) -> None:
            deadline = time.monotonic() + WAIT_S_MAX
            while not is_so():
                assert time.monotonic() < deadline, zombie.log
                committed()
                time.sleep(0.1)

        produce(0, 50)
        wait_until(lambda: committed() == 50)
        zombie.hold()
        produce(50, 60)
        wait_until(lambda: zombie.says("about to commit"))  # it has written some of them
        zombie.freeze()
        assert committed() == 50
        heir = connector_runner.start_connector(NAME, config, spark=lambda: spark, worker=worker)
        try:
            produce(60, 70)
            wait_until(lambda: committed() == 70)
            zombie.thaw()  # and its commit, of 60 or less, is under way now
            wait_until(lambda: zombie.says(f"Connector {NAME} was fenced"))
            assert zombie.says("committing offsets failed, will retry: FENCED_INSTANCE_ID")
            wait_until(lambda: not zombie.tasks)
            produce(70, 80)
            wait_until(lambda: committed() == 80)
            assert lines() == set(range(80))
            assert heir.status.state is ConnectorState.RUNNING
            assert seen == sorted(seen), "the offsets never went back"
        finally:
            heir.stop()
