"""Properties of what the controller does by itself."""

from __future__ import annotations

from ottla.config.definition import BOOLEAN, INT, LONG, Definition, at_least

D = Definition

CONTROLLER = [
    D(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        None,
        "Let the controller give leadership back to preferred leaders, now and then.",
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
        "It acts for brokers that lack more than so many percent of what they should lead.",
    ),
]
