"""What kafka-configs is asked about: pairs of a type and a name, a default, or all of a type."""

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
class Entity:
    """Neither a name nor the default: all of this type."""

    type: str
    name: str | None = None
    default: bool = False


def entities(options: Options) -> list[Entity]:
    types = options.values("entity-type")
    for each in types:
        if each not in TYPES:
            raise UsageError(
                f"Invalid entity type {each}, the entity type must be one of {', '.join(TYPES)}"
            )
    names = [pair for pair in options.sequence if pair[0] in ("entity-name", "entity-default")]
    chosen = [
        Entity(kind, names[place][1], names[place][0] == "entity-default")
        if place < len(names)
        else Entity(kind)
        for place, kind in enumerate(types)
    ]
    for flag, kind in NAME_FLAGS.items():
        if options.has(flag):
            chosen.append(Entity(kind, options.require(flag)))
    for flag, kind in DEFAULT_FLAGS.items():
        if options.has(flag):
            chosen.append(Entity(kind, default=True))
    _check(chosen)
    return chosen


def _check(chosen: list[Entity]) -> None:
    if not chosen:
        raise UsageError("At least one entity type must be specified")
    kinds = [each.type for each in chosen]
    twice = sorted({each for each in kinds if kinds.count(each) > 1})
    if twice:
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    for each in chosen:
        numbered = each.type in ("brokers", "broker-loggers")
        if numbered and each.name is not None and not each.name.isdigit():
            raise UsageError(
                f"The entity name for {each.type} must be a valid integer broker id, but it is:"
                f" {each.name}"
            )
        if each.type == "ips" and each.name is not None and not _is_host(each.name):
            raise ToolError(
                "The entity name for ips must be a valid IP or resolvable host, but it is:"
                f" {each.name}"
            )


def _is_host(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False
