"""What the config topic says, in Kafka Connect's own records.

    connector-<name>           {"properties": {...}}; without a value the connector is deleted
    target-state-<name>        {"state": "PAUSED", "state.v2": "STOPPED"}; `state` is for old ones
    task-<name>-<number>       {"properties": {...}}, which count when they are committed:
    commit-<name>              {"tasks": <how many>}
    restart-connector-<name>   {"include-tasks": ..., "only-failed": ...}
    logger-cluster-<logger>    {"level": "DEBUG"}

Every worker reads the topic from its beginning and folds it by `fold`; nothing else is asked what
connectors there are. Records of other kinds (session keys of Kafka's workers) are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect.run.states import Target

CONNECTOR: Final = "connector-"
TARGET_STATE: Final = "target-state-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
RESTART: Final = "restart-connector-"
LOGGER: Final = "logger-cluster-"

Value = Mapping[str, Any] | None
Pair = tuple[str, Value]


@dataclass(frozen=True, slots=True)
class Kept:
    """A connector as it is written down. `offset` is that of its config: another offset, another
    config."""

    config: Mapping[str, str]
    offset: int
    target: Target = Target.STARTED
    tasks: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Configs:
    connectors: Mapping[str, Kept] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    """Also of connectors whose config comes later: a connector is created stopped this way."""
    uncommitted: Mapping[str, Mapping[int, Mapping[str, str]]] = field(default_factory=dict)
    position: int = -1


@dataclass(frozen=True, slots=True)
class Restart:
    connector: str
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    logger: str
    level: str


Event = Restart | LoggerLevel | None


def fold(before: Configs, key: str, value: Value, offset: int) -> tuple[Configs, Event]:
    """What is written down after this record, and what it asks to be done once."""
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
        return configs, Restart(
            key.removeprefix(RESTART),
            bool(value.get("include-tasks")),
            bool(value.get("only-failed")),
        )
    if key.startswith(LOGGER) and value is not None:
        return configs, LoggerLevel(key.removeprefix(LOGGER), str(value.get("level", "")))
    return configs, None


def _connector(configs: Configs, name: str, value: Value, offset: int) -> Configs:
    connectors = dict(configs.connectors)
    if value is None:
        connectors.pop(name, None)
        uncommitted = {each: found for each, found in configs.uncommitted.items() if each != name}
        targets = {each: found for each, found in configs.targets.items() if each != name}
        return replace(configs, connectors=connectors, uncommitted=uncommitted, targets=targets)
    before = connectors.get(name)
    target = before.target if before else configs.targets.get(name, Target.STARTED)
    tasks = before.tasks if before else ()
    connectors[name] = Kept(_texts(value.get("properties")), offset, target, tasks)
    return replace(configs, connectors=connectors)


def _target(configs: Configs, name: str, value: Value) -> Configs:
    if value is None:
        return replace(configs, targets={k: v for k, v in configs.targets.items() if k != name})
    word = str(value.get("state.v2") or value.get("state") or "")
    if word not in Target.__members__:
        return configs
    target = Target(word)
    configs = replace(configs, targets={**configs.targets, name: target})
    return _changed(configs, name, target=target)


def _task(configs: Configs, name_and_number: str, value: Value) -> Configs:
    name, dash, number = name_and_number.rpartition("-")
    if not dash or not number.isdigit() or value is None:
        return configs
    of_connector = {
        **configs.uncommitted.get(name, {}),
        int(number): _texts(value.get("properties")),
    }
    return replace(configs, uncommitted={**configs.uncommitted, name: of_connector})


def _commit(configs: Configs, name: str, value: Value) -> Configs:
    """All of them, or what there was before: half a set of tasks is none."""
    if value is None:
        return configs
    count = int(value.get("tasks", 0))
    found = configs.uncommitted.get(name, {})
    left = {each: tasks for each, tasks in configs.uncommitted.items() if each != name}
    configs = replace(configs, uncommitted=left)
    if any(number not in found for number in range(count)):
        return configs
    return _changed(configs, name, tasks=tuple(found[number] for number in range(count)))


def _changed(configs: Configs, name: str, **changes: Any) -> Configs:
    before = configs.connectors.get(name)
    if before is None:
        return configs
    return replace(configs, connectors={**configs.connectors, name: replace(before, **changes)})


def _texts(properties: Any) -> dict[str, str]:
    return {str(name): value for name, value in (properties or {}).items()}


# Records to be written


def connector_pair(name: str, config: Mapping[str, str]) -> Pair:
    return CONNECTOR + name, {"properties": dict(config)}


def deletion(name: str) -> list[Pair]:
    return [(CONNECTOR + name, None), (TARGET_STATE + name, None)]


def target_pair(name: str, target: Target) -> Pair:
    old = Target.PAUSED if target is Target.STOPPED else target  # workers before Kafka 3.5
    return TARGET_STATE + name, {"state": str(old), "state.v2": str(target)}


def task_pairs(name: str, tasks: Sequence[Mapping[str, str]]) -> list[Pair]:
    pairs: list[Pair] = [
        (f"{TASK}{name}-{number}", {"properties": dict(each)}) for number, each in enumerate(tasks)
    ]
    return [*pairs, (COMMIT + name, {"tasks": len(tasks)})]


def restart_pair(restart: Restart) -> Pair:
    return RESTART + restart.connector, {
        "include-tasks": restart.include_tasks,
        "only-failed": restart.only_failed,
    }


def logger_pair(logger: str, level: str) -> Pair:
    return LOGGER + logger, {"level": level}
