"""What is answered about connectors, in the JSON of Kafka Connect's REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.connect.herder.configs import Kept, Restart
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.refusals import Refusal, not_found
from ottla.connect.herder.statuses import Statuses, TaskId, Written
from ottla.connect.run.states import State
from ottla.connect.secrets import masked

Json = dict[str, Any]
TypeOf = Callable[[Mapping[str, str] | None], str]
"""source, sink or unknown, by a connector's config."""
Mask = Callable[[Mapping[str, str]], dict[str, str]]
"""A config as it may be shown."""


class Answers:
    def __init__(self, herder: Herder, type_of: TypeOf, mask: Mask = masked) -> None:
        self._herder = herder
        self._type_of = type_of
        self._mask = mask

    def names(self) -> list[str]:
        return sorted(self._herder.configs.connectors)

    def expanded(self, parts: Iterable[str]) -> dict[str, Json]:
        """Of every connector what is asked for; one that goes meanwhile is left out."""
        about = {"status": self.status, "info": self.info}
        found: dict[str, Json] = {}
        for name in self.names():
            try:
                found[name] = {each: about[each](name) for each in parts if each in about}
            except Refusal:
                continue
        return found

    def info(self, name: str) -> Json:
        return self._info(name, self._herder.kept(name))

    def _info(self, name: str, kept: Kept) -> Json:
        return {
            "name": name,
            "config": self._mask(kept.config),
            "tasks": [{"connector": name, "task": number} for number in range(len(kept.tasks))],
            "type": self._type_of(kept.config),
        }

    def config(self, name: str) -> dict[str, str]:
        return self._mask(self._herder.kept(name).config)

    def task_configs(self, name: str) -> list[Json]:
        return [
            {"id": {"connector": name, "task": number}, "config": self._mask(config)}
            for number, config in enumerate(self._herder.kept(name).tasks)
        ]

    def status(self, name: str) -> Json:
        statuses = self._herder.statuses
        found = statuses.get(name)
        if found is None:
            raise not_found(f"No status found for connector {name}")
        return self._status(name, _state(found), _task_states(name, statuses))

    def task_status(self, name: str, task: int) -> Json:
        found = self._herder.statuses.get(TaskId(name, task))
        if found is None:
            raise not_found(f"No status found for task {name}-{task}")
        return {"id": task, **_state(found)}

    def restarting(self, restart: Restart) -> Json:
        """Where it will stand when the restart has begun."""
        name, statuses = restart.connector, self._herder.statuses
        found = statuses.get(name)
        if found is None:
            raise not_found(f"Status for connector {name} not found")
        connector, tasks = restart_plan(restart, statuses)
        about = _state(found)
        if connector:
            about = _restarting(about)
        states = _task_states(name, statuses)
        planned = [_restarting(each) if each["id"] in tasks else each for each in states]
        return self._status(name, about, planned)

    def topics(self, name: str) -> Json:
        return {name: {"topics": list(self._herder.statuses.topics.get(name, ()))}}

    def _status(self, name: str, connector: Json, tasks: list[Json]) -> Json:
        kept = self._herder.configs.connectors.get(name)
        kind = self._type_of(kept.config if kept else None)
        return {"name": name, "connector": connector, "tasks": tasks, "type": kind}


def restart_plan(restart: Restart, statuses: Statuses) -> tuple[bool, list[int]]:
    """Is the connector to be restarted, and which of its tasks? (KIP-745)"""

    def chosen(written: Written | None) -> bool:
        return not restart.only_failed or (written is not None and written.state is State.FAILED)

    tasks = [
        each.task
        for each in statuses.tasks_of(restart.connector)
        if restart.include_tasks and chosen(statuses.get(each))
    ]
    return chosen(statuses.get(restart.connector)), tasks


def _task_states(name: str, statuses: Statuses) -> list[Json]:
    return [{"id": each.task, **_state(statuses.tasks[each])} for each in statuses.tasks_of(name)]


def _state(written: Written) -> Json:
    about: Json = {"state": str(written.state), "worker_id": written.worker_id}
    if written.trace:
        about["trace"] = written.trace
    if written.version:
        about["version"] = written.version
    return about


def _restarting(about: Json) -> Json:
    without = {name: value for name, value in about.items() if name != "trace"}
    return {**without, "state": str(State.RESTARTING)}
