"""Workers whose connectors only claim to run, so that herders are tested without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.connect.herder.connector_reconciler import RunningConnector
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.worker_group_member import WorkerGroupMember
from ottla.connect.run.connect_worker import make_herder
from ottla.connect.run.connector_status import (
    ConnectorState,
    ConnectorStatus,
    TargetState,
    TaskStatus,
)
from ottla.connect.run.worker_context import WorkerContext

WAIT_S: Final = 240.0


def until(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)


class FakeConnector:
    """A connector without a query. Has `tasks.max` tasks; `trouble` fails the first one."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        config: Mapping[str, str],
        generation: int,
        target: TargetState,
        on_state: Callable[[ConnectorStatus], None],
    ) -> None:
        self.name = name
        self.config = dict(config)
        self._stage = stage
        self._generation = generation
        self._on_state = on_state
        self._trouble = "trouble" in config
        self._paused = target is TargetState.PAUSED
        self.restarts: list[object] = []

    @property
    def status(self) -> ConnectorStatus:
        state = ConnectorState.PAUSED if self._paused else ConnectorState.RUNNING
        tasks = [TaskStatus(number, state) for number in range(len(self.task_configs))]
        if self._trouble and tasks:
            tasks[0] = TaskStatus(0, ConnectorState.FAILED, "Traceback: trouble")
        topics = frozenset({self.config.get("topics", "lines")})
        return ConnectorStatus(self.name, state, None, tuple(tasks), topics, self._generation)

    @property
    def task_configs(self) -> list[dict[str, str]]:
        count = int(self.config.get("tasks.max", "1"))
        return [{**self.config, "task": str(number)} for number in range(count)]

    def tell(self) -> None:
        self._on_state(self.status)

    def pause(self) -> None:
        self._paused = True
        self.tell()

    def resume(self) -> None:
        self._paused = False
        self.tell()

    def restart(self, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        self.restarts.append((include_tasks, only_failed))
        self._trouble = False
        self.tell()

    def restart_task(self, task: int) -> None:
        self.restarts.append(task)
        self._trouble = False
        self.tell()

    def stop(self) -> None:
        self._stage.leave(self)


class Stage:
    """Tracks the connectors of all workers of a test; no two may have the same name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running: dict[str, FakeConnector] = {}
        self.overlaps: list[str] = []

    def start(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        generation: int,
        target: TargetState,
        on_state: Callable[[ConnectorStatus], None],
    ) -> RunningConnector:
        if config.get("refuse") == "true":
            raise ValueError("this one does not start")
        made = FakeConnector(self, name, config, generation, target, on_state)
        with self._lock:
            if name in self.running:
                self.overlaps.append(name)
            self.running[name] = made
        threading.Thread(target=made.tell).start()
        return made

    def leave(self, pretended: FakeConnector) -> None:
        with self._lock:
            if self.running.get(pretended.name) is pretended:
                del self.running[pretended.name]


def properties(bootstrap_servers: str, **more: str) -> dict[str, str]:
    """A short heartbeat interval, so that rebalances are noticed at once."""
    quick = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "300"}
    return {"bootstrap.servers": bootstrap_servers, **quick, **more}


def herder(bootstrap_servers: str, stage: Stage, id_: str) -> Herder:
    worker = WorkerContext(properties(bootstrap_servers), id_)
    return make_herder(worker, alone=False, start=stage.start)


def vanish(herder: Herder, stage: Stage) -> None:
    """As if killed: it runs nothing and sends nothing any more."""
    group = herder._members
    assert isinstance(group, WorkerGroupMember)
    group._stopping = True

    def close() -> None:
        for client in (herder._config_log, herder._status_log, group._member):
            client.close()

    herder.close = close  # type: ignore[method-assign]
    for name in list(herder.owned()):
        stage.leave(stage.running[name])
