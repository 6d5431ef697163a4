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


def test_an_unknown_resource_has_no_configs(configs: Tool) -> None:
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
def test_errors_of_the_broker_are_printed(
    configs: Tool, five: str, config: str, sentence: str
) -> None:
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


def test_a_groups_configs(configs: Tool, group: str) -> None:
    missing = f"The group '{group}' doesn't exist and doesn't have dynamic config."
    assert configs("--describe", "--group", group).lines == [missing]
    done = configs("--alter", "--group", group, "--add-config", "consumer.session.timeout.ms=50000")
    assert done.lines == [f"Completed updating config for group {group}."]
    title, found = configs("--describe", "--entity-type", "groups", "--entity-name", group).lines
    assert title == f"Dynamic configs for group {group} are:"
    assert found.startswith(
        "  consumer.session.timeout.ms=50000 sensitive=false synonyms="
        "{DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, "
    )
    everything = configs("--describe", "--group", group, "--all").lines
    assert everything[0] == f"All configs for group {group} are:"
    assert len(everything) > 15
    refused = configs("--alter", "--group", group, "--add-config", "share.isolation.level=x")
    assert refused.code == 1
    assert "InvalidConfigurationException: Invalid value x for" in refused.err
    configs("--alter", "--group", group, "--delete-config", "consumer.session.timeout.ms")
    assert configs("--describe", "--group", group).lines == [missing]


def test_client_metrics(configs: Tool, topic: str) -> None:
    set_all = "metrics=[a.,b.],interval.ms=1000,match=[client_id=x.*]"
    done = configs("--alter", "--client-metrics", topic, "--add-config", set_all)
    assert done.lines == [f"Completed updating config for client-metric {topic}."]
    source = "sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:"
    assert configs("--describe", "--client-metrics", topic).lines == [
        f"Dynamic configs for client-metric {topic} are:",
        f"  interval.ms=1000 {source}interval.ms=1000}}",
        f"  match=client_id=x.* {source}match=client_id=x.*}}",
        f"  metrics=a.,b. {source}metrics=a.,b.}}",
    ]
    configs("--alter", "--client-metrics", topic, "--delete-config", "metrics,interval.ms,match")
    assert configs("--describe", "--client-metrics", topic).lines == [
        f"The client-metric '{topic}' doesn't exist and doesn't have dynamic config."
    ]


def test_quotas_of_users_and_clients(configs: Tool, topic: str, group: str) -> None:
    user, client = f"u-{topic}", f"c-{group}"
    both = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients")
    both = (*both, "--entity-name", client)
    rates = "producer_byte_rate=1024,consumer_byte_rate=2048"
    done = configs("--alter", "--client", client, "--add-config", rates)
    assert done.lines == [f"Completed updating config for client {client}."]
    done = configs("--alter", *both, "--add-config", "request_percentage=50")
    assert done.lines == [f"Completed updating config for user {user}."]
    assert configs("--describe", "--client", client).lines == [
        f"Quota configs for client-id '{client}' are"
        " consumer_byte_rate=2048.0, producer_byte_rate=1024.0"
    ]
    assert configs("--describe", *both).lines == [
        f"Quota configs for user-principal '{user}', client-id '{client}' are"
        " request_percentage=50.0"
    ]
    assert configs("--describe", "--user", user).lines == []
    configs("--alter", *both, "--delete-config", "request_percentage")
    again = configs("--alter", *both, "--delete-config", "request_percentage")
    assert (again.code, again.err) == (1, "Invalid config(s): request_percentage\n")
    names = "producer_byte_rate,consumer_byte_rate"
    configs("--alter", "--client", client, "--delete-config", names)
    assert configs("--describe", "--client", client).lines == []


def test_quotas_of_addresses(configs: Tool) -> None:
    configs("--alter", "--ip", "127.9.9.9", "--add-config", "connection_creation_rate=100")
    assert configs("--describe", "--ip", "127.9.9.9").lines == [
        "Quota configs for ip '127.9.9.9' are connection_creation_rate=100.0"
    ]
    configs("--alter", "--ip", "127.9.9.9", "--delete-config", "connection_creation_rate")
    assert configs("--describe", "--ip", "127.9.9.9").lines == []
    strange = configs("--alter", "--ip", "127.9.9.9", "--add-config", "producer_byte_rate=1")
    assert "Only connection quota configs can be added for 'ips'" in strange.err
    nowhere = configs("--describe", "--ip", "1.2.3.400")
    assert "must be a valid IP or resolvable host, but it is: 1.2.3.400" in nowhere.err
