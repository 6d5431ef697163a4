"""The topic client."""

from __future__ import annotations

from ottla.sql.engine.topic_client import TopicClient
from ottla.testing import LocalCluster


def test_a_stopped_broker_is_unreachable() -> None:
    with LocalCluster() as brokers:
        cluster = TopicClient(brokers.bootstrap_servers)
        assert cluster.reachable()
        assert cluster.id()
    assert not cluster.reachable(), "earlier answers do not count"
    assert not cluster.reachable()
    cluster.close()
