"""What suites ask of `docker`: stop and start a broker, run a tool of Kafka's, show a log.

`Control` answers in the runner's process; stand_ins/docker is the program that suites call. Suites
of sarama and kafkajs have their brokers in containers, and know no other way to reach them.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.clusters import Cluster, Node

from suites.sources import kafka_jars

REQUEST_BYTES_MAX = 1000

# The scripts of a Kafka distribution, which Maven's jars lack.
TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
RUN_CLASS = """#!/bin/sh
exec java -Xmx256M -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "{jars}/*:$CLASSPATH" "$@"
"""
TOOL = """#!/bin/sh
exec "$(dirname "$0")/kafka-run-class.sh" {main_class} "$@"
"""


def write_tools(home: Path) -> None:
    """A folder as $KAFKA_PATH or /opt/kafka: bin with Kafka's own tools, libs with its jars."""
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"kafka-run-class": RUN_CLASS.format(jars=kafka_jars())}
    texts |= {name: TOOL.format(main_class=main_class) for name, main_class in TOOLS.items()}
    for name, text in texts.items():
        script = folder / f"{name}.sh"
        script.write_text(text)
        script.chmod(0o755)
    libs = home / "libs"
    if libs.is_symlink():  # of an earlier run, maybe of a version that was deleted
        libs.unlink()
    libs.symlink_to(kafka_jars())


class _Request(socketserver.StreamRequestHandler):
    server: Control

    def handle(self) -> None:
        words = self.rfile.readline(REQUEST_BYTES_MAX).decode().split()
        try:
            said = self.server.do(*words)
        except Exception as error:  # the suite must see the failure, and the runner must continue
            said = f"failed: {error}"
        self.wfile.write(said.encode())


class Control(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, cluster: Cluster) -> None:
        super().__init__(str(path), _Request)
        self._cluster = cluster
        self._lock = threading.Lock()

    def do(self, verb: str, service: str = "") -> str:
        """`stop`, `start` and `log` of a broker by its id, or `address` of one that runs."""
        with self._lock:
            if verb == "address":
                return next(f"127.0.0.1:{node.port}" for node in self._up())
            node = self._cluster.nodes[int(service)]
            if verb == "log":
                return str(node.directory / "server.log")
            if verb == "stop":
                node.stop()
            elif verb == "start" and node.server is None:
                node.start()
                self._cluster.wait_until_all_are_up()
            return "done"

    def _up(self) -> Iterator[Node]:
        return (node for node in self._cluster.nodes.values() if node.server is not None)


@contextmanager
def control(path: Path, cluster: Cluster) -> Iterator[None]:
    with Control(path, cluster) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
