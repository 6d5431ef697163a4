"""Broker properties of the controller."""

from __future__ import annotations

from ottla.config.definition import BOOLEAN, INT, LONG, ConfigDefinition, at_least

D = ConfigDefinition

CONTROLLER = [
    D(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        None,
        "Let the controller give leadership back to preferred leaders from time to time.",
    ),
    D(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        at_least(1),
        "How often the controller looks for leaders that are not the preferred ones.",
    ),
    D(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        None,
        "Rebalance a broker if it lacks more than this share of the partitions that it should "
        "lead.",
    ),
]
