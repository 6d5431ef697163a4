"""Metrics of several brokers, with a dead broker and a lagging one."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from ottla.testing import LocalCluster
from ottla.testing.zookeeper import ZooKeeperServer

REPLICAS = "kafka_server_replicamanager"
CONTROLLER = "kafka_controller_kafkacontroller"
SESSION = "kafka_server_sessionexpirelistener"
SETTLED_S_MAX = 60.0


def total(cluster: LocalCluster, name: str, *broker_ids: int, **labels: str) -> float:
    """The sum over these brokers of all samples with these labels."""
    found = 0.0
    for broker_id in broker_ids:
        port = cluster.broker(broker_id).metrics_port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            for family in parse(page.read().decode()):
                for sample in family.samples:
                    if sample.name == name and labels.items() <= sample.labels.items():
                        found += sample.value
    return found


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLED_S_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_broker_that_dies_and_returns_is_seen_by_the_others() -> None:
    config = {"metrics.port": "0", "min.insync.replicas": "2"}
    with LocalCluster(brokers=3, config=config) as cluster:
        ids = tuple(cluster.broker_ids)
        cluster.create_topic("t", partitions=6, replication_factor=3)
        with cluster.producer(value=str, settings={"acks": "all"}) as producer:
            for number in range(60):
                producer.send("t", str(number)).result()
        assert total(cluster, f"{CONTROLLER}_activecontrollercount", *ids) == 1
        assert total(cluster, f"{CONTROLLER}_activebrokercount", *ids) == 3
        assert total(cluster, f"{REPLICAS}_leadercount", *ids) == 6
        assert total(cluster, f"{REPLICAS}_partitioncount", *ids) == 18
        taken = "kafka_server_brokertopicmetrics_{}_total"
        bytes_in = total(cluster, taken.format("bytesin"), *ids, topic="t")
        for name in ("replicationbytesin", "replicationbytesout"):
            assert total(cluster, taken.format(name), *ids) >= 2 * bytes_in > 0
        eventually(lambda: total(cluster, "ottla_follower_lag", *ids) == 0)

        victim, *others = ids
        cluster.kill(victim)
        eventually(lambda: total(cluster, f"{REPLICAS}_underreplicatedpartitions", *others) == 6)
        assert total(cluster, f"{REPLICAS}_underminisrpartitioncount", *others) == 0
        assert total(cluster, f"{REPLICAS}_atminisrpartitioncount", *others) == 6
        assert total(cluster, f"{CONTROLLER}_offlinepartitionscount", *others) == 0
        assert total(cluster, f"{CONTROLLER}_activebrokercount", *others) == 2
        assert total(cluster, f"{REPLICAS}_isrshrinks_total", *others) >= 6

        cluster.restart(victim)
        eventually(lambda: total(cluster, f"{REPLICAS}_underreplicatedpartitions", *ids) == 0)
        assert total(cluster, f"{REPLICAS}_isrexpands_total", *others) >= 6


@pytest.mark.zookeeper
def test_the_zookeeper_session_is_reported(tmp_path: Path) -> None:
    with ZooKeeperServer() as server:
        config = {"metrics.port": "0", "zookeeper.connect": server.connect}
        with LocalCluster(config=config, directory=tmp_path) as cluster:
            (me,) = cluster.broker_ids
            assert total(cluster, f"{SESSION}_sessionstate", me, state="CONNECTED") == 1
            assert total(cluster, f"{SESSION}_sessionstate", me) == 1
            server.kill()
            eventually(
                lambda: total(cluster, f"{SESSION}_sessionstate", me, state="CONNECTED") == 0
            )
            assert total(cluster, f"{SESSION}_zookeeperdisconnects_total", me) == 1
            server.start()
            eventually(
                lambda: total(cluster, f"{SESSION}_sessionstate", me, state="CONNECTED") == 1
            )
