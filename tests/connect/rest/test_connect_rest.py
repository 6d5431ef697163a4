"""Kafka Connect's REST: status codes, JSON and messages."""

from __future__ import annotations

import dataclasses
import functools
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from workers import Answer, Stage, ask, until, worker

from ottla.connect.rest.app import THREADS_MAX
from ottla.connect.run.connect_worker import ConnectWorker
from ottla.testing import LocalCluster

pytestmark = pytest.mark.timeout(600)

LINES = {"connector.class": "Lines", "file": "/tmp/in", "topic": "lines", "tasks.max": "2"}


@pytest.fixture(scope="module")
def alone() -> Iterator[ConnectWorker]:
    """A standalone worker, which needs the broker only for the cluster id."""
    with (
        LocalCluster() as cluster,
        worker(cluster.bootstrap_servers, Stage(), alone=True) as found,
    ):
        yield found


def of(worker: ConnectWorker) -> functools.partial[Answer]:
    return functools.partial(ask, worker.url)


def states(rest: functools.partial[Answer], name: str) -> tuple[str, list[str]]:
    status, found, _ = rest("GET", f"/connectors/{name}/status")
    if status == 404:
        return "", []
    return found["connector"]["state"], [task["state"] for task in found["tasks"]]


def test_the_root_shows_version_and_cluster_id(alone: ConnectWorker) -> None:
    rest = of(alone)
    found = rest("GET", "/").body
    assert set(found) == {"version", "commit", "kafka_cluster_id"}
    assert found["kafka_cluster_id"]
    assert rest("GET", "/health").body == {
        "status": "healthy",
        "message": "Worker has completed startup and is ready to handle requests.",
    }
    assert rest("GET", "/nowhere").words == (404, "HTTP 404 Not Found")
    assert rest("PUT", "/connectors").words == (405, "HTTP 405 Method Not Allowed")
    # Kafka's workers send these, signed, to each other (KIP-507); they do not exist here.
    assert rest("POST", "/connectors/a/tasks", []).status == 405
    assert rest("PUT", "/connectors/a/fence").status == 404


def test_a_connector_from_its_creation_to_its_deletion(alone: ConnectWorker) -> None:
    rest = of(alone)
    assert rest("GET", "/connectors").body == []
    made = rest("POST", "/connectors", {"name": "one", "config": LINES})
    assert made.status == 201
    assert made.headers["location"] == f"{alone.url}/connectors/one"
    config = {**LINES, "name": "one"}
    assert made.body["config"] == config
    assert (made.body["name"], made.body["type"]) == ("one", "source")
    again = rest("POST", "/connectors", {"name": "one", "config": LINES})
    assert again.words == (409, "Connector one already exists")

    until(lambda: states(rest, "one") == ("RUNNING", ["RUNNING"] * 2))
    assert rest("GET", "/connectors").body == ["one"]
    assert rest("GET", "/connectors/one").body["tasks"] == [
        {"connector": "one", "task": 0},
        {"connector": "one", "task": 1},
    ]
    assert rest("GET", "/connectors/one/config").body == config
    tasks = rest("GET", "/connectors/one/tasks").body
    assert [task["id"] for task in tasks] == rest("GET", "/connectors/one").body["tasks"]
    assert tasks[1]["config"] == {**config, "task": "1"}
    assert rest("GET", "/connectors/one/tasks/1/status").body == {
        "id": 1,
        "state": "RUNNING",
        "worker_id": alone.worker.id,
        "version": "1",
    }
    expanded = rest("GET", "/connectors?expand=status&expand=info&expand=odd").body
    assert expanded["one"]["info"] == rest("GET", "/connectors/one").body
    assert expanded["one"]["status"] == rest("GET", "/connectors/one/status").body
    assert rest("GET", "/connectors/one/topics").body == {"one": {"topics": ["lines"]}}
    assert rest("PUT", "/connectors/one/topics/reset").status == 202
    assert rest("GET", "/connectors/one/topics").body == {"one": {"topics": []}}

    assert rest("DELETE", "/connectors/one")[:2] == (204, None)
    assert rest("GET", "/connectors/one").words == (404, "Connector one not found")
    until(lambda: rest("GET", "/connectors/one/status").status == 404)


def test_a_config_is_put_and_patched(alone: ConnectWorker) -> None:
    rest = of(alone)
    made = rest("PUT", "/connectors/two/config", LINES)
    assert (made.status, made.headers["location"]) == (201, f"{alone.url}/connectors/two")
    changed = rest("PUT", "/connectors/two/config", {**LINES, "batch.size": 7, "name": "two"})
    assert changed.status == 200
    assert changed.body["config"]["batch.size"] == "7"
    patched = rest("PATCH", "/connectors/two/config", {"batch.size": None, "file": "/tmp/other"})
    assert patched.status == 200
    assert patched.body["config"] == {**LINES, "file": "/tmp/other", "name": "two"}
    odd = rest("PUT", "/connectors/two/config", {**LINES, "name": "three"})
    assert odd.words == (
        400,
        "Connector name configuration (three) doesn't match connector name in the URL (two)",
    )
    wrong = rest("PUT", "/connectors/two/config", {"connector.class": "Lines", "batch.size": "x"})
    assert wrong.words == (
        400,
        "Connector configuration is invalid and contains the following 2 error(s):\n"
        'Missing required configuration "topic" which has no default value.\n'
        "Invalid value x for configuration batch.size: Not a number of type INT\n"
        "You can also find the above list of errors at the endpoint"
        " `/connector-plugins/{connectorType}/config/validate`",
    )
    assert rest("PATCH", "/connectors/none/config", {}).words == (404, "Connector none not found")
    rest("DELETE", "/connectors/two")


def test_paused_stopped_resumed_restarted(alone: ConnectWorker) -> None:
    rest = of(alone)
    body = {"name": "three", "config": {**LINES, "trouble": "1"}, "initial_state": "stopped"}
    assert rest("POST", "/connectors", body).status == 201
    until(lambda: states(rest, "three") == ("STOPPED", []))
    assert rest("PUT", "/connectors/three/resume")[:2] == (202, None)
    until(lambda: states(rest, "three") == ("RUNNING", ["FAILED", "RUNNING"]))
    found = rest("GET", "/connectors/three/tasks/0/status").body
    assert found["trace"] == "Traceback: trouble"

    planned = rest("POST", "/connectors/three/restart?includeTasks=true&onlyFailed=true")
    assert planned.status == 202
    assert planned.body["connector"]["state"] == "RUNNING"
    assert [task["state"] for task in planned.body["tasks"]] == ["RESTARTING", "RUNNING"]
    until(lambda: states(rest, "three") == ("RUNNING", ["RUNNING"] * 2))
    assert rest("POST", "/connectors/three/restart")[:2] == (204, None)
    assert rest("POST", "/connectors/three/tasks/1/restart")[:2] == (204, None)
    assert rest("POST", "/connectors/three/tasks/2/restart").words == (
        404,
        "Unknown task: three-2",
    )

    assert rest("PUT", "/connectors/three/pause").status == 202
    until(lambda: states(rest, "three") == ("PAUSED", ["PAUSED"] * 2))
    refused = rest("DELETE", "/connectors/three/offsets")
    assert refused.words == (
        400,
        "Connectors must be in the STOPPED state before their offsets can be modified. This can"
        " be done for the specified connector by issuing a 'PUT' request to the"
        " '/connectors/three/stop' endpoint",
    )
    assert rest("PUT", "/connectors/three/stop")[:2] == (204, None)
    until(lambda: states(rest, "three") == ("STOPPED", []))
    assert rest("GET", "/connectors/three").body["tasks"] == []
    assert rest("PATCH", "/connectors/three/offsets", {"offsets": []}).words == (
        400,
        "Partitions / offsets need to be provided for an alter offsets request",
    )
    rest("DELETE", "/connectors/three")


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "", "Connector none not found"),
        ("DELETE", "", "Connector none not found"),
        ("GET", "/config", "Connector none not found"),
        ("GET", "/status", "No status found for connector none"),
        ("GET", "/tasks", "Connector none not found"),
        ("GET", "/tasks/0/status", "No status found for task none-0"),
        ("POST", "/tasks/0/restart", "Unknown connector: none"),
        ("POST", "/restart", "Unknown connector: none"),
        ("POST", "/restart?includeTasks=true", "Unknown connector: none"),
        ("PUT", "/pause", "Unknown connector none"),
        ("PUT", "/resume", "Unknown connector none"),
        ("PUT", "/stop", "Unknown connector none"),
        ("GET", "/offsets", "Connector none not found"),
        ("DELETE", "/offsets", "Connector none not found"),
    ],
)
def test_an_unknown_connector_is_not_found(
    alone: ConnectWorker, method: str, path: str, words: str
) -> None:
    assert of(alone)(method, f"/connectors/none{path}").words == (404, words)


def test_plugins_are_listed_and_configs_validated(alone: ConnectWorker) -> None:
    rest = of(alone)
    assert rest("GET", "/connector-plugins").body == [
        {"class": "Sheets", "type": "sink", "version": "1"},
        {"class": "Lines", "type": "source", "version": "1"},
    ]
    found = rest("PUT", "/connector-plugins/Lines/config/validate", {"connector.class": "Lines"})
    assert found.body["error_count"] == 2  # its name and its topic
    assert rest("PUT", "/connector-plugins/Sheets/config/validate", LINES).words == (
        400,
        "Included connector type Lines does not match request type Sheets",
    )


def test_loggers_have_levels(alone: ConnectWorker) -> None:
    rest = of(alone)
    assert rest("PUT", "/admin/loggers/ottla.tried.one", {"level": "debug"}).body == [
        "ottla.tried.one"
    ]
    assert rest("PUT", "/admin/loggers/ottla.tried", {"level": "ERROR"}).body == [
        "ottla.tried.one",
    ]
    found: dict[str, Any] = rest("GET", "/admin/loggers/ottla.tried.one").body
    assert found["level"] == "ERROR"
    assert found["last_modified"] > 0
    assert rest("GET", "/admin/loggers").body["ottla.tried"]["level"] == "ERROR"
    assert rest("PUT", "/admin/loggers/ottla.tried?scope=cluster", {"level": "INFO"}).status == 204
    until(lambda: rest("GET", "/admin/loggers/ottla.tried").body["level"] == "INFO")
    assert rest("GET", "/admin/loggers/nobody").words == (404, "Logger nobody not found.")
    assert rest("PUT", "/admin/loggers/ottla.tried", {}).words == (
        400,
        "Desired 'level' parameter was not specified in request.",
    )
    assert rest("PUT", "/admin/loggers/ottla.tried", {"level": "loud"}).words == (
        404,
        "invalid log level 'loud'.",
    )


def test_consecutive_changes_wait_for_rebalances() -> None:
    """As with Kafka's workers: each change causes a rebalance, and none is rejected."""
    stage = Stage()
    with (
        LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as cluster,
        worker(cluster.bootstrap_servers, stage) as one,
        worker(cluster.bootstrap_servers, stage) as two,
    ):
        until(lambda: all(worker.herder.view.assignment is not None for worker in (one, two)))
        names = [f"lines-{number}" for number in range(6)]
        rests = [of(one), of(two)] * 3
        for name, rest in zip(names, rests, strict=True):
            assert rest("POST", "/connectors", {"name": name, "config": LINES}).status == 201
        until(lambda: set(stage.running) == set(names))
        for name, rest in zip(names, rests, strict=True):
            # A follower knows a connector once it has read the config topic.
            until(lambda name=name, rest=rest: name in rest("GET", "/connectors").body)
            answer = rest("DELETE", f"/connectors/{name}")
            assert answer.status == 204, answer.body
        until(lambda: not stage.running)


def test_requests_that_wait_for_a_rebalance_delay_no_others(alone: ConnectWorker) -> None:
    rest = of(alone)
    assert rest("POST", "/connectors", {"name": "waits", "config": LINES}).status == 201
    member = alone.herder._members
    stable = member.view
    member.view = dataclasses.replace(stable, stable=False)
    with ThreadPoolExecutor(THREADS_MAX + 1) as clients:
        path = "/connectors/waits/stop"
        stops = [clients.submit(rest, "PUT", path) for _ in range(THREADS_MAX + 1)]
        try:
            until(lambda: waiting_threads() == THREADS_MAX)
            assert rest("GET", "/health").status == 200
            assert "waits" in rest("GET", "/connectors").body
            validate = rest("PUT", "/connector-plugins/Lines/config/validate", LINES)
            assert validate.status == 200
            assert not any(stop.done() for stop in stops)
        finally:
            member.view = stable
        assert {stop.result().status for stop in stops} == {204}
    rest("DELETE", "/connectors/waits")


def waiting_threads() -> int:
    """How many threads of this process wait for the end of a rebalance."""
    frames = map(traceback.extract_stack, sys._current_frames().values())
    return sum(any(call.name == "check_no_rebalance" for call in frame) for frame in frames)


def test_any_worker_of_a_cluster_accepts_requests() -> None:
    stage = Stage()
    with (
        LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as cluster,
        worker(cluster.bootstrap_servers, stage) as one,
        worker(cluster.bootstrap_servers, stage) as two,
    ):
        views = one.herder, two.herder
        until(lambda: sorted(view.view.is_leader for view in views) == [False, True])
        until(lambda: all(view.view.stable for view in views))
        asked = two if one.herder.view.is_leader else one
        other = of(asked)

        def patient(method: str, path: str, body: Any = None) -> Answer:
            """As every client of Connect must be: a rebalance passes."""
            answers: list[Answer] = []

            def done() -> bool:
                answers.append(other(method, path, body))
                return answers[-1].status != 409

            until(done)
            return answers[-1]

        for name in ("a", "b"):
            made = patient("POST", "/connectors", {"name": name, "config": LINES})
            assert (made.status, made.headers["location"]) == (
                201,
                f"{asked.url}/connectors/{name}",
            )
        until(lambda: set(stage.running) == {"a", "b"})
        until(lambda: all(states(other, name)[0] == "RUNNING" for name in ("a", "b")))
        for name in ("a", "b"):
            assert patient("POST", f"/connectors/{name}/restart").status == 204
            assert patient("POST", f"/connectors/{name}/tasks/1/restart").status == 204
            assert stage.running[name].restarts == [(False, False), 1]
        assert patient("PUT", "/connectors/a/stop").status == 204
        until(lambda: states(other, "a") == ("STOPPED", []))
        assert patient("DELETE", "/connectors/b").status == 204
        until(lambda: set(stage.running) == set())
        words = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
        path = "/connectors/a?forward=false"
        until(lambda: other("DELETE", path).words == (409, words))
