"""The status topic, in Kafka Connect's record formats, as KafkaStatusBackingStore reads it.

    status-connector-<name>                  {"state": "RUNNING", "trace": null, "worker_id": ...,
    status-task-<name>-<number>               "generation": 3, "version": ...}
    status-topic-<topic>:connector-<name>    {"topic": {"name": ..., "connector": ..., "task": 0,
                                              "discoverTimestamp": ...}}

A tombstone removes its subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla.connect.herder.config_state import KeyedRecord, Value
from ottla.connect.run.connector_status import ConnectorState

CONNECTOR: Final = "status-connector-"
TASK: Final = "status-task-"
TOPIC: Final = "status-topic-"
OF_CONNECTOR: Final = ":connector-"


class ConnectorTaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


Subject = str | ConnectorTaskId
"""A connector (by name) or a task."""


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """The last status of a connector or a task, written by its owner at that time."""

    state: ConnectorState
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    connectors: Mapping[str, StoredStatus] = field(default_factory=dict)
    tasks: Mapping[ConnectorTaskId, StoredStatus] = field(default_factory=dict)
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Connector -> topics that it has used."""

    def get(self, subject: Subject) -> StoredStatus | None:
        if isinstance(subject, ConnectorTaskId):
            return self.tasks.get(subject)
        return self.connectors.get(subject)

    def tasks_of(self, connector: str) -> list[ConnectorTaskId]:
        return sorted(task for task in self.tasks if task.connector == connector)


def fold_status_record(before: ClusterStatus, key: str, value: Value) -> ClusterStatus:
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
        task = ConnectorTaskId(name, int(number))
        tasks = {k: v for k, v in before.tasks.items() if k != task}
        found = _status(value)
        if found is not None:
            tasks[task] = found
        return replace(before, tasks=tasks)
    if key.startswith(TOPIC):
        return _topic(before, key.removeprefix(TOPIC), value)
    return before


def _status(value: Value) -> StoredStatus | None:
    """None for DESTROYED, which Kafka writes for a deleted connector, and for unknown states."""
    word = str(value.get("state")) if value else ""
    if value is None or word not in ConnectorState.__members__:
        return None
    return StoredStatus(
        ConnectorState(word),
        str(value.get("worker_id", "")),
        int(value.get("generation", 0)),
        value.get("trace"),
        value.get("version"),
    )


def _topic(before: ClusterStatus, rest: str, value: Value) -> ClusterStatus:
    topic, found, connector = rest.partition(OF_CONNECTOR)
    if not found:
        return before
    others = tuple(other for other in before.topics.get(connector, ()) if other != topic)
    used = others if value is None else (*others, topic)
    topics = {**before.topics, connector: used}
    if not used:
        del topics[connector]
    return replace(before, topics=topics)


# Records to write


def status_record(subject: Subject, status: StoredStatus) -> KeyedRecord:
    return _key(subject), {
        "state": str(status.state),
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def status_tombstone(subject: Subject) -> KeyedRecord:
    return _key(subject), None


def topic_status_record(connector: str, topic: str, *, task: int, now_ms: int) -> KeyedRecord:
    about = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": now_ms}
    return f"{TOPIC}{topic}{OF_CONNECTOR}{connector}", {"topic": about}


def topic_status_tombstone(connector: str, topic: str) -> KeyedRecord:
    return f"{TOPIC}{topic}{OF_CONNECTOR}{connector}", None


def _key(subject: Subject) -> str:
    return f"{TASK}{subject}" if isinstance(subject, ConnectorTaskId) else f"{CONNECTOR}{subject}"
