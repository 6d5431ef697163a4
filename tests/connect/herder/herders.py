"""Workers whose connectors only say that they run: herding is tested without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.connect.herder.herder import Herder
from ottla.connect.herder.members import Group
from ottla.connect.herder.runs import Running
from ottla.connect.run.connect_worker import make_herder
from ottla.connect.run.states import State, Status, Target, TaskStatus
from ottla.connect.run.worker import Worker

WAIT_S: Final = 240.0


def until(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


class Pretended:
    """A connector that runs nowhere. `tasks.max` tasks; `trouble` fails its first task."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        config: Mapping[str, str],
        generation: int,
        target: Target,
        on_state: Callable[[Status], None],
    ) -> None:
        self.name = name
        self.config = dict(config)
        self._stage = stage
        self._generation = generation
        self._on_state = on_state
        self._trouble = "trouble" in config
        self._paused = target is Target.PAUSED
        self.restarts: list[object] = []

    @property
    def status(self) -> Status:
        state = State.PAUSED if self._paused else State.RUNNING
        tasks = [TaskStatus(number, state) for number in range(len(self.task_configs))]
        if self._trouble and tasks:
            tasks[0] = TaskStatus(0, State.FAILED, "Traceback: trouble")
        topics = frozenset({self.config.get("topics", "lines")})
        return Status(self.name, state, None, tuple(tasks), topics, self._generation)

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
    """Where the connectors of all workers of a test pretend to run; never two of one name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running: dict[str, Pretended] = {}
        self.overlaps: list[str] = []

    def start(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        generation: int,
        target: Target,
        on_state: Callable[[Status], None],
    ) -> Running:
        if config.get("refuse") == "true":
            raise ValueError("this one does not start")
        made = Pretended(self, name, config, generation, target, on_state)
        with self._lock:
            if name in self.running:
                self.overlaps.append(name)
            self.running[name] = made
        threading.Thread(target=made.tell).start()
        return made

    def leave(self, pretended: Pretended) -> None:
        with self._lock:
            if self.running.get(pretended.name) is pretended:
                del self.running[pretended.name]


def properties(bootstrap_servers: str, **more: str) -> dict[str, str]:
    """Others are heard of at once; who is gone is missed after ten seconds, as by default."""
    quick = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "300"}
    return {"bootstrap.servers": bootstrap_servers, **quick, **more}


def herder(bootstrap_servers: str, stage: Stage, id_: str) -> Herder:
    worker = Worker(properties(bootstrap_servers), id_)
    return make_herder(worker, alone=False, start=stage.start)


def vanish(herder: Herder, stage: Stage) -> None:
    """Killed: it runs nothing, and says nothing more to anybody."""
    group = herder._members
    assert isinstance(group, Group)
    group._stopping = True

    def close() -> None:
        for each in (herder._config_log, herder._status_log, group._member):
            each.close()

    herder.close = close  # type: ignore[method-assign]
    for name in list(herder.owned()):
        stage.leave(stage.running[name])
