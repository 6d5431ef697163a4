"""The services of `ottla cluster up`: brokers, and a ZooKeeper unless one is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.cli.local.local_service import HOST, OTTLA, LocalService
from ottla.testing.zookeeper import ZooKeeperServer

ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`zookeeper` is the address of a running ensemble."""

    brokers: int
    port: int
    zookeeper_port: int
    zookeeper: str | None
    data: Path
    properties: Mapping[str, str]

    @property
    def connect(self) -> str:
        return self.zookeeper or f"{HOST}:{self.zookeeper_port}/ottla"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.port + number}" for number in range(self.brokers))


def cluster_services(spec: ClusterSpec) -> list[LocalService]:
    """ZooKeeperNotFound if a ZooKeeper is needed and not installed."""
    brokers = [_broker(spec, number) for number in range(spec.brokers)]
    return brokers if spec.zookeeper else [_zookeeper(spec), *brokers]


def broker_name(number: int) -> str:
    return f"broker-{number}"


def _zookeeper(spec: ClusterSpec) -> LocalService:
    folder = spec.data / ZOOKEEPER
    server = ZooKeeperServer(directory=folder, port=spec.zookeeper_port)
    return LocalService(
        name=ZOOKEEPER,
        command=tuple(server.command()),
        port=spec.zookeeper_port,
        probe=ZOOKEEPER,
        log=spec.data / f"{ZOOKEEPER}.log",
        wave=0,
    )


def _broker(spec: ClusterSpec, number: int) -> LocalService:
    name, port = broker_name(number), spec.port + number
    replicas = min(3, spec.brokers)
    properties = {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(max(1, replicas - 1)),
        **spec.properties,
        "node.id": str(number),
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(spec.data / name),
        "zookeeper.connect": spec.connect,
    }
    words = [word for pair in properties.items() for word in ("--override", "=".join(pair))]
    return LocalService(
        name=name,
        command=(*OTTLA, "serve", *words),
        port=port,
        probe="broker",
        log=spec.data / f"{name}.log",
        wave=1,
    )
