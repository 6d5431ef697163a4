"""kafka-topics; every expected line is one that Apache Kafka 4.3.1's tool prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka.topics import main
from ottla.client import Admin

Tool = Callable[..., Any]


@pytest.fixture
def topics(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


def test_create_confirms_the_topic(topics: Tool, topic: str) -> None:
    words = ("--create", "--replication-factor", "1", "--partitions", "12", "--topic", topic)
    ran = topics(*words)
    assert (ran.out, ran.code) == (f"Created topic {topic}.\n", 0)
    described = topics("--describe", "--topic", topic)
    assert len(described.lines) == 13


def test_a_topic_that_exists(topics: Tool, topic: str) -> None:
    topics("--create", "--topic", topic)
    ran = topics("--create", "--topic", topic)
    assert ran.out == (f"Error while executing topic command : Topic '{topic}' already exists.\n")
    assert "org.apache.kafka.common.errors.TopicExistsException" in ran.err
    assert ran.code == 1
    again = topics("--create", "--topic", topic, "--if-not-exists")
    assert (again.out, again.code) == ("", 0)


def test_periods_and_underscores_cause_a_warning(topics: Tool, topic: str) -> None:
    ran = topics("--create", "--topic", f"{topic}.a_b")
    assert ran.lines[0].startswith("WARNING: Due to limitations in metric names, topics with a")
    assert ran.lines[1] == f"Created topic {topic}.a_b."


def test_describe_has_kafkas_columns(topics: Tool, topic: str) -> None:
    configs = ("--config", "retention.ms=1000", "--config", "cleanup.policy=compact,delete")
    topics("--create", "--topic", topic, "--partitions", "2", *configs)
    first, *parts = topics("--describe", "--topic", topic).lines
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1"
        r"\tConfigs: .*cleanup.policy=compact,delete,.*retention.ms=1000.*|"
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1"
        r"\tConfigs: .*retention.ms=1000.*cleanup.policy=compact,delete.*",
        first,
    )
    for number, line in enumerate(parts):
        assert re.fullmatch(
            rf"\tTopic: {topic}\tPartition: {number}\tLeader: (\d+)\tReplicas: \1\tIsr: \1"
            r"\tElr: (N/A)?\tLastKnownElr: (N/A)?",
            line,
        )


def test_describe_by_id(topics: Tool, topic: str) -> None:
    topics("--create", "--topic", topic)
    found = re.search(r"TopicId: (\S+)", topics("--describe", "--topic", topic).out)
    assert found is not None
    assert f"Topic: {topic}\t" in topics("--describe", "--topic-id", found[1]).out
    wrong = topics("--describe", "--topic-id", "zzz")
    assert "decoded as 2 bytes" in wrong.out
    unknown = topics("--describe", "--topic-id", "AQAAAAAAAAAAAAAAAAAAAQ")
    assert "TopicId 'AQAAAAAAAAAAAAAAAAAAAQ' does not exist as expected" in unknown.out


def test_the_reports_of_describe(topics: Tool, topic: str) -> None:
    topics("--create", "--topic", topic, "--partitions", "2", "--config", "segment.ms=60000")
    plain = ("--describe", "--topic", topic)
    assert topics(*plain, "--under-replicated-partitions").out == ""
    assert topics(*plain, "--unavailable-partitions").out == ""
    assert topics(*plain, "--under-min-isr-partitions").out == ""
    at_minimum = topics(*plain, "--at-min-isr-partitions")
    assert [line.split("\t")[2] for line in at_minimum.lines] == ["Partition: 0", "Partition: 1"]
    overridden = topics(*plain, "--topics-with-overrides")
    assert len(overridden.lines) == 1
    assert "segment.ms=60000" in overridden.out


def test_list_takes_a_pattern_for_whole_names(topics: Tool, topic: str) -> None:
    for name in (topic, f"{topic}-b"):
        topics("--create", "--topic", name)
    assert topics("--list", "--topic", f"{topic}.*").lines == [topic, f"{topic}-b"]
    assert topics("--list", "--topic", topic).lines == [topic]
    assert topic in topics("--list", "--exclude-internal").lines
    assert topics("--list", "--topic", "no-such").out == "\n"


def test_alter_gives_more_partitions(topics: Tool, admin: Admin, topic: str) -> None:
    topics("--create", "--topic", topic, "--partitions", "3")
    assert topics("--alter", "--topic", topic, "--partitions", "5").out == ""
    less = topics("--alter", "--topic", topic, "--partitions", "2")
    assert less.out == (
        f"Error while executing topic command : The topic {topic} currently has 5 partition(s);"
        " 2 would not be an increase.\n"
    )
    same = topics("--alter", "--topic", topic, "--partitions", "5")
    assert same.out.endswith("Topic already has 5 partition(s).\n")


def test_replicas_can_be_assigned_by_hand(topics: Tool, admin: Admin, topic: str) -> None:
    broker = admin.cluster().nodes[0].id
    created = topics("--create", "--topic", topic, "--replica-assignment", f"{broker},{broker}")
    assert created.code == 0
    words = ("--partitions", "3", "--replica-assignment", ",".join([str(broker)] * 3))
    assert topics("--alter", "--topic", topic, *words).code == 0
    twice = topics("--create", "--topic", f"{topic}-2", "--replica-assignment", "1:1")
    assert "Partition replica lists may not contain duplicate entries: 1" in twice.out


def test_delete(topics: Tool, topic: str) -> None:
    topics("--create", "--topic", topic)
    gone = topics("--delete", "--topic", topic)
    assert (gone.out, gone.code) == ("", 0)
    assert topics("--delete", "--topic", topic, "--if-exists").code == 0


@pytest.mark.parametrize("action", ["--describe", "--delete", "--alter"])
def test_a_topic_that_does_not_exist(topics: Tool, action: str) -> None:
    words = (action, "--topic", "no-such", *(("--partitions", "5") if action == "--alter" else ()))
    ran = topics(*words)
    assert ran.lines == [
        "Error while executing topic command : Topic 'no-such' does not exist as expected"
    ]
    assert ran.code == 1
    assert topics(*words, "--if-exists").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--config", "nonsense=1"], "Unknown topic config name: nonsense"),
        (
            ["--config", "retention.ms=abc"],
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (["--config", "retention.ms"], 'all configs to be added must be in the format "key=val".'),
        (["--partitions", "0"], "The partitions must be greater than 0"),
        (["--partitions", "x"], "Cannot parse argument 'x' of option partitions"),
        (["--replication-factor", "40000"], "between 1 and 32767 inclusive"),
        (["--replication-factor", "99"], "replication factor"),
    ],
)
def test_create_refuses_invalid_topics(
    topics: Tool, topic: str, words: list[str], sentence: str
) -> None:
    ran = topics("--create", "--topic", topic, *words)
    assert ran.out.startswith("Error while executing topic command : ")
    assert sentence in ran.out
    assert ran.code == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Command must include exactly one action: --list, --describe, --create, --alter"),
        (["--list", "--create"], "Command must include exactly one action"),
        (["--create"], 'Missing required argument "[topic]"'),
        (["--alter", "--topic", "x"], 'Missing required argument "[partitions]"'),
        (["--list", "--partitions", "3"], 'Option "[partitions]" can\'t be used with option'),
        (["--list", "--if-not-exists"], 'Option "[if-not-exists]" can\'t be used with option'),
        (
            ["--create", "--topic", "x", "--under-replicated-partitions"],
            'Option "[under-replicated-partitions]" can\'t be used with option "[create]"',
        ),
        (
            ["--create", "--topic", "x", "--replica-assignment", "1", "--partitions", "2"],
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        (["--list", "--nonsense"], "nonsense is not a recognized option"),
    ],
)
def test_wrong_usage_shows_the_usage(topics: Tool, words: list[str], sentence: str) -> None:
    ran = topics(*words)
    assert ran.err.startswith(sentence)
    assert "--bootstrap-server <server>" in ran.err
    assert (ran.out, ran.code) == ("", 1)


def test_without_a_server(run: Tool) -> None:
    assert run(main, "--list").err.startswith("--bootstrap-server must be specified")


def test_help_and_version(run: Tool) -> None:
    assert "--under-min-isr-partitions" in run(main, "--help").err
    assert re.fullmatch(r"4\.4-ottla-\d+\.\d+\.\d+\n", run(main, "--version").out)


def test_an_unreachable_broker_is_reported(run: Tool) -> None:
    ran = run(main, "--list", "--bootstrap-server", "localhost:1")
    assert "cannot reach localhost:1: Connection refused" in ran.out
    assert ran.code == 1


def test_settings_come_from_a_file(topics: Tool, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=from-a-file\nsecurity.protocol=PLAINTEXT\n")
    assert topics("--list", "--command-config", str(file)).code == 0
    missing = topics("--list", "--command-config", "/no/such/file")
    assert "/no/such/file" in missing.err
    assert missing.code == 1
