"""A suite of three made-up tests on a real broker: what the runner does with any suite."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.clusters import Cluster
from suites.__main__ import is_named
from suites.catalogue import SUITES
from suites.outcomes import Outcome, Outcomes
from suites.security import SuiteSecurity
from suites.sources import STAND_INS, MissingError, version_of
from suites.suite import Run, Step, Suite

from suites import brokers, compose, runner

PROGRAM = """
import os, sys
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
servers = {"bootstrap.servers": sys.argv[1]}
failed = []
def delivered(error, message):
    if error: failed.append(error)
producer = Producer(servers)
producer.produce("beer", b"one", on_delivery=delivered)
print("passed" if producer.flush(30) == 0 and not failed else "failed", "produce")
topic = AdminClient(servers).list_topics("beer", timeout=30).topics["beer"]
print("passed" if len(topic.partitions) == 7 else "failed", "settings")
print("failed own")
"""


class Here:
    """Sources that exist, or not."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem

    def where(self) -> str:
        return "here"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        if self.problem:
            raise MissingError(self.problem)


def read_words(output: str) -> Outcomes:
    return {
        name: Outcome(verdict)  # type: ignore[arg-type]
        for verdict, name in (line.split() for line in output.splitlines() if line)
    }


def made_up(program: str = PROGRAM, problem: str = "", **more: object) -> Suite:
    def steps(run: Run, left_out: dict[str, str]) -> list[Step]:
        return [Step([sys.executable, "-c", program, run.bootstrap], run.folder, read_words)]

    settings = {"num.partitions": "7", "auto.create.topics.enable": "true"}
    return Suite("made up", Here(problem), steps, settings, **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FOLDER", tmp_path / "suites")
    monkeypatch.setattr(compose, "kafka_jars", lambda: tmp_path)


def test_a_run_starts_a_broker_with_the_settings_and_judges_each_test() -> None:
    said: list[str] = []
    result = runner.run_suite(made_up(), 1, "ottla", checkouts=None, say=said.append)
    assert result.troubles == []
    assert (result.passed, [failure.test for failure in result.unknown]) == (2, ["own"])
    assert any("2 passed, 1 failed" in line for line in said)
    log = next(runner.FOLDER.glob("runs/*/brokers/node-1/server.log"))
    assert "Shut down completed" in log.read_text()
    assert not (log.parent / "data").exists()


def test_a_run_that_takes_too_long_is_ended_and_says_so() -> None:
    slow = "import time; print('passed one', flush=True); time.sleep(600)"
    result = runner.run_suite(
        made_up(slow, limit_s=8), 1, "ottla", checkouts=None, say=lambda _: None
    )
    assert result.passed == 1
    assert [trouble for trouble in result.troubles if "limit" in trouble]


def test_missing_sources_and_taken_ports_are_reported() -> None:
    missing = made_up(problem="set SUITE_SOURCES")
    result = runner.run_suite(missing, 1, "ottla", checkouts=None, say=lambda _: None)
    assert result.not_run == "set SUITE_SOURCES"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        suite = made_up(ports=(taken.getsockname()[1],))
        result = runner.run_suite(suite, 1, "ottla", checkouts=None, say=lambda _: None)
    assert "is taken" in result.not_run


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with brokers.running("ottla", made_up(), 1, tmp_path / "brokers") as started:
        yield started.cluster


def test_the_docker_substitute_stops_and_starts_a_broker(cluster: Cluster, tmp_path: Path) -> None:
    environment = {
        **os.environ, "SUITE_CONTROL": str(tmp_path / "c"), "SUITE_TOOLS": str(tmp_path),
    }  # fmt: skip

    def docker(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [STAND_INS / "docker", *words], env=environment, capture_output=True, text=True
        )

    with compose.control(tmp_path / "c", cluster):
        assert docker("compose", "stop", "kafka-1").returncode == 0
        assert cluster.nodes[1].server is None
        assert docker("compose", "start", "kafka-1").returncode == 0
        assert cluster.nodes[1].server is not None
        assert "Shut down completed" in docker("compose", "logs", "--since", "x", "kafka-1").stdout
        assert docker("compose", "stop", "kafka-7").returncode == 1
        (tmp_path / "bin").mkdir()
        tool = tmp_path / "bin" / "kafka-topics.sh"
        tool.write_text('#!/bin/sh\necho "$@"\n')
        tool.chmod(0o755)
        said = docker("exec", "id", "bash", "-c", "kafka-topics --zookeeper zookeeper:2181 --list")
        assert said.stdout == f"--bootstrap-server 127.0.0.1:{cluster.nodes[1].port} --list\n"


def test_replicas_are_as_many_as_there_are_brokers() -> None:
    assert brokers.capped("offsets.topic.replication.factor", "3", 1) == "1"
    assert brokers.capped("transaction.state.log.min.isr", "2", 3) == "2"
    assert brokers.capped("num.partitions", "4", 1) == "4"


def test_brokers_behind_a_proxy_reach_each_other_directly(tmp_path: Path) -> None:
    place = brokers.BrokerAddress(1000, 2000, "127.0.0.1:29091", secured_ports={})
    lines = brokers.properties(made_up(), 2, 3, place, tmp_path)
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:1000,INTERNAL://127.0.0.1:2000"
    assert lines["advertised.listeners"] == (
        "PLAINTEXT://127.0.0.1:29091,INTERNAL://127.0.0.1:2000"
    )
    assert lines["inter.broker.listener.name"] == "INTERNAL"


SECURED_PROGRAM = """
import sys
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
servers, ca, mechanism, user, password = sys.argv[1:]
admin = AdminClient({
    "bootstrap.servers": servers, "security.protocol": "SASL_SSL", "ssl.ca.location": ca,
    "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password, "log_level": 0,
})
try:
    topics = admin.list_topics(timeout=float(10))
except KafkaException:
    print("failed", mechanism)
else:
    print("passed", mechanism)
"""


def test_secured_listeners_know_the_users_of_the_suite() -> None:
    def steps(run: Run, left_out: dict[str, str]) -> list[Step]:
        reach = [*run.secured["SASL_SSL"], str(run.certificates / "ca.pem")]
        command = [sys.executable, "-c", SECURED_PROGRAM, *reach]
        return [
            Step([*command, "PLAIN", "bob", "bobbob"], run.folder, read_words),
            Step([*command, "SCRAM-SHA-256", "al=ice", "a,b=c"], run.folder, read_words),
            Step([*command, "SCRAM-SHA-512", "al=ice", "a,b=c"], run.folder, read_words),
        ]

    secured = SuiteSecurity(
        ("SASL_SSL",), users={"bob": "bobbob"}, scram_users=(("al=ice", "SCRAM-SHA-256", "a,b=c"),)
    )
    suite = Suite("made up", Here(), steps, secured=secured)
    result = runner.run_suite(suite, 1, "ottla", checkouts=None, say=lambda _: None)
    assert result.troubles == []
    # It has no password for SHA-512.
    assert (result.passed, [failure.test for failure in result.failures]) == (2, ["SCRAM-SHA-512"])


def test_a_suite_is_chosen_by_its_whole_name_or_by_the_beginning() -> None:
    def chosen(only: str) -> list[str]:
        return [suite.name for suite in SUITES if is_named(suite, only)]

    assert chosen("franz-go") == ["franz-go"]
    assert chosen("franz-go, SSL,sarama") == ["franz-go, SSL", "sarama"]
    assert chosen("kafka-") == ["kafka-go", "kafka-python"]


@pytest.mark.parametrize("text", ['__version__ = "1.2"', '[project]\nname = "x"\nversion = "1.2"'])
def test_the_version_of_a_checkout_is_found(text: str) -> None:
    assert version_of(text) == "1.2"
