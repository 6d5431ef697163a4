"""Our Connect worker beside Kafka's: the same requests, the same answers.

Details of a worker (address, versions, times) are left out of the comparison, and so are
traces of failures. Kafka's worker runs on our broker; ours says that its connectors run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from compat_brokers import REPOSITORY, Broker
from compat_connect import Answer, KafkaWorker, ask

from ottla.client.connect_client import MOMENTARILY
from ottla.connect.run.connect_worker import ConnectWorker

sys.path.insert(0, str(REPOSITORY / "tests/connect/herder"))
from herders import Stage

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]

PATIENCE_S = 120.0
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
LINES = {"connector.class": SOURCE, "file": "/tmp/o-there", "topic": "lines", "tasks.max": "1"}
SINK = {"connector.class": "FileStreamSink", "file": "/tmp/o-sheet", "topics": "lines"}
ONE = "/connectors/one"


class Pair(NamedTuple):
    ours: str
    theirs: str


@pytest.fixture(scope="module")
def pair(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    stage = Stage()
    properties = {
        "bootstrap.servers": broker.bootstrap,
        "listeners": "http://127.0.0.1:0",
        "group.id": "ours",
        "config.storage.topic": "ours-config",
        "status.storage.topic": "ours-status",
        "offset.storage.topic": "ours-offset",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    with (
        ConnectWorker(properties, spark=_no_spark, start=stage.start) as ours,
        KafkaWorker(tmp_path_factory.mktemp("connect"), broker.bootstrap, "theirs") as theirs,
    ):
        yield Pair(ours.worker.id, theirs.address)


def _no_spark() -> Any:
    raise AssertionError("nothing here runs on Spark")


class Script:
    """Requests to both, one after another; what differs is collected."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.differences: list[str] = []

    def __call__(self, method: str, path: str, body: Any = None, kind: str | None = None) -> Any:
        ours, theirs = (self._asked(cluster, method, path, body, kind) for cluster in self._pair)
        self.differences += [
            f"{method} {path} {body}: {difference}" for difference in _differences(ours, theirs)
        ]
        return ours

    def until(self, path: str, states: list[str]) -> None:
        """Waits until both workers report these states: the connector, then its tasks."""
        deadline = time.monotonic() + PATIENCE_S
        for cluster in self._pair:
            while (found := _states(ask(cluster, "GET", f"{path}/status"))) != states:
                assert time.monotonic() < deadline, f"{cluster}: {found}, not {states}"
                time.sleep(0.1)

    def _asked(self, address: str, method: str, path: str, body: Any, kind: str | None) -> Any:
        """Retries while a rebalance is in progress."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = ask(address, method, path, body, kind)
            passing = found.status == 409 and any(word in str(found.body) for word in MOMENTARILY)
            if not passing or time.monotonic() > deadline:
                return _compared(found, address)
            time.sleep(0.2)


def _states(answer: Answer) -> list[str]:
    if answer.status != 200:
        return []
    body = answer.body
    return [body["connector"]["state"], *(service["state"] for service in body["tasks"])]


def _compared(answer: Answer, address: str) -> dict[str, Any]:
    """Kafka omits the media type unless one of its own resources has answered."""
    result = answer._asdict()
    if answer.status >= 400:
        del result["kind"]
    return {name: _plain(entry, address) for name, entry in result.items()}


def _plain(value: Any, address: str) -> Any:
    if isinstance(value, dict):
        if str(value.get("name", "")).endswith("plugin.version"):
            return value["name"]
        return {name: _plain(entry, address) for name, entry in value.items() if name not in OWN}
    if isinstance(value, list):
        return [_plain(entry, address) for entry in value]
    if isinstance(value, str):
        known = value.replace(address, "worker").partition(", available connectors are")[0]
        return known.removeprefix("org.apache.kafka.connect.errors.ConnectException: ")
    return value


def _differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            result
            for name in {**ours, **theirs}
            for result in _differences(ours.get(name), theirs.get(name), f"{where}.{name}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            result
            for number, (part, other) in enumerate(zip(ours, theirs, strict=True))
            for result in _differences(part, other, f"{where}[{number}]")
        ]
    return [] if ours == theirs else [f"{where}\n   ours   {ours}\n   theirs {theirs}"]


OWN = ("version", "commit", "trace", "last_modified", "documentation", "recommended_values")


def test_a_connector_from_its_creation_to_its_deletion(pair: Pair) -> None:
    both = Script(pair)
    both("GET", "/")
    both("GET", "/health")
    both("GET", "/connectors")
    both("POST", "/connectors", {"name": "one", "config": LINES})
    both("POST", "/connectors", {"name": "one", "config": LINES})
    both.until(ONE, ["RUNNING", "RUNNING"])
    both("GET", "/connectors")
    both("GET", "/connectors?expand=status&expand=info")
    both("GET", "/connectors?expand=odd")
    for path in ("", "/config", "/status", "/tasks/0/status"):
        both("GET", ONE + path)
    both("PUT", f"{ONE}/pause")
    both.until(ONE, ["PAUSED", "PAUSED"])
    both("DELETE", f"{ONE}/offsets")
    both("PATCH", f"{ONE}/offsets", {"offsets": []})
    both("PUT", f"{ONE}/resume")
    both.until(ONE, ["RUNNING", "RUNNING"])
    both("POST", f"{ONE}/restart?includeTasks=true&onlyFailed=true")
    both("POST", f"{ONE}/restart?includeTasks=true")
    both("POST", f"{ONE}/restart")
    both("POST", f"{ONE}/tasks/0/restart")
    both("POST", f"{ONE}/tasks/7/restart")
    both("PUT", f"{ONE}/config", {**LINES, "batch.size": "7"})
    both("PATCH", f"{ONE}/config", {"batch.size": None})
    both("PUT", "/connectors/two/config", SINK)
    both.until("/connectors/two", ["RUNNING", "RUNNING"])
    both("PUT", "/connectors/two/stop")
    both.until("/connectors/two", ["STOPPED"])
    both("GET", "/connectors/two")
    both("PUT", "/connectors/two/topics/reset")
    both("DELETE", "/connectors/two")
    both("DELETE", "/connectors/two")
    stopped = {"name": "three", "config": SINK, "initial_state": "STOPPED"}
    both("POST", "/connectors", stopped)
    both.until("/connectors/three", ["STOPPED"])
    both("DELETE", "/connectors/three")
    both("DELETE", ONE)
    assert not both.differences, "\n".join(both.differences)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "PATCH"])
def test_unknown_names_are_refused_in_the_same_words(pair: Pair, method: str) -> None:
    both = Script(pair)
    none = "/connectors/none"
    paths = ["", "/config", "/status", "/tasks", "/tasks/0/status", "/tasks/0/restart", "/restart"]
    paths += ["/restart?includeTasks=true", "/pause", "/resume", "/stop", "/offsets", "/odd"]
    body = {"GET": None, "POST": None, "DELETE": None}.get(method, {})
    for path in paths:
        if (method, path) not in (
            ("PUT", "/config"),
            ("POST", "/tasks"),
        ):  # the latter is Kafka's own
            both(method, none + path, body)
    assert not both.differences, "\n".join(both.differences)


def test_bad_configs_are_refused_in_the_same_words(pair: Pair) -> None:
    both = Script(pair)
    for config in (
        {},
        {"connector.class": "NobodyKnows"},
        {"connector.class": SOURCE, "file": "/tmp/o-there"},
        {**LINES, "tasks.max": "x"},
        {**LINES, "tasks.max": "0"},
        {**LINES, "name": "other"},
        {**LINES, "errors.tolerance": "some"},
        {**LINES, "transforms": "a"},
        {**LINES, "key.converter": "Nothing"},
        {**SINK, "topics": "a", "topics.regex": "b"},
        {"connector.class": "FileStreamSink"},
    ):
        both("PUT", "/connectors/bad/config", config)
        both("POST", "/connectors", {"name": "bad", "config": config})
    both("POST", "/connectors", {"name": " ", "config": LINES})
    both("POST", "/connectors", {"config": LINES})
    assert not both.differences, "\n".join(both.differences)


def test_plugins_and_loggers(pair: Pair) -> None:
    both = Script(pair)
    both("GET", "/connector-plugins/FileStreamSink/config")
    for plugin in ("FileStreamSource", "FileStreamSink", SOURCE):
        both("PUT", f"/connector-plugins/{plugin}/config/validate", {**LINES, "name": "x"})
        both("PUT", f"/connector-plugins/{plugin}/config/validate", {**SINK, "name": "x"})
    both("GET", "/connector-plugins/Nobody/config")
    both("PUT", "/admin/loggers/ottla.compared", {"level": "debug"})
    both("GET", "/admin/loggers/ottla.compared")
    both("PUT", "/admin/loggers/ottla.compared?scope=cluster", {"level": "WARN"})
    both("PUT", "/admin/loggers/ottla.compared?scope=odd", {"level": "ERROR"})
    both("PUT", "/admin/loggers/ottla.compared", {"level": "loud"})
    both("PUT", "/admin/loggers/ottla.compared", {})
    both("GET", "/admin/loggers/nobody")
    assert not both.differences, "\n".join(both.differences)
