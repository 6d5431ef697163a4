"""Broker properties of streams groups (KIP-1071)."""

from __future__ import annotations

from ottla.config.definition import CLUSTER_WIDE, INT, INT_MAX, ConfigDefinition, at_least

D = ConfigDefinition

STREAMS_GROUPS = [
    D(
        "group.streams.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "A member of a streams group leaves it when it has sent no heartbeat for this long.",
    ),
    D(
        "group.streams.min.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "The smallest streams.session.timeout.ms of a group.",
    ),
    D(
        "group.streams.max.session.timeout.ms",
        INT,
        60000,
        at_least(1),
        "The largest streams.session.timeout.ms of a group.",
    ),
    D(
        "group.streams.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often members of streams groups must send a heartbeat.",
    ),
    D(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "The smallest streams.heartbeat.interval.ms of a group.",
    ),
    D(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15000,
        at_least(1),
        "The largest streams.heartbeat.interval.ms of a group.",
    ),
    D(
        "group.streams.max.size",
        INT,
        INT_MAX,
        at_least(1),
        "The most members in one streams group.",
    ),
    D(
        "group.streams.num.standby.replicas",
        INT,
        0,
        at_least(0),
        "Standby copies of each stateful task of a streams group.",
    ),
    D(
        "group.streams.max.standby.replicas",
        INT,
        2,
        at_least(0),
        "The largest streams.num.standby.replicas of a group.",
    ),
    D(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        "How long an empty streams group waits for more members after the first.",
    ),
    D(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "The shortest time between two assignments of a streams group.",
        CLUSTER_WIDE,
    ),
    D(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "The smallest streams.assignment.interval.ms of a group.",
    ),
    D(
        "group.streams.max.assignment.interval.ms",
        INT,
        15000,
        at_least(0),
        "The largest streams.assignment.interval.ms of a group.",
    ),
]
