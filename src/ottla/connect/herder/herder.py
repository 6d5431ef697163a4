"""The herder: what connectors there are, who runs them, and how all of that is changed.

What is to be is in one log (configs), where things stand is in another (statuses); every worker
follows both, and answers questions from what it has read. Changes are written by the leader alone;
whoever is asked and does not lead says who does (Elsewhere). Whatever is assigned to this worker is
handed to `Runs`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from ottla.connect.herder import configs as config_log
from ottla.connect.herder import statuses as status_log
from ottla.connect.herder.assignment import Assignment
from ottla.connect.herder.configs import Configs, Kept, LoggerLevel, Restart, Value
from ottla.connect.herder.logs import Log
from ottla.connect.herder.members import View
from ottla.connect.herder.refusals import Elsewhere, not_found, server_error, stale
from ottla.connect.herder.runs import Runs, Start, Wish
from ottla.connect.herder.statuses import Statuses, Subject, TaskId, Written
from ottla.connect.run.states import State, Status, TaskStatus
from ottla.errors import KafkaError

SYNC_S_MAX: Final = 3.0  # worker.sync.timeout.ms
SETTLE_S_MAX: Final = 30.0  # of the 90 s that Kafka's REST waits for an answer
SETTLE_LOOK_S: Final = 0.01

log = logging.getLogger("ottla.connect")


class Membership(Protocol):
    view: View

    def start(self) -> None: ...

    def rejoin(self) -> None: ...

    def close(self) -> None: ...


class Herder:
    """`join(herder)` makes the membership; `levels` sets the level of a logger everywhere."""

    def __init__(
        self,
        worker_id: str,
        *,
        configs: Log,
        statuses: Log,
        start: Start,
        join: Callable[[Herder], Membership],
        levels: Callable[[str, str], object] = lambda logger, level: None,
        version_of: Callable[[Mapping[str, str]], str | None] = lambda config: None,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.worker_id = worker_id
        self._config_log = configs
        self._status_log = statuses
        self._levels = levels
        self._version_of = version_of
        self._now_ms = now_ms
        self._lock = threading.RLock()
        self._configs = Configs()
        self._statuses = Statuses()
        self._assigned: tuple[str, ...] = ()
        self._generation = 0
        self._told: dict[str, Status] = {}  # written, and perhaps not read back yet
        self._runs = Runs(start, self, ended=self._rejoin)
        self._members = join(self)
        self._closing = False

    def start(self) -> None:
        self._status_log.start(self._status_read)
        self._config_log.start(self._config_read)
        self._members.start()

    def close(self) -> None:
        self._closing = True
        self._runs.close()
        self._members.close()
        self._config_log.close()
        self._status_log.close()

    # What is known

    @property
    def configs(self) -> Configs:
        return self._configs

    @property
    def statuses(self) -> Statuses:
        return self._statuses

    @property
    def view(self) -> View:
        return self._members.view

    @property
    def ready(self) -> bool:
        """Everything was read, and the workers know of this one."""
        logs = self._config_log.replayed and self._status_log.replayed
        return logs and self.view.assignment is not None

    def kept(self, name: str, words: str = "Connector {} not found") -> Kept:
        found = self._configs.connectors.get(name)
        if found is None:
            raise not_found(words.format(name))
        return found

    def caught_up(self) -> None:
        """Every change that was made before this is known here."""
        if not self._config_log.catch_up(SYNC_S_MAX):
            raise server_error("Failed to read to end of config topic")

    def check_settled(self) -> None:
        """While the workers find out who does what a request waits, as in Kafka, whose herder works
        on requests between two rounds; refused if that takes too long."""
        deadline = time.monotonic() + SETTLE_S_MAX
        while (view := self.view).assignment is None or not view.settled:
            if self._closing or time.monotonic() > deadline:
                break
            time.sleep(SETTLE_LOOK_S)
        if view.assignment is None:
            raise Elsewhere(None)
        if not view.settled:
            raise stale()

    def check_leads(self) -> None:
        self.check_settled()
        view = self.view
        if not view.leads:
            raise Elsewhere(view.assignment.leader_url if view.assignment else None)

    def check_owns(self, name: str) -> None:
        """The leader knows the owner; everybody knows the leader."""
        if name in self._assigned:
            return
        view = self.view
        assignment = view.assignment or Assignment()
        raise Elsewhere(
            assignment.owners.get(name) if view.leads else assignment.leader_url or None
        )

    # Changes, by whoever may make them

    def write_configs(self, pairs: Sequence[config_log.Pair]) -> None:
        self._config_log.write(pairs)

    def write_statuses(self, pairs: Sequence[config_log.Pair]) -> None:
        self._status_log.write(pairs)

    def restart_here(self, restart: Restart) -> None:
        """What of it is to be restarted, if this worker has it."""
        self._runs.restart(
            restart.connector,
            include_tasks=restart.include_tasks,
            only_failed=restart.only_failed,
        )

    def restart_task_here(self, name: str, task: int) -> None:
        self._runs.restart_task(name, task)

    # What is read, on the threads of the logs

    def _config_read(self, key: str, value: Value, offset: int) -> None:
        with self._lock:
            before = self._configs
            after, event = config_log.fold(before, key, value, offset)
            self._configs = after
        if isinstance(event, LoggerLevel):
            self._levels(event.logger, event.level)
        if not self._config_log.replayed:
            return  # a restart was done, or its worker is gone; what is to run is asked at the end
        if isinstance(event, Restart):
            self.restart_here(event)
        elif after.connectors.keys() != before.connectors.keys():
            self._rejoin()
        else:
            self._work()

    def _status_read(self, key: str, value: Value, offset: int) -> None:
        with self._lock:
            self._statuses = status_log.fold(self._statuses, key, value)

    # What the membership asks and tells (members.Tells)

    def owned(self) -> Collection[str]:
        return self._runs.names()

    def connectors(self) -> tuple[Collection[str], int]:
        found = self._configs
        return found.connectors.keys(), found.position

    def assigned(self, assignment: Assignment, generation: int) -> None:
        with self._lock:
            self._assigned = assignment.connectors
            self._generation = generation
        if self._configs.position < assignment.offset:
            self._config_log.catch_up(SYNC_S_MAX)
        self._work()

    def lost(self) -> None:
        with self._lock:
            self._assigned = ()
        self._work()

    def _rejoin(self) -> None:
        if not self._closing:
            self._members.rejoin()

    def _work(self) -> None:
        """What runs here is what is assigned, as it is written down now."""
        if self._closing:
            return
        with self._lock:
            found = self._configs.connectors
            wishes = {
                name: Wish(
                    found[name].config,
                    found[name].offset,
                    found[name].target,
                    self._generation,
                )
                for name in self._assigned
                if name in found
            }
            self._runs.wish(wishes)

    # What runs write down (runs.Writes), on their threads

    def stands(self, status: Status) -> None:
        """Progress is told with every batch; what is written is what has changed."""
        name, generation = status.name, status.generation
        told = replace(status, progress={})
        if self._told.get(name) == told:
            return
        known = self._known_tasks(name)
        self._told[name] = told
        kept = self._configs.connectors.get(name)
        version = self._version_of(kept.config) if kept else None
        pairs = [self._status_pair(name, status, generation, version)]
        pairs += [
            self._status_pair(TaskId(name, each.id), each, generation, version)
            for each in status.tasks
        ]
        tasks = {TaskId(name, each.id) for each in status.tasks}
        pairs += [status_log.forgotten(each) for each in sorted(known - tasks)]
        used = self._statuses.topics.get(name, ())
        pairs += [
            status_log.topic_pair(name, each, task=0, now_ms=self._now_ms())
            for each in sorted(status.topics)
            if each not in used
        ]
        self._status_log.send(pairs)

    def has_tasks(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None:
        """Compared whenever something is told: what could not be written is tried again then."""
        kept = self._configs.connectors.get(name)
        if kept is None or list(kept.tasks) == list(tasks):
            return
        try:
            self._config_log.write(config_log.task_pairs(name, tasks))
        except KafkaError as error:
            log.warning("the tasks of %s could not be written: %s", name, error)

    def _known_tasks(self, name: str) -> set[TaskId]:
        told = self._told.get(name)
        mine = {TaskId(name, each.id) for each in told.tasks} if told else set()
        return {*self._statuses.tasks_of(name), *mine}

    def ended(self, name: str, generation: int) -> None:
        if name in self._configs.connectors:
            self._unassigned(name, generation)
        else:
            self._forget(name)
        self._told.pop(name, None)

    def _unassigned(self, name: str, generation: int) -> None:
        """Unless another worker has written of it since."""
        subjects: list[Subject] = [name, *sorted(self._known_tasks(name))]
        status = Status(name, State.UNASSIGNED)
        self._status_log.send(
            [
                self._status_pair(each, status, generation)
                for each in subjects
                if self._is_mine(self._statuses.get(each), generation)
            ]
        )

    def _is_mine(self, status: Written | None, generation: int) -> bool:
        return (
            status is None or status.worker_id == self.worker_id or status.generation <= generation
        )

    def _forget(self, name: str) -> None:
        subjects: list[Subject] = [name, *sorted(self._known_tasks(name))]
        topics = self._statuses.topics.get(name, ())
        self._status_log.send(
            [
                *(status_log.forgotten(each) for each in subjects),
                *(status_log.topic_forgotten(name, each) for each in topics),
            ]
        )

    def _status_pair(
        self,
        subject: Subject,
        status: Status | TaskStatus,
        generation: int,
        version: str | None = None,
    ) -> config_log.Pair:
        written = Written(status.state, self.worker_id, generation, status.trace, version)
        return status_log.status_pair(subject, written)
