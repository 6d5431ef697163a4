"""The cluster as its controller sees it. A broker that is not the controller says 0 to all of it,

so that a sum over the brokers is right, and a controller that nobody is shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.cluster.image import Image
from ottla.cluster.store import SessionState
from ottla.metrics import Family, by_label, counter, gauge

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SESSION_STATES = ("CONNECTED", "SUSPENDED", "LOST")


def families(broker: Broker) -> Iterator[Family]:
    image = broker.image
    active = image.controller_id == broker.node_id
    seen = image if active else Image()
    partitions = [each for topic in seen.topics.values() for each in topic.partitions]
    name = "kafka_controller_kafkacontroller"
    for field, value, help in (
        ("activecontrollercount", int(active), "1 on the broker that is the controller."),
        ("activebrokercount", len(seen.brokers), "Brokers that are alive."),
        ("globaltopiccount", len(seen.topics), "Topics of the cluster."),
        ("globalpartitioncount", len(partitions), "Partitions of the cluster."),
        (
            "offlinepartitionscount",
            sum(each.leader not in seen.brokers for each in partitions),
            "Partitions that nobody leads.",
        ),
        (
            "preferredreplicaimbalancecount",
            sum(each.leader != each.replicas[0] for each in partitions),
            "Partitions that are not led by their first replica.",
        ),
    ):
        yield gauge(f"{name}_{field}", help, value)


def session_families(session: SessionState) -> Iterator[Family]:
    """Of a broker whose metadata is in ZooKeeper."""
    name = "kafka_server_sessionexpirelistener"
    yield by_label(
        f"{name}_sessionstate",
        "gauge",
        "1 for the state of the ZooKeeper session: CONNECTED, SUSPENDED or LOST.",
        "state",
        [(each, int(each == session.state)) for each in SESSION_STATES],
    )
    yield counter(
        f"{name}_zookeeperdisconnects_total",
        "Connections to ZooKeeper that were lost.",
        session.disconnects,
    )
    yield counter(
        f"{name}_zookeeperexpires_total",
        "Sessions that were lost: the broker led nothing until it had a new one.",
        session.expiries,
    )
