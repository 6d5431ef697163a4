"""Broker properties of streams groups (KIP-1071)."""

from __future__ import annotations

from ottla.config.definition import CLUSTER_WIDE, INT, INT_MAX, Definition, at_least

D = Definition

STREAMS_GROUPS = [
    D(
        "group.streams.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "A member of a streams group that is silent for so long has left the group.",
    ),
    D(
        "group.streams.min.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        "The least that a group may have as streams.session.timeout.ms.",
    ),
    D(
        "group.streams.max.session.timeout.ms",
        INT,
        60000,
        at_least(1),
        "The most that a group may have as streams.session.timeout.ms.",
    ),
    D(
        "group.streams.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "How often members of streams groups send a heartbeat.",
    ),
    D(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        "The least that a group may have as streams.heartbeat.interval.ms.",
    ),
    D(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15000,
        at_least(1),
        "The most that a group may have as streams.heartbeat.interval.ms.",
    ),
    D(
        "group.streams.max.size",
        INT,
        INT_MAX,
        at_least(1),
        "How many members a streams group may have.",
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
        "The most that a group may have as streams.num.standby.replicas.",
    ),
    D(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        "How long a streams group without members waits for more of them after the first.",
    ),
    D(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        "How much time lies at least between two assignments of a streams group.",
        CLUSTER_WIDE,
    ),
    D(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        at_least(0),
        "The least that a group may have as streams.assignment.interval.ms.",
    ),
    D(
        "group.streams.max.assignment.interval.ms",
        INT,
        15000,
        at_least(0),
        "The most that a group may have as streams.assignment.interval.ms.",
    ),
]
