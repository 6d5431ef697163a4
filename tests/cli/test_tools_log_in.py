"""Every tool and every verb logs in by --command-config, and reports a failed login."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.cli.app import main as ottla
from ottla.testing import LocalCluster

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLACE = ["--bootstrap-server", "PLACE"]
CONFIG = ["--command-config", "CONFIG"]
TOPIC = ["--topic", "door"]

# Tool -> the command line around the place and the file. `TOPICS`, `RECORDS`: files.
TOOLS: Mapping[str, list[str]] = {
    "topics": ["--list", *CONFIG],
    "configs": ["--describe", "--entity-type", "topics", "--entity-name", "door", *CONFIG],
    "consumer_groups": ["--list", *CONFIG],
    "share_groups": ["--list", *CONFIG],
    "groups": ["--list", *CONFIG],
    "get_offsets": [*TOPIC, *CONFIG],
    "delete_records": ["--offset-json-file", "RECORDS", *CONFIG],
    "broker_api_versions": [*CONFIG],
    "reassign_partitions": ["--list", *CONFIG],
    "leader_election": [
        *("--election-type", "preferred", "--all-topic-partitions"),
        *CONFIG,
    ],
    "cluster": ["cluster-id", *CONFIG],
    "transactions": [*CONFIG, "list"],
    "features": [*CONFIG, "describe"],
    "streams_groups": ["--list", *CONFIG],
    "acls": ["--list", *CONFIG],
    "delegation_tokens": ["--describe", *CONFIG],
    "streams_application_reset": ["--application-id", "door", "--dry-run", *CONFIG],
    "console_producer": [*TOPIC, *CONFIG],
    "console_consumer": [*TOPIC, "--from-beginning", "--max-messages", "1", *CONFIG],
    "producer_perf_test": [
        *TOPIC,
        *("--num-records", "1", "--throughput", "-1", "--record-size", "10"),
        *CONFIG,
    ],
    "consumer_perf_test": [*TOPIC, "--num-records", "1", *CONFIG],
    "e2e_latency": [
        *TOPIC,
        *("--num-records", "1", "--producer-acks", "1", "--record-size", "9"),
        *CONFIG,
    ],
    "verifiable_producer": [*TOPIC, "--max-messages", "1", *CONFIG],
    "verifiable_consumer": [
        *TOPIC,
        *("--group-id", "door", "--max-messages", "1", "--reset-policy", "earliest"),
        *CONFIG,
    ],
    "verifiable_share_consumer": [
        *TOPIC,
        *("--group-id", "queue", "--max-messages", "1", "--offset-reset-strategy", "earliest"),
        *CONFIG,
    ],
    "share_consumer_perf_test": [
        *TOPIC,
        *("--num-records", "1", "--group", "fast-queue", "--timeout", "1000"),
        *CONFIG,
    ],
    "log_dirs": ["--describe", *CONFIG],
    "client_metrics": ["--list", *CONFIG],
}
# The same files by their old names, and single settings.
OLD_NAMES: Mapping[str, tuple[str, list[str]]] = {
    "console_producer --producer.config": ("console_producer", [*TOPIC, "--producer.config"]),
    "console_consumer --consumer.config": (
        "console_consumer",
        [*TOPIC, "--from-beginning", "--max-messages", "1", "--consumer.config"],
    ),
    "producer_perf_test --producer.config": (
        "producer_perf_test",
        [*TOOLS["producer_perf_test"][:-2], "--producer.config"],
    ),
    "consumer_perf_test --consumer.config": (
        "consumer_perf_test",
        [*TOPIC, "--num-records", "1", "--consumer.config"],
    ),
    "streams_application_reset --config-file": (
        "streams_application_reset",
        ["--application-id", "door", "--dry-run", "--config-file"],
    ),
    "leader_election --admin.config": (
        "leader_election",
        [*TOOLS["leader_election"][:-2], "--admin.config"],
    ),
    "cluster --config": ("cluster", ["cluster-id", "--config"]),
}
VERBS: Mapping[str, list[str]] = {
    "topics": ["topics", "list"],
    "configs": ["configs", "show", "topic:door"],
    "groups": ["groups", "list"],
    "transactions": ["transactions", "list"],
    "produce": ["produce", "door", "hello"],
    "consume": ["consume", "door", "--from", "beginning", "-n", "1"],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:alice;User:broker",
        "delegation.token.secret.key": "of-all-brokers",
    }
    with LocalCluster(config=config, security="sasl_ssl", users={"alice": "right"}) as found:
        found.create_topic("door", 1)
        with found.producer(value=str) as producer:
            producer.send("door", "first").result(60)
        yield found


@pytest.fixture(scope="module")
def files(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("command-config")
    trust = cluster.client_settings()["ssl.ca.location"]
    for name, password in (("right", "right"), ("wrong", "hunter3")):
        (folder / name).write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={MODULE} required \\\n  username="alice" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={trust}\n"
        )
    deletion = {"partitions": [{"topic": "door", "partition": 0, "offset": 0}], "version": 1}
    (folder / "records.json").write_text(json.dumps(deletion))
    return {
        "PLACE": cluster.bootstrap_servers,
        "RIGHT": str(folder / "right"),
        "WRONG": str(folder / "wrong"),
        "RECORDS": str(folder / "records.json"),
    }


class _Input(io.StringIO):
    """What the console producer reads: bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = io.BytesIO(b"typed\n")


def _run(
    tool: str, words: list[str], files: dict[str, str], config: str, monkeypatch: pytest.MonkeyPatch
) -> int:
    monkeypatch.setattr(sys, "stdin", _Input())
    known = {**files, "CONFIG": files[config]}
    place = [] if tool == "cluster" else PLACE
    if tool == "cluster":
        words = [words[0], *PLACE, *words[1:]]
    main = importlib.import_module(f"ottla.cli.kafka.{tool}").main
    code: int = main([known.get(word, word) for word in (*place, *words)])
    return code


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_of_kafka_logs_in(
    tool: str,
    files: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _run(tool, TOOLS[tool], files, "RIGHT", monkeypatch) == 0, capfd.readouterr().err
    _run(tool, TOOLS[tool], files, "WRONG", monkeypatch)
    output = capfd.readouterr()
    assert "authentication as User:alice by PLAIN failed at" in output.out + output.err
    assert "hunter3" not in output.out + output.err


@pytest.mark.parametrize("case", OLD_NAMES)
def test_old_names_of_the_option_are_taken(
    case: str,
    files: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool, words = OLD_NAMES[case]
    code = _run(tool, [*words, "CONFIG"], files, "RIGHT", monkeypatch)
    assert code == 0, capfd.readouterr().err


@pytest.mark.parametrize("option", ["--command-property", "--producer-property"])
def test_a_setting_alone_wins_over_the_file(
    option: str,
    files: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = f'sasl.jaas.config={MODULE} required username="alice" password="right";'
    words = [*TOPIC, *CONFIG, option, right]
    code = _run("console_producer", words, files, "WRONG", monkeypatch)
    assert code == 0, capfd.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_logs_in(
    verb: str, files: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    place = ["--bootstrap-server", files["PLACE"], "--command-config"]
    assert ottla([*VERBS[verb], *place, files["RIGHT"]]) == 0, capfd.readouterr().err
    assert ottla([*VERBS[verb], *place, files["WRONG"]]) == 1
    output = capfd.readouterr()
    assert "authentication as User:alice by PLAIN failed at" in output.out + output.err


def test_every_tool_that_speaks_to_brokers_is_in_the_table() -> None:
    folder = Path(__file__).parents[2] / "src/ottla/cli/kafka"
    tools = {
        path.stem
        for path in folder.glob("*.py")
        if "def main(" in (text := path.read_text())
        and ("bootstrap-server" in text or "BOOTSTRAP" in text or "bootstrap_server" in text)
    }
    # kafka-metadata-quorum fails with every login, as there is no KRaft quorum.
    known = {*TOOLS, "console_share_consumer", "subcommands", "metadata_quorum"}
    assert tools - known == set(), "a tool without a case here"
