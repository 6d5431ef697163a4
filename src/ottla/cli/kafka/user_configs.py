"""kafka-configs for users, clients and ips: quotas, and SCRAM passwords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.cli.kafka.config_entities import ConfigEntity
from ottla.cli.kafka.tool import ToolError
from ottla.client.admin import Admin
from ottla.client.quotas import ANY
from ottla.config import format_value
from ottla.errors import ErrorCode, KafkaError

QUOTAS: Final = {
    "users": frozenset(
        {
            "producer_byte_rate",
            "consumer_byte_rate",
            "request_percentage",
            "controller_mutation_rate",
        }
    ),
    "ips": frozenset({"connection_creation_rate"}),
}
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS: Final = 4096

_KINDS: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_TITLES: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_CREDENTIAL: Final = re.compile(r"(?:iterations=(\d+),)?password=(.*)")


def is_quota(chosen: list[ConfigEntity]) -> bool:
    return all(entity.type in _KINDS for entity in chosen)


def describe_quotas(admin: Admin, chosen: list[ConfigEntity]) -> None:
    entity: dict[str, object] = {
        _KINDS[entity.type]: None if entity.default else ANY if entity.name is None else entity.name
        for entity in chosen
    }
    for quota in admin.quotas.describe(entity):
        named = ", ".join(
            f"the default {_TITLES[kind]}" if name is None else f"{_TITLES[kind]} '{name}'"
            for kind, name in sorted(quota.entity.items(), key=lambda part: part[0] != "user")
        )
        values = ", ".join(
            f"{key}={format_value(value)}" for key, value in sorted(quota.values.items())
        )
        print(f"Quota configs for {named} are {values}")


def describe_users(admin: Admin, chosen: list[ConfigEntity]) -> None:
    """Only users have SCRAM credentials, and defaults have none."""
    if len(chosen) != 1 or chosen[0].type != "users" or chosen[0].default:
        return
    names = [chosen[0].name] if chosen[0].name is not None else []
    try:
        credentials = admin.users.describe(*names)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:  # a broker without SCRAM users
            return
        raise
    for name, mechanisms in credentials.items():
        if mechanisms:
            shown = ", ".join(
                f"{mechanism}=iterations={mechanisms[mechanism]}" for mechanism in mechanisms
            )
            print(f"SCRAM credential configs for user-principal '{name}' are {shown}")


def alter_quotas_and_users(
    admin: Admin, chosen: list[ConfigEntity], added: Mapping[str, str], deleted: list[str]
) -> None:
    first = chosen[0]
    known = QUOTAS.get(first.type, QUOTAS["users"])
    scram = SCRAM if [entity.type for entity in chosen] == ["users"] else ()
    strange = [
        config for config in (*added, *deleted) if config not in known and config not in scram
    ]
    if strange:
        what = "connection quota" if first.type == "ips" else "quota"
        what += " and SCRAM credential" if scram else ""
        raise ToolError(
            f"Only {what} configs can be added for '{first.type}' using --bootstrap-server."
            f" Unexpected config names: {', '.join(strange)}"
        )
    quotas = {name: _number(name, text) for name, text in added.items() if name in known}
    removed = [name for name in deleted if name in known]
    if quotas or removed:
        entity = {
            _KINDS[entity_.type]: None if entity_.default else entity_.name for entity_ in chosen
        }
        _check_set(admin, entity, removed)
        admin.quotas.alter(entity, set=quotas, delete=removed)
    if first.name is None:
        return
    for mechanism in scram:
        if mechanism in added:
            _set_password(admin, first.name, mechanism, added[mechanism])
        if mechanism in deleted:
            admin.users.delete(first.name, mechanism)


def _check_set(admin: Admin, entity: Mapping[str, str | None], removed: list[str]) -> None:
    """As in Kafka's tool, quotas that are deleted must exist."""
    found = admin.quotas.describe(entity) if removed else []
    present = found[0].values if found else {}
    missing = [name for name in removed if name not in present]
    if missing:
        raise ToolError(f"Invalid config(s): {','.join(missing)}")


def _set_password(admin: Admin, user: str, mechanism: str, text: str) -> None:
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise ToolError(
            f"{mechanism} is set by [iterations=8192,password=secret] or [password=secret]"
        )
    iterations = int(found[1]) if found[1] else ITERATIONS
    admin.users.set_password(user, mechanism, found[2], iterations)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ToolError(f"Cannot parse quota configuration value for {name}: {text}") from None
