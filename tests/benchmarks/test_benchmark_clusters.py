"""Clusters of the benchmarks, as far as they can be tested without starting one."""

from __future__ import annotations

from pathlib import Path

from benchmarks.clusters import Cluster, Node, stored_bytes
from benchmarks.rows import ROW_KEYS

from benchmarks import apache_kafka, clusters, zookeeper


def test_a_quorum_names_all_controllers_to_each_node(tmp_path: Path) -> None:
    quorum = apache_kafka.new_quorum({1: 7001, 2: 7002})
    properties = apache_kafka.server_properties(tmp_path, 2, port=9002, quorum=quorum)
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:7001,2@127.0.0.1:7002"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9002,CONTROLLER://127.0.0.1:7002"
    assert not quorum.cluster_id.startswith("-")


def test_ottlas_nodes_share_an_ensemble_and_kafkas_settings(tmp_path: Path) -> None:
    cluster = Cluster("ottla", tmp_path, {})
    commands = {"ottla": lambda directory, port: ["ottla", "serve", str(directory), str(port)]}
    clusters._add_ottla_nodes(cluster, commands, "zk:1,zk:2")
    assert list(cluster.nodes) == [1, 2, 3]
    command = cluster.nodes[2].command
    for item in ("node.id=2", "zookeeper.connect=zk:1,zk:2", "offsets.topic.replication.factor=3"):
        assert item in command
    assert len(cluster.bootstrap.split(",")) == 3
    assert cluster.pids == []


def test_stored_bytes_are_those_of_the_topics_logs(tmp_path: Path) -> None:
    node = Node(1, 1, tmp_path, [])
    for name, size in (("t-0", 10), ("t-1", 5), ("u-0", 7)):
        directory = node.data / name
        directory.mkdir(parents=True)
        (directory / "00000000000000000000.log").write_bytes(b"x" * size)
        (directory / "00000000000000000000.index").write_bytes(b"x" * 100)
    assert stored_bytes(node, ["t"]) == 15
    assert stored_bytes(node, ["t", "u"]) == 22


def test_an_ensemble_that_does_not_answer_does_not_serve() -> None:
    assert zookeeper._serves(1) is False


def test_the_cluster_rows_can_be_selected() -> None:
    assert {"replicated", "catch-up", "failover", "partitions"} <= set(ROW_KEYS)
