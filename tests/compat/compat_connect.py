"""Kafka's own Connect worker, as a process."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from compat_brokers import SHORT_LIVED, free_port, kafka_jars

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"


class Answer(NamedTuple):
    status: int
    body: Any
    location: str | None
    kind: str | None


def ask(address: str, method: str, path: str, body: Any = None, kind: str | None = None) -> Answer:
    connection = http.client.HTTPConnection(address, timeout=60)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Content-Type": kind or "application/json"} if data is not None else {}
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    try:
        read = json.loads(found) if found else None
    except ValueError:
        read = found.decode()
    media = (answer.getheader("content-type") or "").partition(";")[0] or None
    return Answer(answer.status, read, answer.getheader("location"), media)


class KafkaWorker:
    """Distributed, alone in its group; its topics begin with `prefix`."""

    def __init__(self, directory: Path, bootstrap: str, prefix: str) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = directory / "connect.log"
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": prefix,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "listeners": f"http://{self.address}",
            "rest.advertised.host.name": "127.0.0.1",
            "plugin.discovery": "hybrid_warn",
            "offset.flush.interval.ms": "500",
            **{f"{entry}.storage.topic": f"{prefix}-{entry}" for entry in TOPICS},
            **{f"{entry}.storage.replication.factor": "1" for entry in TOPICS},
        }
        self._file = directory / "connect.properties"
        self._file.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KafkaWorker:
        command = ["java", "-Xmx512M", *SHORT_LIVED, "-cp", f"{kafka_jars()}/*"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, WORKER, str(self._file)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT_S)

    def _answers(self) -> bool:
        try:
            return ask(self.address, "GET", "/health").status == 200
        except OSError:
            return False


TOPICS = ("config", "offset", "status")
