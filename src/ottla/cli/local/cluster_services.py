"""What `ottla cluster up` starts: ZooKeeper, unless one runs already, and brokers around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.cli.local.local_service import HOST, OTTLA, LocalService
from ottla.testing.zookeeper import ZooKeeperServer

ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class ClusterWish:
    """`zookeeper` is an ensemble that runs already."""

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


def cluster_services(wish: ClusterWish) -> list[LocalService]:
    """ZooKeeperMissing if it is to be started, and is not there."""
    brokers = [_broker(wish, number) for number in range(wish.brokers)]
    return brokers if wish.zookeeper else [_zookeeper(wish), *brokers]


def broker_name(number: int) -> str:
    return f"broker-{number}"


def _zookeeper(wish: ClusterWish) -> LocalService:
    folder = wish.data / ZOOKEEPER
    server = ZooKeeperServer(directory=folder, port=wish.zookeeper_port)
    return LocalService(
        name=ZOOKEEPER,
        command=tuple(server.command()),
        port=wish.zookeeper_port,
        probe=ZOOKEEPER,
        log=wish.data / f"{ZOOKEEPER}.log",
        wave=0,
    )


def _broker(wish: ClusterWish, number: int) -> LocalService:
    name, port = broker_name(number), wish.port + number
    replicas = min(3, wish.brokers)
    properties = {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(max(1, replicas - 1)),
        **wish.properties,
        "node.id": str(number),
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(wish.data / name),
        "zookeeper.connect": wish.connect,
    }
    words = [word for pair in properties.items() for word in ("--override", "=".join(pair))]
    return LocalService(
        name=name,
        command=(*OTTLA, "serve", *words),
        port=port,
        probe="broker",
        log=wish.data / f"{name}.log",
        wave=1,
    )
