"""A ZooKeeper ensemble of three for Ottla's clusters: Debian's package, with its own defaults.

Unlike the servers of the tests these write to disk before they answer (forceSync), as Kafka's
controllers do.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from benchmarks.apache_kafka import MissingError, java
from benchmarks.brokers import HOST, START_TIMEOUT_S, StartError, free_port
from benchmarks.processes import SpawnedServer, spawn

JARS = "/usr/share/java/zookeeper.jar"
LOGGING_JARS = "/usr/share/java/slf4j-simple.jar"
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HEAP = "256M"
MEMBERS = (1, 2, 3)
LOOK_EVERY_S = 0.05


def start_ensemble(directory: Path, servers: list[SpawnedServer]) -> str:
    """Adds the processes to `servers`; returns `zookeeper.connect` when a majority serves."""
    ports = {member: free_port() for member in MEMBERS}
    quorum = {member: f"{HOST}:{free_port()}:{free_port()}" for member in MEMBERS}
    for member, port in ports.items():
        home = directory / f"zookeeper-{member}"
        home.mkdir()
        servers.append(_start(home, member, port, quorum))
    for server, port in zip(servers, ports.values(), strict=True):
        _wait(server, port)
    return ",".join(f"{HOST}:{port}" for port in ports.values())


def _start(home: Path, member: int, port: int, quorum: dict[int, str]) -> SpawnedServer:
    lines = {
        "tickTime": "2000",
        "initLimit": "10",
        "syncLimit": "5",
        "dataDir": str(home),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
        **{f"server.{server_id}": address for server_id, address in quorum.items()},
    }
    config = home / "zoo.cfg"
    config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    (home / "myid").write_text(f"{member}\n")
    command = [
        java(),
        f"-Xmx{HEAP}",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        _classes(),
        MAIN_CLASS,
        str(config),
    ]
    return spawn(command, log=home / "server.log")


def _classes() -> str:
    home = os.environ.get("ZOOKEEPER_HOME")
    if home is not None:
        return f"{home}/lib/*:{home}/*"
    if not Path(JARS).exists():
        raise MissingError("no ZooKeeper: apt-get install zookeeper, or set ZOOKEEPER_HOME")
    return f"{JARS}:{LOGGING_JARS}"


def _wait(server: SpawnedServer, port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _serves(port):
        if not server.alive():
            raise StartError(f"ZooKeeper ended while starting:\n{server.log_tail()}")
        if time.monotonic() > deadline:
            raise StartError(f"ZooKeeper does not serve:\n{server.log_tail()}")
        time.sleep(LOOK_EVERY_S)


def _serves(port: int) -> bool:
    """A member reports its mode once the ensemble has a leader."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as sock:
            sock.sendall(b"srvr")
            return b"Mode:" in sock.recv(4096)
    except OSError:
        return False
