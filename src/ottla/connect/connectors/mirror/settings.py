"""The settings of the three mirror connectors."""

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


def clusters() -> ConfigDef:
    """What all three have in common."""
    config = ConfigDef()
    for side, what in ((SOURCE, "The cluster to copy from"), (TARGET, "The cluster to copy to")):
        config.define(
            *(f"{side}alias", ConfigType.STRING), importance=HIGH, doc=f"{what}: its name.",
            validator=non_empty_string,
        )  # fmt: skip
        config.define(
            *(f"{side}{BOOTSTRAP}", ConfigType.STRING), importance=HIGH,
            doc=f"{what}: its address. Other client settings may follow {side}.",
            validator=non_empty_string,
        )  # fmt: skip
    return (
        config.define(
            *("replication.policy.class", ConfigType.STRING, "DefaultReplicationPolicy", LOW),
            f"How topics are named: {', '.join(POLICIES)}.", validator=_policy,
        )
        .define(
            *("replication.policy.separator", ConfigType.STRING, ".", LOW),
            "Between the source's name and the topic's.",
        )
        .define(
            *("replication.factor", ConfigType.INT, -1, LOW),
            "Of topics that are made; -1: the broker's default.",
        )
    )  # fmt: skip


def _policy(name: str, value: Any) -> None:
    if value.rpartition(".")[2] not in POLICIES:
        raise ConfigException.of(name, value, f"must be one of {', '.join(POLICIES)}")


def interval(config: ConfigDef, name: str, seconds: int, doc: str) -> ConfigDef:
    """`<name>.enabled` and `<name>.interval.seconds`."""
    config.define(f"{name}.enabled", ConfigType.BOOLEAN, True, LOW, f"Whether to {doc}.")
    return config.define(
        *(f"{name}.interval.seconds", ConfigType.INT, seconds, LOW),
        f"How often to {doc}.", validator=at_least(0),
    )  # fmt: skip


def choice(config: ConfigDef, name: str, exclude: str) -> ConfigDef:
    """Topics or groups, by regular expressions."""
    doc = f"The {name}, as regular expressions separated by commas."
    config.define(name, ConfigType.LIST, ".*", HIGH, doc, validator=_regexes)
    return config.define(
        *(f"{name}.exclude", ConfigType.LIST, exclude, HIGH),
        "Those of them that are left out.", validator=_regexes,
    )  # fmt: skip


def _regexes(name: str, value: Any) -> None:
    for each in value:
        try:
            re.compile(each)
        except re.error as error:
            raise ConfigException.of(name, each, f"no regular expression: {error}") from error


def matches(name: str, wanted: Iterable[str], excluded: Iterable[str]) -> bool:
    if any(re.fullmatch(each, name) for each in excluded):
        return False
    return any(re.fullmatch(each, name) for each in wanted)


def client_settings(props: Mapping[str, str], side: str) -> dict[str, str]:
    """What follows source.cluster. or target.cluster., but for name and address."""
    return {
        name.removeprefix(side): value
        for name, value in props.items()
        if name.startswith(side) and name.removeprefix(side) not in ("alias", BOOTSTRAP)
    }
