"""Real ZooKeeper servers for the time of a test: one, or an ensemble that needs a majority.

    with ZooKeeperServer() as server:
        use(server.connect)

They are started from Debian's `zookeeper` package, or from an unpacked Apache ZooKeeper that
ZOOKEEPER_HOME names, with a configuration of our own on free ports; nothing of the system's own
server is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.testing.ports import HOST, reserve_port

DEBIAN_JAR: Final = "/usr/share/java/zookeeper.jar"
# What the jar's own class path lacks: a logger, and parts of netty, which TLS needs.
DEBIAN_MORE: Final = ("slf4j-simple", "netty-codec", "netty-resolver")
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0
LOOK_EVERY_S: Final = 0.02
LOG_BYTES_SHOWN: Final = 8000

# A server for tests: small, quick to start, and with nothing to keep through a power cut. Sessions
# may be as short as two ticks.
JAVA_OPTIONS: Final = (
    "-Xmx128m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.forceSync=no",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
PROPERTIES: Final = {
    "tickTime": "500",
    "initLimit": "40",
    "syncLimit": "20",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr,ruok",
    "electionAlg": "3",
}


class ZooKeeperMissing(RuntimeError):
    """There is nothing to start."""


def java_command(options: Sequence[str] = ()) -> list[str]:
    """What runs a server, before the name of its configuration file."""
    java = shutil.which("java")
    if java is None:
        raise ZooKeeperMissing("ZooKeeper needs Java: apt-get install default-jre-headless")
    home = os.environ.get("ZOOKEEPER_HOME")
    if home is not None:
        classes = f"{home}/lib/*:{home}/*"
    elif os.path.exists(DEBIAN_JAR):
        more = (f"/usr/share/java/{name}.jar" for name in DEBIAN_MORE)
        classes = ":".join([DEBIAN_JAR, *filter(os.path.exists, more)])
    else:
        raise ZooKeeperMissing(
            "ZooKeeper is not installed: apt-get install zookeeper,"
            " or set ZOOKEEPER_HOME to an unpacked Apache ZooKeeper"
        )
    return [java, *options, "-cp", classes, MAIN_CLASS]


class ZooKeeperServer:
    """`start`, and any number of `stop`, `kill`, `pause` and `start` again: with the same data, on
    the same port. `members` are those of its ensemble, by their numbers."""

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
        """One that is `apart` hears no Ctrl-C."""
        self._apart = apart
        self._own_directory: tempfile.TemporaryDirectory[str] | None = None
        self._directory = directory
        self._given_port = port
        self._number = number
        self._members = dict(members or {})
        self._properties = {**PROPERTIES, **(properties or {})}
        self._java_options = (*JAVA_OPTIONS, *java_options)
        self._reserved: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        if self._given_port is not None:
            return self._given_port
        if self._reserved is None:
            self._reserved = reserve_port()
        port: int = self._reserved.getsockname()[1]
        return port

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

    def start(self, *, wait: bool = True) -> Self:
        """It serves when this returns, unless its ensemble is to be waited for later."""
        if self._process is not None:
            raise RuntimeError("the ZooKeeper server runs already")
        command = java_command(self._java_options)
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.directory / "server.log", "ab") as output:
            self._process = subprocess.Popen(
                [*command, str(self._write_config())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=self._apart,
            )
        if wait:
            self.wait_until_it_serves()
        return self

    def wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not self.serves():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"ZooKeeper did not start; its log says\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"ZooKeeper does not serve; its log says\n{self.log()}")
            time.sleep(LOOK_EVERY_S)

    def serves(self) -> bool:
        """Whether it answers, and belongs to a majority."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1.0) as line:
                line.sendall(b"srvr")
                answer = line.recv(4096)
        except OSError:
            return False
        return b"Mode:" in answer

    def stop(self) -> None:
        """SIGTERM, and the end of everything if the directory was our own: `close`."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay, nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        if self._own_directory is not None:
            self._own_directory.cleanup()
            self._own_directory = self._directory = None

    def log(self) -> str:
        """The end of what it has said."""
        try:
            text = (self.directory / "server.log").read_bytes()
        except FileNotFoundError:
            return ""
        return text[-LOG_BYTES_SHOWN:].decode(errors="replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write_config(self) -> Path:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self._number}\n")
        properties = {
            **self._properties,
            "dataDir": str(data),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            **{f"server.{number}": place for number, place in self._members.items()},
        }
        path = self.directory / "zoo.cfg"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path

    def _signal(self, number: int) -> None:
        if self._process is None:
            raise RuntimeError("the ZooKeeper server does not run")
        self._process.send_signal(number)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)  # one that is paused would not hear of it
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S_MAX)
        self._process = None


class ZooKeeperEnsemble:
    """Several servers, of which a majority has to run. `servers` can be ended one by one."""

    def __init__(self, count: int = 3) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="ottla-zookeeper-")
        self._reserved = [reserve_port() for _ in range(2 * count)]
        ports = [each.getsockname()[1] for each in self._reserved]
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
