"""Broker properties of consumer groups (KIP-848), and of which protocols groups may use."""

from __future__ import annotations

from ottla.config.definition import (
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    STRING,
    ConfigDefinition,
    Value,
    at_least,
    list_of,
)

D = ConfigDefinition

POLICIES = ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")


def migration_policy(value: Value) -> str | None:
    if str(value).upper() in POLICIES:
        return None
    return f"String must be one of (case insensitive): {', '.join(POLICIES)}"


CONSUMER_GROUPS = [
    D(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        list_of("classic", "consumer", "share", "streams", empty=False),
        "The group protocols that are enabled. Share groups depend on their feature instead.",
    ),
    D(
        "group.consumer.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "A consumer of the new protocol leaves its group when it has sent no heartbeat for this"
        " long.",
    ),
    D(
        "group.consumer.min.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "The smallest consumer.session.timeout.ms of a group.",
    ),
    D(
        "group.consumer.max.session.timeout.ms",
        INT,
        60000,
        at_least(1),
        "The largest consumer.session.timeout.ms of a group.",
    ),
    D(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often consumers of the new protocol must send a heartbeat.",
    ),
    D(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "The smallest consumer.heartbeat.interval.ms of a group.",
    ),
    D(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15000,
        at_least(1),
        "The largest consumer.heartbeat.interval.ms of a group.",
    ),
    D(
        "group.consumer.max.size",
        INT,
        INT_MAX,
        at_least(1),
        "The most members in one consumer group.",
    ),
    D(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        list_of("uniform", "range", empty=False),
        "The server-side assignors that consumers may choose from; the first is the default.",
    ),
    D(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        migration_policy,
        "Whether groups may migrate between the classic and the new protocol while they have "
        "members.",
    ),
    D(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "The shortest time between two assignments of a consumer group.",
        CLUSTER_WIDE,
    ),
    D(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "The smallest consumer.assignment.interval.ms of a group.",
    ),
    D(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15000,
        at_least(0),
        "The largest consumer.assignment.interval.ms of a group.",
    ),
]
