"""The herder of one worker, distributed or standalone.

It reads the config log (desired state) and the status log (actual state), as every worker does, and
answers from what it has read. Only the leader writes configs: with several writers a check ("does
the connector exist?") and the write that depends on it could interleave. Any other worker raises
RequestTargetException with the leader's URL. Connectors that are assigned to this worker go to
`ConnectorReconciler`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from ottla.connect.herder import cluster_status, config_state
from ottla.connect.herder.assignment import WorkerAssignment
from ottla.connect.herder.backing_log import BackingLog
from ottla.connect.herder.cluster_status import (
    ClusterStatus,
    ConnectorTaskId,
    StoredStatus,
    Subject,
)
from ottla.connect.herder.config_state import (
    ClusterConfigState,
    LoggerLevel,
    RestartRequest,
    StoredConnector,
    Value,
)
from ottla.connect.herder.connector_reconciler import (
    ConnectorReconciler,
    DesiredState,
    StartConnector,
)
from ottla.connect.herder.rest_exceptions import (
    RequestTargetException,
    not_found,
    server_error,
    stale_configuration,
)
from ottla.connect.herder.worker_group_member import MembershipView
from ottla.connect.run.connector_status import ConnectorState, ConnectorStatus, TaskStatus
from ottla.errors import KafkaError

SYNC_S_MAX: Final = 3.0  # worker.sync.timeout.ms
SETTLE_S_MAX: Final = 30.0  # of the 90 s that Kafka's REST waits for an answer
SETTLE_LOOK_S: Final = 0.01

log = logging.getLogger("ottla.connect")


class WorkerMembership(Protocol):
    view: MembershipView

    def start(self) -> None: ...

    def rejoin(self) -> None: ...

    def close(self) -> None: ...


class Herder:
    """`join(herder)` creates the membership; `levels` sets a logger's level on this worker."""

    def __init__(
        self,
        worker_id: str,
        *,
        configs: BackingLog,
        statuses: BackingLog,
        start: StartConnector,
        join: Callable[[Herder], WorkerMembership],
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
        self._configs = ClusterConfigState()
        self._statuses = ClusterStatus()
        self._assigned: tuple[str, ...] = ()
        self._generation = 0
        self._published: dict[str, ConnectorStatus] = {}  # written, perhaps not read back yet
        self._runs = ConnectorReconciler(start, self, on_stopped=self._rejoin)
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

    # State

    @property
    def configs(self) -> ClusterConfigState:
        return self._configs

    @property
    def statuses(self) -> ClusterStatus:
        return self._statuses

    @property
    def view(self) -> MembershipView:
        return self._members.view

    @property
    def ready(self) -> bool:
        """Both logs are replayed, and this worker has an assignment."""
        logs = self._config_log.replayed and self._status_log.replayed
        return logs and self.view.assignment is not None

    def stored(self, name: str, words: str = "Connector {} not found") -> StoredConnector:
        found = self._configs.connectors.get(name)
        if found is None:
            raise not_found(words.format(name))
        return found

    def read_to_end(self) -> None:
        """Read to the end of the config topic, so that every earlier change is known here."""
        if not self._config_log.catch_up(SYNC_S_MAX):
            raise server_error("Failed to read to end of config topic")

    def check_no_rebalance(self) -> None:
        """Wait for the end of a rebalance, as in Kafka, whose herder handles requests between
        rebalances; raise if that takes too long."""
        deadline = time.monotonic() + SETTLE_S_MAX
        while (view := self.view).assignment is None or not view.stable:
            if self._closing or time.monotonic() > deadline:
                break
            time.sleep(SETTLE_LOOK_S)
        if view.assignment is None:
            raise RequestTargetException(None)
        if not view.stable:
            raise stale_configuration()

    def check_is_leader(self) -> None:
        self.check_no_rebalance()
        view = self.view
        if not view.is_leader:
            raise RequestTargetException(view.assignment.leader_url if view.assignment else None)

    def check_is_owner(self, name: str) -> None:
        """The leader knows every owner, and every worker knows the leader: two hops suffice."""
        if name in self._assigned:
            return
        view = self.view
        assignment = view.assignment or WorkerAssignment()
        raise RequestTargetException(
            assignment.owners.get(name) if view.is_leader else assignment.leader_url or None
        )

    # Changes

    def write_configs(self, pairs: Sequence[config_state.KeyedRecord]) -> None:
        self._config_log.write(pairs)

    def write_statuses(self, pairs: Sequence[config_state.KeyedRecord]) -> None:
        self._status_log.write(pairs)

    def restart_here(self, restart: RestartRequest) -> None:
        """Restart what is requested, if this worker runs the connector."""
        self._runs.restart(
            restart.connector,
            include_tasks=restart.include_tasks,
            only_failed=restart.only_failed,
        )

    def restart_task_here(self, name: str, task: int) -> None:
        self._runs.restart_task(name, task)

    # Records, on the threads of the logs

    def _config_read(self, key: str, value: Value, offset: int) -> None:
        with self._lock:
            before = self._configs
            after, event = config_state.fold_config_record(before, key, value, offset)
            self._configs = after
        if isinstance(event, LoggerLevel):
            self._levels(event.logger, event.level)
        if not self._config_log.replayed:
            # During replay a restart record is history, and connectors start once the whole
            # topic is known.
            return
        if isinstance(event, RestartRequest):
            self.restart_here(event)
        elif after.connectors.keys() != before.connectors.keys():
            self._rejoin()
        else:
            self._update_runs()

    def _status_read(self, key: str, value: Value, offset: int) -> None:
        with self._lock:
            self._statuses = cluster_status.fold_status_record(self._statuses, key, value)

    # WorkerRebalanceListener

    def owned(self) -> Collection[str]:
        return self._runs.names()

    def connectors(self) -> tuple[Collection[str], int]:
        found = self._configs
        return found.connectors.keys(), found.position

    def on_assigned(self, assignment: WorkerAssignment, generation: int) -> None:
        with self._lock:
            self._assigned = assignment.connectors
            self._generation = generation
        if self._configs.position < assignment.offset:
            self._config_log.catch_up(SYNC_S_MAX)
        self._update_runs()

    def on_lost(self) -> None:
        with self._lock:
            self._assigned = ()
        self._update_runs()

    def _rejoin(self) -> None:
        if not self._closing:
            self._members.rejoin()

    def _update_runs(self) -> None:
        """Let this worker run its assigned connectors, by their current configs."""
        if self._closing:
            return
        with self._lock:
            found = self._configs.connectors
            states = {
                name: DesiredState(
                    found[name].config,
                    found[name].offset,
                    found[name].target,
                    self._generation,
                )
                for name in self._assigned
                if name in found
            }
            self._runs.set_desired(states)

    # ConnectorRunListener, on the connectors' threads

    def on_status(self, status: ConnectorStatus) -> None:
        """Writes what has changed. Progress, which changes with every batch, is left out."""
        name, generation = status.name, status.generation
        published = replace(status, progress={})
        if self._published.get(name) == published:
            return
        known = self._known_tasks(name)
        self._published[name] = published
        stored = self._configs.connectors.get(name)
        version = self._version_of(stored.config) if stored else None
        pairs = [self._status_pair(name, status, generation, version)]
        pairs += [
            self._status_pair(ConnectorTaskId(name, task.id), task, generation, version)
            for task in status.tasks
        ]
        tasks = {ConnectorTaskId(name, task.id) for task in status.tasks}
        pairs += [cluster_status.status_tombstone(task) for task in sorted(known - tasks)]
        used = self._statuses.topics.get(name, ())
        pairs += [
            cluster_status.topic_status_record(name, topic, task=0, now_ms=self._now_ms())
            for topic in sorted(status.topics)
            if topic not in used
        ]
        self._status_log.send(pairs)

    def on_task_configs(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None:
        """Writes task configs that differ. Called at every status change, so a failed write is
        retried."""
        stored = self._configs.connectors.get(name)
        if stored is None or list(stored.tasks) == list(tasks):
            return
        try:
            self._config_log.write(config_state.task_config_records(name, tasks))
        except KafkaError as error:
            log.warning("Writing task configs of connector %s failed: %s", name, error)

    def _known_tasks(self, name: str) -> set[ConnectorTaskId]:
        published = self._published.get(name)
        mine = {ConnectorTaskId(name, task.id) for task in published.tasks} if published else set()
        return {*self._statuses.tasks_of(name), *mine}

    def on_stopped(self, name: str, generation: int) -> None:
        if name in self._configs.connectors:
            self._unassigned(name, generation)
        else:
            self._forget(name)
        self._published.pop(name, None)

    def _unassigned(self, name: str, generation: int) -> None:
        """Writes UNASSIGNED, unless the connector's new owner has written its status already."""
        subjects: list[Subject] = [name, *sorted(self._known_tasks(name))]
        status = ConnectorStatus(name, ConnectorState.UNASSIGNED)
        self._status_log.send(
            [
                self._status_pair(subject, status, generation)
                for subject in subjects
                if self._is_mine(self._statuses.get(subject), generation)
            ]
        )

    def _is_mine(self, status: StoredStatus | None, generation: int) -> bool:
        return (
            status is None or status.worker_id == self.worker_id or status.generation <= generation
        )

    def _forget(self, name: str) -> None:
        subjects: list[Subject] = [name, *sorted(self._known_tasks(name))]
        topics = self._statuses.topics.get(name, ())
        self._status_log.send(
            [
                *(cluster_status.status_tombstone(subject) for subject in subjects),
                *(cluster_status.topic_status_tombstone(name, topic) for topic in topics),
            ]
        )

    def _status_pair(
        self,
        subject: Subject,
        status: ConnectorStatus | TaskStatus,
        generation: int,
        version: str | None = None,
    ) -> config_state.KeyedRecord:
        written = StoredStatus(status.state, self.worker_id, generation, status.trace, version)
        return cluster_status.status_record(subject, written)
