"""What the status topic says, in Kafka Connect's own records.

    status-connector-<name>                  {"state": "RUNNING", "trace": null, "worker_id": ...,
    status-task-<name>-<number>               "generation": 3, "version": ...}
    status-topic-<topic>:connector-<name>    {"topic": {"name": ..., "connector": ..., "task": 0,
                                              "discoverTimestamp": ...}}

A record without a value takes its subject away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla.connect.herder.configs import Pair, Value
from ottla.connect.run.states import State

CONNECTOR: Final = "status-connector-"
TASK: Final = "status-task-"
TOPIC: Final = "status-topic-"
OF_CONNECTOR: Final = ":connector-"


class TaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


Subject = str | TaskId
"""A connector, by its name, or a task."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was last written of a connector or a task, by the worker that had it then."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Statuses:
    connectors: Mapping[str, Written] = field(default_factory=dict)
    tasks: Mapping[TaskId, Written] = field(default_factory=dict)
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each connector the topics that it has used."""

    def get(self, subject: Subject) -> Written | None:
        if isinstance(subject, TaskId):
            return self.tasks.get(subject)
        return self.connectors.get(subject)

    def tasks_of(self, connector: str) -> list[TaskId]:
        return sorted(each for each in self.tasks if each.connector == connector)


def fold(before: Statuses, key: str, value: Value) -> Statuses:
    if key.startswith(CONNECTOR):
        name = key.removeprefix(CONNECTOR)
        connectors = {k: v for k, v in before.connectors.items() if k != name}
        found = _status(value)
        if found is not None:
            connectors[name] = found
        return replace(before, connectors=connectors)
    if key.startswith(TASK):
        name, dash, number = key.removeprefix(TASK).rpartition("-")
        if not dash or not number.isdigit():
            return before
        task = TaskId(name, int(number))
        tasks = {k: v for k, v in before.tasks.items() if k != task}
        found = _status(value)
        if found is not None:
            tasks[task] = found
        return replace(before, tasks=tasks)
    if key.startswith(TOPIC):
        return _topic(before, key.removeprefix(TOPIC), value)
    return before


def _status(value: Value) -> Written | None:
    """A subject that was destroyed is as good as one that nobody wrote of."""
    word = str(value.get("state")) if value else ""
    if value is None or word not in State.__members__:  # DESTROYED is none of ours
        return None
    return Written(
        State(word),
        str(value.get("worker_id", "")),
        int(value.get("generation", 0)),
        value.get("trace"),
        value.get("version"),
    )


def _topic(before: Statuses, rest: str, value: Value) -> Statuses:
    topic, found, connector = rest.partition(OF_CONNECTOR)
    if not found:
        return before
    others = tuple(each for each in before.topics.get(connector, ()) if each != topic)
    used = others if value is None else (*others, topic)
    topics = {**before.topics, connector: used}
    if not used:
        del topics[connector]
    return replace(before, topics=topics)


# Records to be written


def status_pair(subject: Subject, status: Written) -> Pair:
    return _key(subject), {
        "state": str(status.state),
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def forgotten(subject: Subject) -> Pair:
    return _key(subject), None


def topic_pair(connector: str, topic: str, *, task: int, now_ms: int) -> Pair:
    about = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": now_ms}
    return f"{TOPIC}{topic}{OF_CONNECTOR}{connector}", {"topic": about}


def topic_forgotten(connector: str, topic: str) -> Pair:
    return f"{TOPIC}{topic}{OF_CONNECTOR}{connector}", None


def _key(subject: Subject) -> str:
    return f"{TASK}{subject}" if isinstance(subject, TaskId) else f"{CONNECTOR}{subject}"
