"""Connectors, tasks and statuses in the JSON of Kafka Connect's REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.connect.herder.cluster_status import ClusterStatus, ConnectorTaskId, StoredStatus
from ottla.connect.herder.config_state import RestartRequest, StoredConnector
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.rest_exceptions import ConnectRestException, not_found
from ottla.connect.run.connector_status import ConnectorState
from ottla.connect.secrets import masked

Json = dict[str, Any]
TypeOf = Callable[[Mapping[str, str] | None], str]
"""The connector's type by its config: source, sink or unknown."""
Mask = Callable[[Mapping[str, str]], dict[str, str]]
"""A config with its secrets masked."""


class ConnectorViews:
    def __init__(self, herder: Herder, type_of: TypeOf, mask: Mask = masked) -> None:
        self._herder = herder
        self._type_of = type_of
        self._mask = mask

    def names(self) -> list[str]:
        return sorted(self._herder.configs.connectors)

    def expanded(self, parts: Iterable[str]) -> dict[str, Json]:
        """`?expand=`: the requested parts of every connector that still exists."""
        about = {"status": self.status, "info": self.info}
        found: dict[str, Json] = {}
        for name in self.names():
            try:
                found[name] = {part: about[part](name) for part in parts if part in about}
            except ConnectRestException:
                continue
        return found

    def info(self, name: str) -> Json:
        return self._info(name, self._herder.stored(name))

    def _info(self, name: str, stored: StoredConnector) -> Json:
        return {
            "name": name,
            "config": self._mask(stored.config),
            "tasks": [{"connector": name, "task": number} for number in range(len(stored.tasks))],
            "type": self._type_of(stored.config),
        }

    def config(self, name: str) -> dict[str, str]:
        return self._mask(self._herder.stored(name).config)

    def task_configs(self, name: str) -> list[Json]:
        return [
            {"id": {"connector": name, "task": number}, "config": self._mask(config)}
            for number, config in enumerate(self._herder.stored(name).tasks)
        ]

    def status(self, name: str) -> Json:
        statuses = self._herder.statuses
        found = statuses.get(name)
        if found is None:
            raise not_found(f"No status found for connector {name}")
        return self._status(name, _state(found), _task_states(name, statuses))

    def task_status(self, name: str, task: int) -> Json:
        found = self._herder.statuses.get(ConnectorTaskId(name, task))
        if found is None:
            raise not_found(f"No status found for task {name}-{task}")
        return {"id": task, **_state(found)}

    def restarting(self, restart: RestartRequest) -> Json:
        """The status as the restart will set it, which is the answer to the request."""
        name, statuses = restart.connector, self._herder.statuses
        found = statuses.get(name)
        if found is None:
            raise not_found(f"Status for connector {name} not found")
        connector, tasks = restart_plan(restart, statuses)
        about = _state(found)
        if connector:
            about = _restarting(about)
        states = _task_states(name, statuses)
        planned = [_restarting(state) if state["id"] in tasks else state for state in states]
        return self._status(name, about, planned)

    def topics(self, name: str) -> Json:
        return {name: {"topics": list(self._herder.statuses.topics.get(name, ()))}}

    def _status(self, name: str, connector: Json, tasks: list[Json]) -> Json:
        stored = self._herder.configs.connectors.get(name)
        kind = self._type_of(stored.config if stored else None)
        return {"name": name, "connector": connector, "tasks": tasks, "type": kind}


def restart_plan(restart: RestartRequest, statuses: ClusterStatus) -> tuple[bool, list[int]]:
    """Whether to restart the connector, and which of its tasks (KIP-745)."""

    def chosen(written: StoredStatus | None) -> bool:
        return not restart.only_failed or (
            written is not None and written.state is ConnectorState.FAILED
        )

    tasks = [
        task.task
        for task in statuses.tasks_of(restart.connector)
        if restart.include_tasks and chosen(statuses.get(task))
    ]
    return chosen(statuses.get(restart.connector)), tasks


def _task_states(name: str, statuses: ClusterStatus) -> list[Json]:
    return [{"id": task.task, **_state(statuses.tasks[task])} for task in statuses.tasks_of(name)]


def _state(written: StoredStatus) -> Json:
    about: Json = {"state": str(written.state), "worker_id": written.worker_id}
    if written.trace:
        about["trace"] = written.trace
    if written.version:
        about["version"] = written.version
    return about


def _restarting(about: Json) -> Json:
    without = {name: value for name, value in about.items() if name != "trace"}
    return {**without, "state": str(ConnectorState.RESTARTING)}
