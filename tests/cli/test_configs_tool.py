"""kafka-configs; lines and sentences are those of Apache Kafka 4.3.1's tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka.configs import main, parse_configs
from ottla.client import Admin

Tool = Callable[..., Any]


@pytest.fixture
def configs(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


def test_a_topics_configs(configs: Tool, five: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", five)
    none = configs("--describe", *entity)
    assert none.out == f"Dynamic configs for topic {five} are:\n"
    added = configs(
        "--alter", *entity, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]"
    )
    assert added.out == f"Completed updating config for topic {five}.\n"
    header, policy, retention = configs("--describe", "--topic", five).lines
    assert header == f"Dynamic configs for topic {five} are:"
    assert policy == (
        "  cleanup.policy=compact,delete sensitive=false"
        " synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete,"
        " DEFAULT_CONFIG:log.cleanup.policy=delete}"
    )
    assert retention.startswith(
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000"
    )
    deleted = configs("--alter", "--topic", five, "--delete-config", "retention.ms,cleanup.policy")
    assert deleted.code == 0
    assert len(configs("--describe", "--topic", five).lines) == 1


def test_all_configs_of_a_topic(configs: Tool, five: str) -> None:
    ran = configs("--describe", "--topic", five, "--all")
    assert ran.lines[0] == f"All configs for topic {five} are:"
    assert any(line.startswith("  segment.bytes=1073741824 sensitive=false") for line in ran.lines)
    names = [line.split("=")[0] for line in ran.lines[1:]]
    assert names == sorted(names)


def test_all_topics(configs: Tool, five: str) -> None:
    assert (
        f"Dynamic configs for topic {five} are:"
        in configs("--describe", "--entity-type", "topics").lines
    )


def test_configs_from_a_file(configs: Tool, five: str, tmp_path: Path) -> None:
    file = tmp_path / "topic.properties"
    file.write_text("retention.ms=77\nsegment.bytes=2000000\n")
    assert configs("--alter", "--topic", five, "--add-config-file", str(file)).code == 0
    assert "retention.ms=77" in configs("--describe", "--topic", five).out


def test_a_brokers_configs(configs: Tool, admin: Admin) -> None:
    broker = str(admin.cluster().nodes[0].id)
    changed = configs("--alter", "--broker", broker, "--add-config", "message.max.bytes=2000000")
    assert changed.out == f"Completed updating config for broker {broker}.\n"
    try:
        shown = configs("--describe", "--broker", broker)
        assert shown.lines[0] == f"Dynamic configs for broker {broker} are:"
        assert shown.lines[1].startswith("  message.max.bytes=2000000 sensitive=false synonyms={")
    finally:
        configs("--alter", "--broker", broker, "--delete-config", "message.max.bytes")
    everything = configs("--describe", "--broker", broker, "--all")
    assert any(line.startswith("  num.partitions=") for line in everything.lines)


def test_the_default_of_all_brokers(configs: Tool) -> None:
    flags = ("--entity-type", "brokers", "--entity-default")
    changed = configs("--alter", *flags, "--add-config", "message.max.bytes=3000000")
    assert changed.out == "Completed updating default config for brokers in the cluster.\n"
    try:
        shown = configs("--describe", "--broker-defaults")
        assert shown.lines[0] == "Default configs for brokers in the cluster are:"
        assert "  message.max.bytes=3000000 " in shown.out
    finally:
        configs("--alter", *flags, "--delete-config", "message.max.bytes")


def test_what_does_not_exist_has_no_config(configs: Tool) -> None:
    sentence = "doesn't exist and doesn't have dynamic config.\n"
    assert configs("--describe", "--topic", "no-such").out == f"The topic 'no-such' {sentence}"
    assert configs("--describe", "--broker", "77").out == f"The broker '77' {sentence}"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("nonsense=1", "InvalidConfigurationException: Unknown topic config name: nonsense"),
        (
            "retention.ms=abc",
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_what_the_broker_refuses(configs: Tool, five: str, config: str, sentence: str) -> None:
    ran = configs("--alter", "--topic", five, "--add-config", config)
    assert ran.err.startswith("Error while executing config command with args '--bootstrap-server")
    assert sentence in ran.err
    assert ran.code == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Command must include exactly one action: --describe, --alter"),
        (["--describe", "--alter", "--topic", "t"], "Command must include exactly one action"),
        (["--describe"], "At least one entity type must be specified"),
        (["--describe", "--entity-type", "nonsense"], "Invalid entity type nonsense, the entity"),
        (["--describe", "--broker", "x"], "The entity name for brokers must be a valid integer"),
        (
            ["--describe", "--entity-type", "topics", "--topic", "t"],
            "Duplicate entity type(s) specified: topics",
        ),
        (["--alter", "--topic", "t"], "At least one of --add-config, --add-config-file, or"),
        (
            ["--alter", "--topic", "t", "--add-config", "a=b", "--add-config-file", "f"],
            "Only one of --add-config or --add-config-file must be specified",
        ),
        (["--alter", "--entity-type", "topics", "--add-config", "a=b"], "An entity name or defa"),
        (["--alter", "--topic", "t", "--add-config", "a"], "requirement failed: Invalid entity"),
        (["--alter", "--user", "u", "--add-config", "nonsense=1"], "Only quota and SCRAM"),
    ],
)
def test_wrong_usage(configs: Tool, words: list[str], sentence: str) -> None:
    ran = configs(*words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1


def test_brackets_keep_commas_together() -> None:
    assert parse_configs("a=1,b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}
    assert parse_configs("s=[iterations=8192,password=p]") == {"s": "iterations=8192,password=p"}
    assert parse_configs(None) == {}
