"""The config topic, in Kafka Connect's record formats, as KafkaConfigBackingStore reads it.

    connector-<name>           {"properties": {...}}; a tombstone deletes the connector
    target-state-<name>        {"state": "PAUSED", "state.v2": "STOPPED"}; `state` for old workers
    task-<name>-<number>       {"properties": {...}}; takes effect with the commit record:
    commit-<name>              {"tasks": <count>}
    restart-connector-<name>   {"include-tasks": ..., "only-failed": ...}
    logger-cluster-<logger>    {"level": "DEBUG"}

Every worker reads the topic from its beginning and applies each record with `fold_config_record`;
there is no other source of what connectors exist. Other records (session keys of Kafka's workers)
are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect.run.connector_status import TargetState

CONNECTOR: Final = "connector-"
TARGET_STATE: Final = "target-state-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
RESTART: Final = "restart-connector-"
LOGGER: Final = "logger-cluster-"

Value = Mapping[str, Any] | None
KeyedRecord = tuple[str, Value]


@dataclass(frozen=True, slots=True)
class StoredConnector:
    """A connector in the config topic. `offset` is that of its config record, and so identifies
    the version of the config."""

    config: Mapping[str, str]
    offset: int
    target: TargetState = TargetState.STARTED
    tasks: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    connectors: Mapping[str, StoredConnector] = field(default_factory=dict)
    targets: Mapping[str, TargetState] = field(default_factory=dict)
    """Includes connectors whose config record follows: so a connector is created STOPPED."""
    uncommitted: Mapping[str, Mapping[int, Mapping[str, str]]] = field(default_factory=dict)
    position: int = -1


@dataclass(frozen=True, slots=True)
class RestartRequest:
    connector: str
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    logger: str
    level: str


Event = RestartRequest | LoggerLevel | None


def fold_config_record(
    before: ClusterConfigState, key: str, value: Value, offset: int
) -> tuple[ClusterConfigState, Event]:
    """The state after this record, and the one-time event that the record asks for."""
    configs = replace(before, position=offset)
    if key.startswith(TARGET_STATE):
        return _target(configs, key.removeprefix(TARGET_STATE), value), None
    if key.startswith(CONNECTOR):
        return _connector(configs, key.removeprefix(CONNECTOR), value, offset), None
    if key.startswith(TASK):
        return _task(configs, key.removeprefix(TASK), value), None
    if key.startswith(COMMIT):
        return _commit(configs, key.removeprefix(COMMIT), value), None
    if key.startswith(RESTART) and value is not None:
        return configs, RestartRequest(
            key.removeprefix(RESTART),
            bool(value.get("include-tasks")),
            bool(value.get("only-failed")),
        )
    if key.startswith(LOGGER) and value is not None:
        return configs, LoggerLevel(key.removeprefix(LOGGER), str(value.get("level", "")))
    return configs, None


def _connector(
    configs: ClusterConfigState, name: str, value: Value, offset: int
) -> ClusterConfigState:
    connectors = dict(configs.connectors)
    if value is None:
        connectors.pop(name, None)
        uncommitted = {
            connector: found
            for connector, found in configs.uncommitted.items()
            if connector != name
        }
        targets = {
            connector: found for connector, found in configs.targets.items() if connector != name
        }
        return replace(configs, connectors=connectors, uncommitted=uncommitted, targets=targets)
    before = connectors.get(name)
    target = before.target if before else configs.targets.get(name, TargetState.STARTED)
    tasks = before.tasks if before else ()
    connectors[name] = StoredConnector(_texts(value.get("properties")), offset, target, tasks)
    return replace(configs, connectors=connectors)


def _target(configs: ClusterConfigState, name: str, value: Value) -> ClusterConfigState:
    if value is None:
        return replace(configs, targets={k: v for k, v in configs.targets.items() if k != name})
    word = str(value.get("state.v2") or value.get("state") or "")
    if word not in TargetState.__members__:
        return configs
    target = TargetState(word)
    configs = replace(configs, targets={**configs.targets, name: target})
    return _changed(configs, name, target=target)


def _task(configs: ClusterConfigState, name_and_number: str, value: Value) -> ClusterConfigState:
    name, dash, number = name_and_number.rpartition("-")
    if not dash or not number.isdigit() or value is None:
        return configs
    of_connector = {
        **configs.uncommitted.get(name, {}),
        int(number): _texts(value.get("properties")),
    }
    return replace(configs, uncommitted={**configs.uncommitted, name: of_connector})


def _commit(configs: ClusterConfigState, name: str, value: Value) -> ClusterConfigState:
    """Applies a complete set of task configs. An incomplete one, of a leader that died while
    writing or after compaction, is dropped: the previous set stays."""
    if value is None:
        return configs
    count = int(value.get("tasks", 0))
    found = configs.uncommitted.get(name, {})
    left = {
        connector: tasks for connector, tasks in configs.uncommitted.items() if connector != name
    }
    configs = replace(configs, uncommitted=left)
    if any(number not in found for number in range(count)):
        return configs
    return _changed(configs, name, tasks=tuple(found[number] for number in range(count)))


def _changed(configs: ClusterConfigState, name: str, **changes: Any) -> ClusterConfigState:
    before = configs.connectors.get(name)
    if before is None:
        return configs
    return replace(configs, connectors={**configs.connectors, name: replace(before, **changes)})


def _texts(properties: Any) -> dict[str, str]:
    return {str(name): value for name, value in (properties or {}).items()}


# Records to write


def connector_record(name: str, config: Mapping[str, str]) -> KeyedRecord:
    return CONNECTOR + name, {"properties": dict(config)}


def deletion_records(name: str) -> list[KeyedRecord]:
    return [(CONNECTOR + name, None), (TARGET_STATE + name, None)]


def target_state_record(name: str, target: TargetState) -> KeyedRecord:
    old = (
        TargetState.PAUSED if target is TargetState.STOPPED else target
    )  # for workers before Kafka 3.5
    return TARGET_STATE + name, {"state": str(old), "state.v2": str(target)}


def task_config_records(name: str, tasks: Sequence[Mapping[str, str]]) -> list[KeyedRecord]:
    pairs: list[KeyedRecord] = [
        (f"{TASK}{name}-{number}", {"properties": dict(config)})
        for number, config in enumerate(tasks)
    ]
    return [*pairs, (COMMIT + name, {"tasks": len(tasks)})]


def restart_record(restart: RestartRequest) -> KeyedRecord:
    return RESTART + restart.connector, {
        "include-tasks": restart.include_tasks,
        "only-failed": restart.only_failed,
    }


def logger_level_record(logger: str, level: str) -> KeyedRecord:
    return LOGGER + logger, {"level": level}
