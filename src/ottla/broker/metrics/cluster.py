"""Metrics of the cluster, reported by the controller.

All other brokers report 0, so that a sum over the brokers is right, and a missing controller shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.cluster.image import MetadataImage
from ottla.cluster.store import SessionState
from ottla.metrics import MetricFamily, by_label, counter, gauge

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts

SESSION_STATES = ("CONNECTED", "SUSPENDED", "LOST")


def cluster_families(broker: BrokerParts) -> Iterator[MetricFamily]:
    image = broker.image
    active = image.controller_id == broker.node_id
    seen = image if active else MetadataImage()
    partitions = [partition for topic in seen.topics.values() for partition in topic.partitions]
    name = "kafka_controller_kafkacontroller"
    for field, value, help in (
        ("activecontrollercount", int(active), "1 on the broker that is the controller."),
        ("activebrokercount", len(seen.brokers), "Brokers that are alive."),
        ("globaltopiccount", len(seen.topics), "Topics of the cluster."),
        ("globalpartitioncount", len(partitions), "Partitions of the cluster."),
        (
            "offlinepartitionscount",
            sum(partition.leader not in seen.brokers for partition in partitions),
            "Partitions without a leader.",
        ),
        (
            "preferredreplicaimbalancecount",
            sum(partition.leader != partition.replicas[0] for partition in partitions),
            "Partitions whose leader is not the preferred replica.",
        ),
    ):
        yield gauge(f"{name}_{field}", help, value)


def session_families(session: SessionState) -> Iterator[MetricFamily]:
    """Metrics of the ZooKeeper session, for a broker whose metadata is in ZooKeeper."""
    name = "kafka_server_sessionexpirelistener"
    yield by_label(
        f"{name}_sessionstate",
        "gauge",
        "1 for the state of the ZooKeeper session: CONNECTED, SUSPENDED or LOST.",
        "state",
        [(state, int(state == session.state)) for state in SESSION_STATES],
    )
    yield counter(
        f"{name}_zookeeperdisconnects_total",
        "Lost connections to ZooKeeper.",
        session.disconnects,
    )
    yield counter(
        f"{name}_zookeeperexpires_total",
        "Expired ZooKeeper sessions: the broker led nothing until it had a new one.",
        session.expiries,
    )
