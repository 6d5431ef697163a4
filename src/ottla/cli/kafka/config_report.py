"""The output of kafka-configs --describe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.cli.kafka.config_entities import ConfigEntity
from ottla.cli.kafka.user_configs import describe_quotas, describe_users, is_quota
from ottla.client.admin import Admin
from ottla.client.configs import ConfigEntry, ConfigSource, ResourceType

_KINDS: Final = {
    "topics": (ResourceType.TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG),
    "brokers": (ResourceType.BROKER, ConfigSource.DYNAMIC_BROKER_CONFIG),
    "broker-loggers": (ResourceType.BROKER_LOGGER, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG),
    "groups": (ResourceType.GROUP, ConfigSource.DYNAMIC_GROUP_CONFIG),
    "client-metrics": (ResourceType.CLIENT_METRICS, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG),
}


def describe_configs(admin: Admin, chosen: list[ConfigEntity], *, everything: bool) -> None:
    if is_quota(chosen):
        describe_quotas(admin, chosen)
        describe_users(admin, chosen)
        return
    entity = chosen[0]
    for name in _names(admin, entity, everything=everything):
        _describe_one(admin, entity.type, name, everything=everything)


def _names(admin: Admin, entity: ConfigEntity, *, everything: bool) -> list[str]:
    """One name, or all; the default of all brokers has the empty name."""
    if entity.default:
        return [""]
    if entity.name is not None:
        defaults = everything and entity.type in ("groups", "client-metrics")
        if defaults or _exists(admin, entity.type, entity.name):
            return [entity.name]
        kind = entity.type.removesuffix("s")
        print(f"The {kind} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        return []
    if entity.type == "topics":
        return admin.topics.names()
    if entity.type in ("brokers", "broker-loggers"):
        ids = [str(node.id) for node in admin.cluster().nodes]
        return [*ids, ""] if entity.type == "brokers" else ids
    if entity.type == "groups":
        listed = {listing.name for listing in admin.groups.list()}
        return sorted(listed | set(admin.configs.resources(ResourceType.GROUP)))
    return admin.configs.resources(ResourceType.CLIENT_METRICS)


def _exists(admin: Admin, kind: str, name: str) -> bool:
    if kind == "topics":
        return name in admin.topics.names()
    if kind in ("brokers", "broker-loggers"):
        return int(name) in {node.id for node in admin.cluster().nodes}
    if kind == "groups" and name in {listing.name for listing in admin.groups.list()}:
        return True
    return name in admin.configs.resources(_KINDS[kind][0])


def _describe_one(admin: Admin, kind: str, name: str, *, everything: bool) -> None:
    resource, dynamic = _KINDS[kind]
    found = admin.configs.describe(resource, name)
    if not name:
        print(f"Default configs for {kind} in the cluster are:")
        dynamic = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    else:
        which = "All" if everything else "Dynamic"
        print(f"{which} configs for {kind.removesuffix('s')} {name} are:")
    for line in lines(
        found if everything else [config for config in found if config.source == dynamic]
    ):
        print(line)


def lines(configs: Iterable[ConfigEntry]) -> Iterable[str]:
    for config in configs:
        synonyms = ", ".join(
            f"{synonym.source.name}:{synonym.name}={_shown(synonym.value)}"
            for synonym in config.synonyms
        )
        sensitive = str(config.sensitive).lower()
        yield (
            f"  {config.name}={_shown(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}"
        )


def _shown(value: str | None) -> str:
    return "null" if value is None else value
