"""Broker properties of consumer groups (KIP-848), and of which protocols groups may use."""

from __future__ import annotations

from ottla.config.definition import (
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    STRING,
    Definition,
    Value,
    at_least,
    list_of,
)

D = Definition

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
        "Protocols of groups that are served. Share groups come with their feature, whatever is "
        "said here.",
    ),
    D(
        "group.consumer.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "A consumer of the new protocol that is not heard of for so long has left its group.",
    ),
    D(
        "group.consumer.min.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "The least that a group may have as consumer.session.timeout.ms.",
    ),
    D(
        "group.consumer.max.session.timeout.ms",
        INT,
        60000,
        at_least(1),
        "The most that a group may have as consumer.session.timeout.ms.",
    ),
    D(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often consumers of the new protocol are told to send a heartbeat.",
    ),
    D(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "The least that a group may have as consumer.heartbeat.interval.ms.",
    ),
    D(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15000,
        at_least(1),
        "The most that a group may have as consumer.heartbeat.interval.ms.",
    ),
    D(
        "group.consumer.max.size",
        INT,
        INT_MAX,
        at_least(1),
        "How many members a consumer group may have.",
    ),
    D(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        list_of("uniform", "range", empty=False),
        "The assignors of the broker that consumers may choose from; the first is the default.",
    ),
    D(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        migration_policy,
        "Whether groups may change between the classic and the new protocol while they work.",
    ),
    D(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "How much time lies at least between two assignments of a consumer group.",
        CLUSTER_WIDE,
    ),
    D(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "The least that a group may have as consumer.assignment.interval.ms.",
    ),
    D(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15000,
        at_least(0),
        "The most that a group may have as consumer.assignment.interval.ms.",
    ),
]
