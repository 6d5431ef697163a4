"""A Connect worker, Ottla's or Kafka's, controlled over REST."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import apache_kafka
from benchmarks.brokers import HOST, free_port
from benchmarks.marks import Mark
from benchmarks.processes import ToolError, spawn

DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
KAFKA_HEAP = ("-Xms256M", "-Xmx2G")
"""As connect-distributed.sh starts it."""
TASK_NAME = "connect-"
"""The prefix of the process names of Ottla's tasks; Kafka's tasks are threads."""
TOPICS = ("config", "offset", "status")
START_S_MAX = 180.0
RESULT_S_MAX = 900.0
ASK_S_MAX = 90.0
LOOK_S = 0.05
STATUS_EVERY_S = 2.0
CONFLICT = 409
NOT_FOUND = 404


def properties(bootstrap: str, port: int, **more: str) -> dict[str, str]:
    """The same for both: distributed, alone in its group, exactly once, JSON with schemas."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "listeners": f"http://{HOST}:{port}",
        "rest.advertised.host.name": HOST,
        "exactly.once.source.support": "enabled",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        **{f"{topic}.storage.topic": f"connect-{topic}" for topic in TOPICS},
        **{f"{topic}.storage.replication.factor": "1" for topic in TOPICS},
        **more,
    }


def kafka_command(file: Path) -> list[str]:
    flags = [*KAFKA_HEAP, *apache_kafka.PERFORMANCE_FLAGS]
    return [apache_kafka.java(), *flags, "-cp", f"{apache_kafka.JARS}/*", DISTRIBUTED, str(file)]


def ottla_command(python: str, file: Path) -> list[str]:
    return [python, "-m", "ottla.cli", "connect", "worker", str(file)]


class Worker:
    """The constructor starts it; when the stack is closed, all of its processes have ended."""

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]],
        folder: Path,
        bootstrap: str,
        stack: ExitStack,
        **more: str,
    ) -> None:
        self._port = free_port()
        self._mark = Mark()
        file = folder / "connect.properties"
        config = properties(bootstrap, self._port, **more)
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        self._process = spawn(command(file), log=folder / "log", env=self._mark.environment)
        stack.callback(self._mark.end)
        stack.callback(self._process.stop)
        self._until(lambda: self._asked("GET", "/connectors") == (200, []), START_S_MAX, "start")

    @property
    def cpu_s(self) -> float:
        return self._mark.cpu_s

    def copy(self, name: str, config: dict[str, str], count: int, done: Callable[[], int]) -> float:
        """Seconds from the request until `done` reports that `count` records have arrived."""
        start = time.perf_counter()
        looked = time.monotonic()
        self._ask("PUT", f"/connectors/{name}/config", {**config, "tasks.max": "1"})
        while (found := done()) < count:
            if time.monotonic() - looked > STATUS_EVERY_S:
                looked = time.monotonic()
                self._check(name)
            if time.perf_counter() - start > RESULT_S_MAX:
                raise ToolError(f"{name}: {found} of {count} records after {RESULT_S_MAX:.0f} s")
            time.sleep(LOOK_S)
        return time.perf_counter() - start

    def delete(self, name: str) -> None:
        """Ends all of its processes, so that none is counted in the next measurement."""
        self._ask("DELETE", f"/connectors/{name}")
        status = f"/connectors/{name}/status"

        def gone() -> bool:
            return self._asked("GET", status)[0] == NOT_FOUND and not self._mark.runs(TASK_NAME)

        self._until(gone, ASK_S_MAX, f"end of {name}")

    def _check(self, name: str) -> None:
        status, body = self._asked("GET", f"/connectors/{name}/status")
        if status == 200:
            for part in (body["connector"], *body["tasks"]):
                if part["state"] == "FAILED":
                    raise ToolError(f"{name} has failed: {part.get('trace', '')[-2000:]}")

    def _ask(self, method: str, path: str, body: Any = None) -> None:
        """Retries while the worker is rebalancing."""
        deadline = time.monotonic() + ASK_S_MAX
        while True:
            status, answer = self._asked(method, path, body)
            if status < 300:
                return
            if status not in (0, CONFLICT) or time.monotonic() > deadline:
                raise ToolError(f"{method} {path}: {status} {answer}")
            time.sleep(LOOK_S)

    def _asked(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """0 for a worker that does not answer."""
        line = http.client.HTTPConnection(HOST, self._port, timeout=ASK_S_MAX)
        headers = {"Content-Type": "application/json"}
        try:
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            text = answer.read()
        except OSError as error:
            return 0, error
        finally:
            line.close()
        try:
            return answer.status, json.loads(text) if text else None
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def _until(self, is_so: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            if not self._process.alive():
                raise ToolError(f"the worker has ended:\n{self._process.log_tail()}")
            if time.monotonic() > deadline:
                raise ToolError(f"no {what} in {seconds:.0f} s:\n{self._process.log_tail()}")
            time.sleep(LOOK_S)
