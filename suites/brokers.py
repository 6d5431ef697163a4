"""Brokers for a run of a suite: Ottla or Apache Kafka, one or several, with what it assumes.

Ottla in number is a cluster at a ZooKeeper, Kafka a quorum of nodes that are broker and controller.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.brokers import HOST, free_port
from benchmarks.clusters import Cluster, Node
from benchmarks.processes import spawn

from benchmarks import apache_kafka
from ottla.testing.zookeeper import ZooKeeperServer
from suites import security
from suites.ports import PortTaken, is_free, wait_for_port
from suites.suite import Suite

OTTLA = "ottla"
KAFKA = "kafka"
KINDS = (OTTLA, KAFKA)
HEAP = "512M"

PROTOCOLS = (
    "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
)

# Every suite needs these, with either broker: groups do not wait for further members.
# Replicas are as many as there are brokers, up to what the name asks for.
COMMON = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens, and what it advertises."""

    port: int
    internal_port: int | None
    advertised: str
    secured_ports: Mapping[str, int]
    """By protocol."""


@dataclass(frozen=True, slots=True)
class RunningBrokers:
    cluster: Cluster
    secured: Mapping[str, Sequence[str]]
    """host:port of each broker's secured listeners, by protocol."""


@contextmanager
def running(
    kind: str, suite: Suite, count: int, directory: Path, token_keys: str = ""
) -> Iterator[RunningBrokers]:
    """The brokers, up and knowing each other; stopped and their data removed afterwards.

    `token_keys` is where they find the keys of a provider of tokens.
    """
    places = _places(suite, count)
    if suite.secured:
        security.make_certificates(certificates(directory), suite.host)
    cluster = Cluster(kind, directory, {})
    if token_keys:
        more = security.token_properties(token_keys)
        suite = replace(suite, settings={**suite.settings, **more})
    with ExitStack() as stack:
        if kind == KAFKA:
            _add_kafka(cluster, suite, places, token_keys)
        else:
            connect = ""
            if count > 1:
                connect = stack.enter_context(ZooKeeperServer(apart=True)).connect
            _add_ottla(cluster, suite, places, connect)
        for node in cluster.nodes.values():
            stack.callback(node.stop)
            node.start()
        cluster.wait_until_all_are_up()
        if suite.secured and set(suite.secured.mechanisms) & set(security.SCRAM):
            security.add_scram_users(suite.secured, cluster.bootstrap)
        yield RunningBrokers(
            cluster,
            {
                protocol: [f"{suite.host}:{place.secured_ports[protocol]}" for place in places]
                for protocol in (suite.secured.protocols if suite.secured else ())
            },
        )


def certificates(directory: Path) -> Path:
    return directory / "certificates"


def addresses(suite: Suite, cluster: Cluster) -> list[str]:
    ports = suite.ports if suite.proxied else [node.port for node in cluster.nodes.values()]
    return [f"{suite.host}:{port}" for port, _ in zip(ports, cluster.nodes, strict=False)]


@contextmanager
def proxied(suite: Suite, cluster: Cluster, program: Path, directory: Path) -> Iterator[str]:
    """toxiproxy before the brokers; its own address, by which tests break connections."""
    proxies = [
        {
            "name": f"kafka{node.id}",
            "listen": f"{HOST}:{port}",
            "upstream": f"{HOST}:{node.port}",
            "enabled": True,
        }
        for port, node in zip(suite.ports, cluster.nodes.values(), strict=False)
    ]
    config = directory / "toxiproxy.json"
    config.write_text(json.dumps(proxies))
    port = free_port()
    command = [str(program), "-host", HOST, "-port", str(port), "-config", str(config)]
    server = spawn(command, log=directory / "toxiproxy.log")
    try:
        for listening in (port, *(suite.ports[: len(proxies)])):
            wait_for_port(listening)
        yield f"http://{HOST}:{port}"
    finally:
        server.stop()


def properties(
    suite: Suite, node_id: int, count: int, place: BrokerAddress, data: Path
) -> dict[str, str]:
    """The properties of one broker, the same for both kinds."""
    settings = {**COMMON, **suite.settings}
    listeners = {"PLAINTEXT": (f"{HOST}:{place.port}", place.advertised)}
    for protocol, port in place.secured_ports.items():
        listeners[protocol] = (f"{HOST}:{port}", f"{suite.host}:{port}")
    between = "PLAINTEXT"
    if place.internal_port is not None:
        between = "INTERNAL"
        listeners[between] = (f"{HOST}:{place.internal_port}",) * 2
    lines = {
        "node.id": str(node_id),
        "listeners": ",".join(f"{name}://{bound}" for name, (bound, _) in listeners.items()),
        "advertised.listeners": ",".join(
            f"{name}://{advertised}" for name, (_, advertised) in listeners.items()
        ),
        "listener.security.protocol.map": PROTOCOLS,
        "inter.broker.listener.name": between,
        "log.dirs": str(data),
        **_secured_properties(suite, data),
        **{name: capped(name, value, count) for name, value in settings.items()},
    }
    if suite.racks:
        lines["broker.rack"] = f"RACK{node_id}"
    return lines


def _secured_properties(suite: Suite, data: Path) -> dict[str, str]:
    """A broker's data is in its own folder below the shared one."""
    if suite.secured is None:
        return {}
    return security.properties(suite.secured, certificates(data.parent.parent))


def capped(name: str, value: str, count: int) -> str:
    """A cluster of two can't have three replicas, and a single broker no two in-sync ones."""
    if name.endswith(("replication.factor", "min.isr", "min.insync.replicas")):
        return str(min(int(value), count))
    return value


def _places(suite: Suite, count: int) -> list[BrokerAddress]:
    named_ports = suite.secured.ports if suite.secured else {}
    for port in (port for ports in (suite.ports, *named_ports.values()) for port in ports[:count]):
        if not is_free(port):
            raise PortTaken(f"port {port}, where it looks for a broker, is taken")
    places = []
    for number in range(count):
        named = suite.ports[number] if suite.ports else None
        port = free_port() if named is None or suite.proxied else named
        internal = free_port() if suite.proxied else None
        secured = {
            protocol: named_ports[protocol][number] if protocol in named_ports else free_port()
            for protocol in (suite.secured.protocols if suite.secured else ())
        }
        places.append(BrokerAddress(port, internal, f"{suite.host}:{named or port}", secured))
    return places


def _add_ottla(cluster: Cluster, suite: Suite, places: list[BrokerAddress], connect: str) -> None:
    for node_id, place in enumerate(places, suite.first_id):
        directory = _directory(cluster, node_id)
        lines = properties(suite, node_id, len(places), place, directory / "data")
        if connect:
            lines["zookeeper.connect"] = connect
        command = [sys.executable, "-P", "-m", "ottla.cli", "serve"]
        for line in lines.items():
            command += ["--override", "=".join(line)]
        cluster.nodes[node_id] = Node(node_id, place.port, directory, command)


def _add_kafka(
    cluster: Cluster, suite: Suite, places: list[BrokerAddress], token_keys: str
) -> None:
    node_ids = range(suite.first_id, suite.first_id + len(places))
    quorum = apache_kafka.new_quorum({node_id: free_port() for node_id in node_ids})
    for node_id, place in zip(node_ids, places, strict=True):
        directory = _directory(cluster, node_id)
        lines = properties(suite, node_id, len(places), place, directory / "data")
        controller = f"CONTROLLER://{HOST}:{quorum.controller_ports[node_id]}"
        lines["listeners"] += f",{controller}"
        lines["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        apache_kafka.format_storage(
            directory, node_id=node_id, port=place.port, quorum=quorum, overrides=lines
        )
        command = apache_kafka.server_command(directory, heap=HEAP)
        if token_keys:  # Kafka fetches keys from no other address (CVE-2025-27817)
            command.insert(1, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token_keys}")
        cluster.nodes[node_id] = Node(node_id, place.port, directory, command)


def _directory(cluster: Cluster, node_id: int) -> Path:
    directory = cluster.directory / f"node-{node_id}"
    directory.mkdir(parents=True)
    return directory
