"""Where Apache Kafka's jars are, and how its JVMs are started.

Broker flags are those of kafka-server-start.sh (heap 1 GiB, G1, GC log), tools those of
kafka-run-class.sh. Properties are those of the shipped config/server.properties, with ports and
directories of our own.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import run_tool

REPOSITORY = Path(__file__).resolve().parent.parent
KAFKA_VERSION = "4.3.1"
JARS = REPOSITORY / ".cache" / f"kafka-{KAFKA_VERSION}"
SETUP = [str(REPOSITORY / "tools" / "setup_test_clients.sh"), "--maven"]
FORMAT_TIMEOUT_S = 60.0

BROKER_HEAP = "1G"
TOOL_HEAP = ("-Xmx512M",)
PERFORMANCE_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

# What the shipped config/server.properties says beyond names, ports and directories.
SHIPPED_PROPERTIES = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}

LOG4J_PROPERTIES = """\
status = error
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.stdout.ref = STDOUT
"""


class MissingError(Exception):
    """Java or the jars are missing; the message says what to do."""


def ensure_kafka() -> None:
    """Finds Java and the jars, and fetches the jars from Maven Central if need be."""
    java()
    if _has_jars():
        return
    command = " ".join(SETUP)
    if not Path(SETUP[0]).exists():
        raise MissingError(f"no Kafka jars in {JARS}, and no {SETUP[0]} to fetch them")
    code = subprocess.run(SETUP, check=False).returncode
    if code != 0 or not _has_jars():
        raise MissingError(f"no Kafka jars in {JARS}: `{command}` ended with exit code {code}")


def _has_jars() -> bool:
    wanted = (f"kafka_2.13-{KAFKA_VERSION}.jar", f"kafka-tools-{KAFKA_VERSION}.jar")
    return all((JARS / jar).exists() for jar in wanted)


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise MissingError("no Java found (17 or newer): install a JRE or set JAVA_HOME")
    return found


def java_version() -> str:
    lines = run_tool([java(), "-version"], timeout_s=30.0).output.splitlines()
    return lines[0] if lines else "unknown"


def tool_command(main_class: str, *arguments: str) -> list[str]:
    return [java(), *TOOL_HEAP, *PERFORMANCE_FLAGS, "-cp", f"{JARS}/*", main_class, *arguments]


def server_command(directory: Path, *, heap: str = BROKER_HEAP) -> list[str]:
    """kafka.Kafka on the properties that `format_storage` wrote."""
    return [
        java(),
        f"-Xmx{heap}",
        f"-Xms{heap}",
        *PERFORMANCE_FLAGS,
        f"-Xlog:gc*:file={directory}/gc.log:time,tags:filecount=10,filesize=100M",
        f"-Dkafka.logs.dir={directory}",
        f"-Dlog4j2.configurationFile={directory}/log4j2.properties",
        "-cp",
        f"{JARS}/*",
        "kafka.Kafka",
        str(directory / "server.properties"),
    ]


@dataclass(frozen=True, slots=True)
class Quorum:
    """Nodes that are broker and controller at once: id -> port of the controller."""

    cluster_id: str
    controller_ports: Mapping[int, int]

    @property
    def voters(self) -> str:
        ports = self.controller_ports.items()
        return ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports)


def new_quorum(controller_ports: Mapping[int, int]) -> Quorum:
    raw = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()
    return Quorum(raw.rstrip("=").replace("-", "A"), controller_ports)


def format_storage(
    directory: Path,
    *,
    port: int,
    quorum: Quorum,
    overrides: Mapping[str, str],
    node_id: int = 1,
    listeners: Mapping[str, int] | None = None,
) -> None:
    """Writes the properties and formats the data directory, which Kafka wants before any start."""
    properties = directory / "server.properties"
    lines = {**server_properties(directory, node_id, port=port, quorum=quorum), **overrides}
    for protocol, own_port in (listeners or {}).items():
        for name in ("listeners", "advertised.listeners"):
            lines[name] += f",{protocol}://127.0.0.1:{own_port}"
        lines["listener.security.protocol.map"] += f",{protocol}:{protocol}"
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    (directory / "log4j2.properties").write_text(LOG4J_PROPERTIES.format(level="INFO"))
    command = tool_command(
        "kafka.tools.StorageTool", "format", "-t", quorum.cluster_id, "-c", str(properties)
    )
    run_tool(command, timeout_s=FORMAT_TIMEOUT_S)


def server_properties(
    directory: Path, node_id: int, *, port: int, quorum: Quorum
) -> dict[str, str]:
    controller_port = quorum.controller_ports[node_id]
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": quorum.voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(directory / "data"),
        **SHIPPED_PROPERTIES,
    }
