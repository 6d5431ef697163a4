"""Clusters of three, started alike: fresh directories, free ports, defaults otherwise.

Kafka is three KRaft nodes, each broker and controller at once. Ottla is three brokers and an
ensemble of three ZooKeeper servers, so that the metadata of both is kept three times; what the
ensemble uses is counted as Ottla's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks import apache_kafka, zookeeper
from benchmarks.brokers import (
    HOST,
    KAFKA,
    OVERRIDES,
    START_TIMEOUT_S,
    Commands,
    StartError,
    free_port,
)
from benchmarks.processes import SpawnedServer, spawn

NODE_IDS = (1, 2, 3)
HEAP = "512M"
CLUSTER_OVERRIDES = {
    **OVERRIDES,
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
LOOK_EVERY_S = 0.05


@dataclass(slots=True)
class Node:
    id: int
    port: int
    directory: Path
    command: list[str]
    server: SpawnedServer | None = None

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        assert self.server is None
        self.server = spawn(self.command, log=self.directory / "server.log")

    def stop(self) -> None:
        """Sends SIGTERM and waits for a clean shutdown."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def kill(self) -> None:
        """kill -9 of all processes of the node."""
        assert self.server is not None
        os.killpg(self.server.pid, signal.SIGKILL)
        self.server.process.wait()
        self.server = None

    def check(self) -> None:
        if self.server is not None and not self.server.alive():
            raise StartError(f"node {self.id} has ended:\n{self.server.log_tail()}")


@dataclass(slots=True)
class Cluster:
    name: str
    directory: Path
    nodes: dict[int, Node]
    ensemble: list[SpawnedServer] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes.values())

    @property
    def pids(self) -> list[int]:
        up = [node.server for node in self.nodes.values() if node.server is not None]
        return [server.pid for server in (*up, *self.ensemble)]

    def wait_until_all_are_up(self) -> None:
        """Wait until every node knows all brokers."""
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in self.nodes.values():
            client = AdminClient({"bootstrap.servers": f"{HOST}:{node.port}", "log_level": 0})
            while not _knows(client, len(self.nodes)):
                node.check()
                if time.monotonic() > deadline:
                    raise StartError(f"node {node.id} does not see all nodes")
                time.sleep(LOOK_EVERY_S)

    def remove(self) -> None:
        with ExitStack() as stack:  # each of them, even if one before it failed
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            for server in self.ensemble:
                stack.callback(server.stop)
            for node in self.nodes.values():
                stack.callback(node.stop)


def start_cluster(name: str, directory: Path, commands: Commands) -> Cluster:
    directory.mkdir(parents=True)
    cluster = Cluster(name, directory, {})
    try:
        if name == KAFKA:
            _add_kafka_nodes(cluster)
        else:
            connect = zookeeper.start_ensemble(directory, cluster.ensemble)
            _add_ottla_nodes(cluster, commands, connect)
        for node in cluster.nodes.values():
            node.start()
        cluster.wait_until_all_are_up()
    except BaseException:
        cluster.remove()
        raise
    return cluster


def _add_kafka_nodes(cluster: Cluster) -> None:
    quorum = apache_kafka.new_quorum({node_id: free_port() for node_id in NODE_IDS})
    for node_id in NODE_IDS:
        directory, port = _place(cluster, node_id)
        apache_kafka.format_storage(
            directory, node_id=node_id, port=port, quorum=quorum, overrides=CLUSTER_OVERRIDES
        )
        command = apache_kafka.server_command(directory, heap=HEAP)
        cluster.nodes[node_id] = Node(node_id, port, directory, command)


def _add_ottla_nodes(cluster: Cluster, commands: Commands, connect: str) -> None:
    for node_id in NODE_IDS:
        directory, port = _place(cluster, node_id)
        properties = {
            **CLUSTER_OVERRIDES,
            "node.id": str(node_id),
            "zookeeper.connect": connect,
        }
        command = commands[cluster.name](directory, port)
        for item in properties.items():
            command += ["--override", "=".join(item)]
        cluster.nodes[node_id] = Node(node_id, port, directory, command)


def _place(cluster: Cluster, node_id: int) -> tuple[Path, int]:
    directory = cluster.directory / f"node-{node_id}"
    directory.mkdir()
    return directory, free_port()


def _knows(client: AdminClient, count: int) -> bool:
    with contextlib.suppress(KafkaException):
        return len(client.list_topics(timeout=1.0).brokers) == count
    return False


def stored_bytes(node: Node, topics: Sequence[str]) -> int:
    """What a node has in the logs of these topics, deleted ones included as long as they last."""
    size = 0
    for topic in topics:
        for directory in node.data.glob(f"{topic}-*"):
            with contextlib.suppress(FileNotFoundError):  # the file disappears meanwhile
                size += sum(path.stat().st_size for path in directory.glob("*.log*"))
    return size
