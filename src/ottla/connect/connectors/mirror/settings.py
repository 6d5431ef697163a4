"""The settings that the three mirror connectors share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.mirror.policies import POLICIES
from ottla.connect.errors import ConfigException
from ottla.connect.validators import at_least, non_empty_string

HIGH, LOW = Importance.HIGH, Importance.LOW
SOURCE: Final = "source.cluster."
TARGET: Final = "target.cluster."
SOURCE_CONSUMER: Final = "source.consumer."
BOOTSTRAP: Final = "bootstrap.servers"
TOPICS_EXCLUDE: Final = r"mm2.*\.internal, .*\.replica, __.*"
GROUPS_EXCLUDE: Final = "console-consumer-.*, connect-.*, __.*"
CONFIGS_EXCLUDE: Final = (
    "follower.replication.throttled.replicas, leader.replication.throttled.replicas,"
    " message.timestamp.difference.max.ms, message.timestamp.before.max.ms,"
    " message.timestamp.after.max.ms, unclean.leader.election.enable, min.insync.replicas"
)


def common_config() -> ConfigDef:
    """The settings of all three connectors."""
    config = ConfigDef()
    for side, what in ((SOURCE, "The cluster to copy from"), (TARGET, "The cluster to copy to")):
        config.define(
            *(f"{side}alias", ConfigType.STRING), importance=HIGH, doc=f"{what}: its alias.",
            validator=non_empty_string,
        )  # fmt: skip
        config.define(
            *(f"{side}{BOOTSTRAP}", ConfigType.STRING), importance=HIGH,
            doc=f"{what}: its address. {side}* may be any other client setting.",
            validator=non_empty_string,
        )  # fmt: skip
    return (
        config.define(
            *("replication.policy.class", ConfigType.STRING, "DefaultReplicationPolicy", LOW),
            f"How replicated topics are named: {', '.join(POLICIES)}.", validator=_policy,
        )
        .define(
            *("replication.policy.separator", ConfigType.STRING, ".", LOW),
            "The separator of the source's alias and the topic's name.",
        )
        .define(
            *("replication.factor", ConfigType.INT, -1, LOW),
            "The replication factor of new topics; -1: the broker's default.",
        )
    )  # fmt: skip


def _policy(name: str, value: Any) -> None:
    if value.rpartition(".")[2] not in POLICIES:
        raise ConfigException.of(name, value, f"must be one of {', '.join(POLICIES)}")


def define_interval(config: ConfigDef, name: str, seconds: int, doc: str) -> ConfigDef:
    """`<name>.enabled` and `<name>.interval.seconds`."""
    config.define(f"{name}.enabled", ConfigType.BOOLEAN, True, LOW, f"Whether to {doc}.")
    return config.define(
        *(f"{name}.interval.seconds", ConfigType.INT, seconds, LOW),
        f"How often to {doc}.", validator=at_least(0),
    )  # fmt: skip


def define_choice(config: ConfigDef, name: str, exclude: str) -> ConfigDef:
    """Defines a selection of topics or groups by regular expressions."""
    doc = f"The {name}, as regular expressions separated by commas."
    config.define(name, ConfigType.LIST, ".*", HIGH, doc, validator=_regexes)
    return config.define(
        *(f"{name}.exclude", ConfigType.LIST, exclude, HIGH),
        f"The {name} to exclude; takes precedence.", validator=_regexes,
    )  # fmt: skip


def _regexes(name: str, value: Any) -> None:
    for pattern in value:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigException.of(
                name, pattern, f"invalid regular expression: {error}"
            ) from error


def matches(name: str, wanted: Iterable[str], excluded: Iterable[str]) -> bool:
    if any(re.fullmatch(pattern, name) for pattern in excluded):
        return False
    return any(re.fullmatch(pattern, name) for pattern in wanted)


def client_settings(props: Mapping[str, str], side: str) -> dict[str, str]:
    """The settings with prefix source.cluster. or target.cluster., but alias and address."""
    return {
        name.removeprefix(side): value
        for name, value in props.items()
        if name.startswith(side) and name.removeprefix(side) not in ("alias", BOOTSTRAP)
    }
