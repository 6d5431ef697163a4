"""Our verifiable clients, kafka-log-dirs and kafka-client-metrics print what Kafka's own do."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from compat_confluent import make_topic
from compat_tools import TOOL_TIMEOUT_S, run

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]


def ours(module: str, *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", f"ottla.cli.kafka.{module}", *words],
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def shape(line: str) -> str:
    """Without what differs from run to run: times, rates, offsets."""
    return re.sub(
        r'("(?:timestamp|avg_throughput|offset|minOffset|maxOffset)"):[\d.]+', r"\1", line
    )


def shapes(lines: list[str]) -> list[str]:
    return [shape(line) for line in lines if line.startswith("{")]


def test_producers_print_the_same(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, 1)
    words = ("--bootstrap-server", bootstrap, "--topic", topic_name, "--max-messages", "3")
    for more in ((), ("--repeating-keys", "2", "--value-prefix", "9", "--throughput", "100")):
        theirs = run("VerifiableProducer", *words, *more).lines
        assert shapes(ours("verifiable_producer", *words, *more)) == shapes(theirs)


def test_failures_have_the_same_fields(bootstrap: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", "bad topic", "--max-messages", "1")
    theirs = run("VerifiableProducer", *words).lines

    def without_message(lines: list[str]) -> list[str]:
        return [re.sub(r'"message":".*"', '"message"', line) for line in shapes(lines)]

    assert without_message(ours("verifiable_producer", *words)) == without_message(theirs)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumers_print_the_same(bootstrap: str, topic_name: str, protocol: str) -> None:
    make_topic(bootstrap, topic_name, 1)
    words = ("--bootstrap-server", bootstrap, "--topic", topic_name, "--max-messages", "3")
    ours("verifiable_producer", *words)
    more = ("--verbose", "--group-protocol", protocol, "--group-id")
    theirs = run("VerifiableConsumer", *words, *more, f"theirs-{topic_name}").lines
    assert shapes(ours("verifiable_consumer", *words, *more, f"ours-{topic_name}")) == shapes(
        theirs
    )


def test_log_directories_are_printed_the_same(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, 1)
    words = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", topic_name)
    assert ours("log_dirs", *words) == run("LogDirsCommand", *words).lines


def test_client_metrics_are_printed_the_same(bootstrap: str, topic_name: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    name = ("--name", topic_name)
    alter = ("--alter", *name, "--interval", "1000", "--metrics", "a,b")
    for words in (alter, ("--describe", *name), ("--list",), ("--delete", *name)):
        line = (*server, *words)
        assert ours("client_metrics", *line) == run("ClientMetricsCommand", *line).lines
