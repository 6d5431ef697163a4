"""The entities of kafka-configs: pairs of a type and a name, a default, or all of a type."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

from ottla.cli.kafka.options import Options, UsageError
from ottla.cli.kafka.tool import ToolError

TYPES: Final = (
    "topics",
    "clients",
    "users",
    "brokers",
    "ips",
    "client-metrics",
    "groups",
    "broker-loggers",
)
NAME_FLAGS: Final = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULT_FLAGS: Final = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}


@dataclass(slots=True, frozen=True)
class ConfigEntity:
    """Neither a name nor the default: all entities of this type."""

    type: str
    name: str | None = None
    default: bool = False


def config_entities(options: Options) -> list[ConfigEntity]:
    types = options.values("entity-type")
    for type_ in types:
        if type_ not in TYPES:
            raise UsageError(
                f"Invalid entity type {type_}, the entity type must be one of {', '.join(TYPES)}"
            )
    names = [pair for pair in options.sequence if pair[0] in ("entity-name", "entity-default")]
    chosen = [
        ConfigEntity(kind, names[index][1], names[index][0] == "entity-default")
        if index < len(names)
        else ConfigEntity(kind)
        for index, kind in enumerate(types)
    ]
    for flag, kind in NAME_FLAGS.items():
        if options.has(flag):
            chosen.append(ConfigEntity(kind, options.require(flag)))
    for flag, kind in DEFAULT_FLAGS.items():
        if options.has(flag):
            chosen.append(ConfigEntity(kind, default=True))
    _check(chosen)
    return chosen


def _check(chosen: list[ConfigEntity]) -> None:
    if not chosen:
        raise UsageError("At least one entity type must be specified")
    kinds = [entity.type for entity in chosen]
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    for entity in chosen:
        numbered = entity.type in ("brokers", "broker-loggers")
        if numbered and entity.name is not None and not entity.name.isdigit():
            raise UsageError(
                f"The entity name for {entity.type} must be a valid integer broker id, but it is:"
                f" {entity.name}"
            )
        if entity.type == "ips" and entity.name is not None and not _is_host(entity.name):
            raise ToolError(
                "The entity name for ips must be a valid IP or resolvable host, but it is:"
                f" {entity.name}"
            )


def _is_host(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False
