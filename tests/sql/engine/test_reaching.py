"""The cluster, as the SQL asks it."""

from __future__ import annotations

from ottla.sql.engine.cluster import Cluster
from ottla.testing import LocalCluster


def test_a_broker_that_has_gone_is_not_reachable() -> None:
    with LocalCluster() as brokers:
        cluster = Cluster(brokers.bootstrap_servers)
        assert cluster.reachable()
        assert cluster.id()
    assert not cluster.reachable(), "what was heard before does not count"
    assert not cluster.reachable()
    cluster.close()
