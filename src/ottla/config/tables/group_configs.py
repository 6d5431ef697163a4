"""Configs of a single group (a GROUP resource): KIP-848, KIP-932, KIP-1071, KIP-1191.

Most override a broker property, which is the default of all groups, and must lie between two
further broker properties.
"""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    DAY_MS,
    INT,
    LONG,
    STRING,
    ConfigDefinition,
    Value,
    at_least,
    between,
    one_of,
)
from ottla.config.durations import duration_ms

D = ConfigDefinition

BY_DURATION = "by_duration:"


def offset_reset(value: Value) -> str | None:
    text = str(value)
    if text in ("earliest", "latest"):
        return None
    if text.startswith(BY_DURATION):
        try:
            if duration_ms(text.removeprefix(BY_DURATION)) >= 0:
                return None
        except ValueError:
            pass
    return (
        f"Invalid value `{text}` for configuration share.auto.offset.reset. The value must be"
        " either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def not_internal(value: Value) -> str | None:
    if str(value).startswith("__"):
        return "DLQ topic name must not start with '__'"
    return None


_GROUP = [
    D(
        "consumer.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "A consumer leaves its group when it has sent no heartbeat for this long.",
    ),
    D(
        "consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often the group's consumers must send a heartbeat.",
    ),
    D(
        "consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "The shortest time between two assignments of the group.",
    ),
    D(
        "share.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "A share consumer leaves its group when it has sent no heartbeat for this long.",
    ),
    D(
        "share.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often the group's share consumers must send a heartbeat.",
    ),
    D(
        "share.record.lock.duration.ms",
        INT,
        30000,
        at_least(1000),
        "How long a share consumer holds a record before others may get it.",
    ),
    D(
        "share.delivery.count.limit",
        INT,
        5,
        at_least(2),
        "How often a record is delivered before the share group gives up on it.",
    ),
    D(
        "share.partition.max.record.locks",
        INT,
        2000,
        at_least(100),
        "The most records of one partition in flight in the share group.",
    ),
    D(
        "share.auto.offset.reset",
        STRING,
        "latest",
        offset_reset,
        "Where a new share group starts: earliest, latest, or a time ago (by_duration:PT1H).",
    ),
    D(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        "Whether a share group gets transactional records only after their commit.",
    ),
    D(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        None,
        "Whether a share consumer may ask for more time with a record (KIP-1222).",
    ),
    D(
        "share.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "The shortest time between two assignments of the share group.",
    ),
    D(
        "errors.deadletterqueue.topic.name",
        STRING,
        "",
        not_internal,
        "The share group's dead letter topic; empty: the group has none (KIP-1191).",
    ),
    D(
        "errors.deadletterqueue.copy.record.enable",
        BOOLEAN,
        False,
        None,
        "Whether a dead letter has the record's key and value, or only its topic, partition and"
        " offset.",
    ),
    D(
        "ottla.share.delayed.delivery.enable",
        BOOLEAN,
        False,
        None,
        "Whether records wait for the time in their header ottla.deliver.at (epoch ms).",
    ),
    D(
        "ottla.share.delayed.delivery.max.ms",
        LONG,
        7 * DAY_MS,
        at_least(0),
        "How long a record may be delayed at most, counted from its timestamp.",
    ),
    D(
        "ottla.share.delayed.delivery.max.records",
        INT,
        10_000,
        between(1, 100_000),
        "The most delayed records in one partition; beyond that newer ones wait behind them.",
    ),
    D(
        "streams.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "A member leaves the streams group when it has sent no heartbeat for this long.",
    ),
    D(
        "streams.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often the members of a streams group must send a heartbeat.",
    ),
    D(
        "streams.num.standby.replicas",
        INT,
        0,
        at_least(0),
        "Standby copies of each task of a streams group.",
    ),
    D(
        "streams.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        "How long a new streams group waits for more members before its first assignment.",
    ),
    D(
        "streams.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "The shortest time between two assignments of the streams group.",
    ),
]

GROUP_CONFIGS: dict[str, ConfigDefinition] = {definition.name: definition for definition in _GROUP}

# Configs that no broker property stands behind.
_OWN = (
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.copy.record.enable",
    "ottla.share.delayed.delivery.enable",
    "ottla.share.delayed.delivery.max.ms",
    "ottla.share.delayed.delivery.max.records",
)

GROUP_SYNONYMS: dict[str, str] = {
    name: f"group.{name}" for name in GROUP_CONFIGS if name not in _OWN
}
"""The broker property that is the default of a group config."""


def _bounds(name: str) -> tuple[str | None, str | None]:
    if name in _OWN or name == "streams.initial.rebalance.delay.ms":
        return None, None
    if name == "streams.num.standby.replicas":
        return None, "group.streams.max.standby.replicas"
    kind, _, rest = name.partition(".")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


GROUP_BOUNDS: dict[str, tuple[str | None, str | None]] = {
    name: _bounds(name) for name in GROUP_CONFIGS
}
"""The broker properties that a group's config must not be below or above."""
