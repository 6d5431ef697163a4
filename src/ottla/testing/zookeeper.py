"""Real ZooKeeper servers for the time of a test: one, or an ensemble that needs a majority.

    with ZooKeeperServer() as server:
        use(server.connect)

They are started from Debian's `zookeeper` package, or from an unpacked Apache ZooKeeper in
ZOOKEEPER_HOME, with their own configuration on free ports, and touch nothing of the system's own
server.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.testing.ports import HOST, reserve_port
from ottla.testing.server_process import ServerProcess

DEBIAN_JAR: Final = "/usr/share/java/zookeeper.jar"
# What the jar's own class path lacks: a logger, and the parts of netty that TLS needs.
DEBIAN_MORE: Final = ("slf4j-simple", "netty-codec", "netty-resolver")
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# A server for tests: small, fast to start, and nothing needs to survive a power cut. Sessions may
# be as short as two ticks.
JAVA_OPTIONS: Final = (
    "-Xmx128m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.forceSync=no",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
ZOOKEEPER_PROPERTIES: Final = {
    "tickTime": "500",
    "initLimit": "40",
    "syncLimit": "20",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr,ruok",
    "electionAlg": "3",
}


class ZooKeeperNotFound(RuntimeError):
    """ZooKeeper is not installed."""


def java_command(options: Sequence[str] = ()) -> list[str]:
    """The command of a server, up to the name of its configuration file."""
    java = shutil.which("java")
    if java is None:
        raise ZooKeeperNotFound("ZooKeeper needs Java: apt-get install default-jre-headless")
    home = os.environ.get("ZOOKEEPER_HOME")
    if home:
        _check_home(Path(home))
        classes = f"{home}/lib/*:{home}/*"
    elif os.path.exists(DEBIAN_JAR):
        more = (f"/usr/share/java/{name}.jar" for name in DEBIAN_MORE)
        classes = ":".join([DEBIAN_JAR, *filter(os.path.exists, more)])
    else:
        raise ZooKeeperNotFound(
            "ZooKeeper is not installed: apt-get install zookeeper,"
            " or set ZOOKEEPER_HOME to an unpacked Apache ZooKeeper"
        )
    return [java, *options, "-cp", classes, MAIN_CLASS]


def _check_home(home: Path) -> None:
    """A better message than Java's, which can't find the main class."""
    if any(found for folder in (home, home / "lib") for found in folder.glob("zookeeper*.jar")):
        return
    what = f"no zookeeper*.jar lies in {home} or {home / 'lib'}"
    raise ZooKeeperNotFound(
        f"ZOOKEEPER_HOME is {home}: {what if home.is_dir() else 'there is no such folder'}."
        " It names an unpacked Apache ZooKeeper; without it Debian's package is used"
    )


class ZooKeeperServer(ServerProcess):
    """`members` are those of its ensemble, by their numbers."""

    name = "ZooKeeper"

    def __init__(
        self,
        *,
        directory: Path | None = None,
        port: int | None = None,
        number: int = 1,
        members: Mapping[int, str] | None = None,
        properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        apart: bool = False,
    ) -> None:
        super().__init__(port=port, apart=apart)
        self._own_directory: tempfile.TemporaryDirectory[str] | None = None
        self._directory = directory
        self._number = number
        self._members = dict(members or {})
        self._properties = {**ZOOKEEPER_PROPERTIES, **(properties or {})}
        self._java_options = (*JAVA_OPTIONS, *java_options)

    @property
    def servers(self) -> list[ZooKeeperServer]:
        """Itself, as an ensemble of one."""
        return [self]

    @property
    def connect(self) -> str:
        """For `zookeeper.connect`."""
        return f"{HOST}:{self.port}"

    @property
    def directory(self) -> Path:
        if self._directory is None:
            self._own_directory = tempfile.TemporaryDirectory(prefix="ottla-zookeeper-")
            self._directory = Path(self._own_directory.name)
        return self._directory

    def command(self) -> list[str]:
        return [*java_command(self._java_options), str(self._write_config())]

    def serves(self) -> bool:
        """True if it answers, and belongs to a majority."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1.0) as line:
                line.sendall(b"srvr")
                answer = line.recv(4096)
        except OSError:
            return False
        return b"Mode:" in answer

    def close(self) -> None:
        super().close()
        if self._own_directory is not None:
            self._own_directory.cleanup()
            self._own_directory = self._directory = None

    def _write_config(self) -> Path:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self._number}\n")
        properties = {
            **self._properties,
            "dataDir": str(data),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            **{f"server.{number}": address for number, address in self._members.items()},
        }
        path = self.directory / "zoo.cfg"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path


class ZooKeeperEnsemble:
    """Several servers, of which a majority must run. `servers` can be stopped one by one."""

    def __init__(self, count: int = 3) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="ottla-zookeeper-")
        self._reserved = [reserve_port() for _ in range(2 * count)]
        ports = [reserved.getsockname()[1] for reserved in self._reserved]
        members = {
            number: f"{HOST}:{ports[2 * number - 2]}:{ports[2 * number - 1]}"
            for number in range(1, count + 1)
        }
        self.servers = [
            ZooKeeperServer(
                directory=Path(self._own.name) / str(number), number=number, members=members
            )
            for number in members
        ]

    @property
    def connect(self) -> str:
        return ",".join(server.connect for server in self.servers)

    def start(self) -> Self:
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_until_it_serves()
        return self

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._own.cleanup)
            for reserved in self._reserved:
                stack.callback(reserved.close)
            for server in self.servers:
                stack.callback(server.close)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
