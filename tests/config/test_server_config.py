"""The broker's configuration: layers, synonyms, listeners, and invalid values of every kind."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest

from ottla.config import (
    BROKER_CONFIGS,
    ConfigError,
    ConfigType,
    ListenerSettings,
    ServerConfig,
    UpdateMode,
    ValueSource,
    advertise,
    definition_of,
    format_value,
    tls_settings,
)
from ottla.config.listener_settings import PER_LISTENER

PYTHON_TYPES = {
    ConfigType.BOOLEAN: "bool",
    ConfigType.STRING: "str",
    ConfigType.PASSWORD: "str",
    ConfigType.INT: "int",
    ConfigType.SHORT: "int",
    ConfigType.LONG: "int",
    ConfigType.DOUBLE: "float",
    ConfigType.LIST: "tuple[str, ...]",
}
RESOLVED = {
    "listeners",
    "advertised_listeners",
    "listener_security_protocol_map",
    "max_connections_per_ip_overrides",
    "inter_broker_listener_name",
    "log_dirs",
    "log_roll_ms",
    "log_roll_jitter_ms",
    "log_retention_ms",
    "log_flush_interval_ms",
}
"""Attributes that are made of several properties, and so have a type of their own."""
FOLDED = {"broker.id", "log.dir", "log.roll.hours", "log.roll.jitter.hours"} | {
    "log.retention.minutes",
    "log.retention.hours",
}
"""Properties that only feed another one's attribute."""


def test_every_used_property_has_an_attribute_of_its_type() -> None:
    declared = ServerConfig.__annotations__
    for name, definition in BROKER_CONFIGS.items():
        attribute = name.replace(".", "_")
        if not definition.used or name in FOLDED or name.startswith(PER_LISTENER):
            assert attribute not in declared, name
        elif attribute not in RESOLVED:
            optional = " | None" if definition.default is None else ""
            assert declared[attribute] == PYTHON_TYPES[definition.type] + optional, name
    used = {name.replace(".", "_") for name, config in BROKER_CONFIGS.items() if config.used}
    assert set(declared) <= used


def test_the_attributes_hold_what_they_declare() -> None:
    config = ServerConfig({})
    for name, hint in typing.get_type_hints(ServerConfig).items():
        value = getattr(config, name)
        origin = typing.get_origin(hint) or hint
        if origin in (bool, int, float, str, tuple, dict):
            assert isinstance(value, origin), name
        else:
            assert value is None or isinstance(value, str), name


@pytest.mark.parametrize("definition", BROKER_CONFIGS.values(), ids=lambda config: config.name)
def test_every_default_is_legal_and_reads_back(definition: typing.Any) -> None:
    text = format_value(definition.default)
    if text is not None:
        assert definition.parse(text) == definition.default
    assert definition.doc


def test_defaults_suit_a_laptop() -> None:
    config = ServerConfig({})
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.advertised_listeners == config.listeners
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.node_id == 0
    assert config.offsets_topic_replication_factor == 1
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.log_retention_ms == 7 * 24 * 3600 * 1000
    assert config.unknown == ()
    assert config.notes == ()


WRONG = [
    ({"num.partitions": "many"}, "num.partitions", "Not a number of type INT"),
    ({"num.partitions": "0"}, "num.partitions", "Value must be at least 1"),
    ({"num.partitions": "2147483648"}, "num.partitions", "Not a number of type INT"),
    ({"num.partitions": "1_0"}, "num.partitions", "Not a number of type INT"),
    ({"num.partitions": ""}, "num.partitions", "Not a number of type INT"),
    (
        {"offsets.topic.replication.factor": "40000"},
        "offsets.topic.replication.factor",
        "Not a number of type SHORT",
    ),
    ({"log.cleaner.min.cleanable.ratio": "1.5"}, "log.cleaner.min.cleanable.ratio", "no more than"),
    ({"log.cleaner.min.cleanable.ratio": "x"}, "log.cleaner.min.cleanable.ratio", "DOUBLE"),
    ({"delete.topic.enable": "yes"}, "delete.topic.enable", "either true or false"),
    ({"compression.type": "rar"}, "compression.type", "String must be one of"),
    ({"compression.gzip.level": "0"}, "compression.gzip.level", "between 1 and 9"),
    ({"log.cleanup.policy": "delete,burn"}, "log.cleanup.policy", "String must be one of"),
    ({"log.cleanup.policy": "delete,delete"}, "log.cleanup.policy", "duplicated"),
    ({"log.dirs": ""}, "log.dirs", "must not be empty"),
    ({"log.dirs": "/a,,/b"}, "log.dirs", "must not be empty"),
    ({"log.segment.bytes": "1000"}, "log.segment.bytes", "Value must be at least 1048576"),
    ({"log.retention.ms": "0"}, "log.retention.ms", "unlimited (-1)"),
    ({"log.retention.hours": "0"}, "log.retention.ms", "unlimited (-1)"),
    ({"log.roll.ms": "0"}, "log.roll.ms", "Value must be at least 1"),
    ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms", "Value must be at least 0"),
    ({"node.id": "1", "broker.id": "2"}, "broker.id", "differ"),
    ({"node.id": "-1"}, "node.id", "Value must be at least 0"),
    ({"listeners": ""}, "listeners", "must not be empty"),
    ({"listeners": "localhost:9092"}, "listeners", "not of the form"),
    ({"listeners": "PLAINTEXT://localhost"}, "listeners", "not of the form"),
    ({"listeners": "PLAINTEXT://localhost:70000"}, "listeners", "not of the form"),
    ({"listeners": "PLAINTEXT://::1:9092"}, "listeners", "not of the form"),
    ({"listeners": "INSIDE://:9092"}, "listeners", "no security protocol"),
    ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners", "different name"),
    ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "listeners", "different port"),
    ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners", "not an address"),
    ({"advertised.listeners": "SSL://h:9092"}, "advertised.listeners", "must be among"),
    ({"inter.broker.listener.name": "SSL"}, "inter.broker.listener.name", "must be one of"),
    ({"listener.security.protocol.map": "A:B"}, "listener.security.protocol.map", "not NAME:"),
    ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes", "must not be less"),
    ({"max.connections.per.ip": "0"}, "max.connections.per.ip", "can be zero only"),
    ({"max.connections.per.ip.overrides": "h:x"}, "max.connections.per.ip.overrides", "form"),
    ({"group.min.session.timeout.ms": "1800001"}, "group.min.session.timeout.ms", "not be more"),
    (
        {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
        "log.cleaner.min.compaction.lag.ms",
        "must not be more",
    ),
    (
        {"connections.max.idle.ms": "50"},
        "connection.failed.authentication.delay.ms",
        "must be less than",
    ),
    (
        {"listeners": "SSL://:9093", "security.inter.broker.protocol": "PLAINTEXT"},
        "security.inter.broker.protocol",
        "must be one of the advertised listeners: SSL",
    ),
    (
        {"security.inter.broker.protocol": "SSL", "inter.broker.listener.name": "PLAINTEXT"},
        "inter.broker.listener.name",
        "only one of it and security.inter.broker.protocol",
    ),
    (
        {"listeners": "SASL_SSL://:9093", "sasl.mechanism.inter.broker.protocol": "PLAIN"},
        "sasl.mechanism.inter.broker.protocol",
        "that listener SASL_SSL enables: GSSAPI",
    ),
    ({"authorizer.class.name": "x.Y"}, "authorizer.class.name", "the authorizer is built in"),
    (
        {"zookeeper.connect": "h:2181", "zookeeper.set.acl": "true"},
        "zookeeper.set.acl",
        "needs SASL or a TLS keystore",
    ),
    (
        {"zookeeper.ssl.truststore.type": "JKS"},
        "zookeeper.ssl.truststore.type",
        "String must be one of",
    ),
    ({"num.io.threads": "0"}, "num.io.threads", "Value must be at least 1"),
    ({"process.roles": "clown"}, "process.roles", "String must be one of"),
]


@pytest.mark.parametrize(("properties", "name", "reason"), WRONG)
def test_a_wrong_value_is_refused_by_name(
    properties: dict[str, str], name: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ServerConfig(properties)
    assert [problem[0] for problem in caught.value.problems] == [name]
    assert reason in str(caught.value)
    assert f"for configuration {name}:" in str(caught.value)


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ServerConfig({"num.partitions": "x", "listeners": "", "fetch.max.bytes": "1"})
    names = {problem[0] for problem in caught.value.problems}
    assert names == {"num.partitions", "listeners", "fetch.max.bytes"}


def test_an_invalid_secret_is_not_shown() -> None:
    config = ServerConfig({"ssl.key.password": "tell-nobody"})
    assert config.settings("ssl.key.password")[0].value is None


def test_unknown_names_are_collected_and_known_families_are_not() -> None:
    config = ServerConfig(
        {
            "no.such.thing": "1",
            "num.io.threads": "4",
            "listener.name.internal.ssl.key.password": "x",
            "inter.broker.protocol.version": "3.9",
            "zookeeper.clientCnxnSocket": "x.Y",
            "unstable.api.versions.enable": "true",
        }
    )
    assert config.unknown == ("no.such.thing",)
    assert config.notes == (
        "set, and not used here: num.io.threads, inter.broker.protocol.version",
    )


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"log.retention.hours": "1"}, 3600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_the_finest_unit_of_retention_takes_precedence(
    properties: dict[str, str], expected: int
) -> None:
    assert ServerConfig(properties).log_retention_ms == expected


def test_times_and_directories_fall_back_on_their_synonyms() -> None:
    config = ServerConfig(
        {"log.roll.hours": "2", "log.flush.scheduler.interval.ms": "7", "log.dir": "/a"}
    )
    assert config.log_roll_ms == 7200_000
    assert config.log_flush_interval_ms == 7
    assert config.log_dirs == ("/a",)
    both = ServerConfig({"log.dir": "/a", "log.dirs": "/b, /c"})
    assert both.log_dirs == ("/b", "/c")


def test_broker_id_is_a_synonym_of_node_id() -> None:
    assert ServerConfig({"broker.id": "7"}).node_id == 7
    assert ServerConfig({"node.id": "7", "broker.id": "7"}).node_id == 7
    assert ServerConfig({"broker.id": "-1"}).node_id == 0


def test_listeners_know_names_addresses_and_free_ports() -> None:
    config = ServerConfig(
        {
            "listeners": "INSIDE://[::1]:0, OUTSIDE://:9094",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,outside:plaintext",
            "advertised.listeners": "INSIDE://localhost:0,OUTSIDE://example.org:443",
        }
    )
    inside, outside = config.listeners
    assert (inside.name, inside.host, inside.port) == ("INSIDE", "::1", 0)
    assert str(inside) == "INSIDE://[::1]:0"
    assert (outside.host, outside.port, outside.security_protocol) == ("", 9094, "PLAINTEXT")
    result = advertise(config.advertised_listeners, {"INSIDE": 4711, "OUTSIDE": 9094})
    assert [str(listener) for listener in result] == [
        "INSIDE://localhost:4711",
        "OUTSIDE://example.org:443",
    ]


def test_an_empty_host_is_advertised_by_a_name() -> None:
    config = ServerConfig({"listeners": "PLAINTEXT://:0"})
    (result,) = advertise(config.advertised_listeners, {"PLAINTEXT": 5})
    assert result.host
    assert result.port == 5


def test_a_kraft_file_starts_and_its_controller_is_ignored_with_one_note() -> None:
    config = ServerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
    )
    assert config.unknown == ()
    assert len(config.notes) == 1
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT"]
    assert [listener.name for listener in config.advertised_listeners] == ["PLAINTEXT"]


def test_load_reads_a_file_and_overrides_win(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\nlog.dirs=/a,\\\n  /b\n# remark\n")
    config = ServerConfig.load(path, {"num.partitions": "5"})
    assert config.num_partitions == 5
    assert config.log_dirs == ("/a", "/b")
    with pytest.raises(ConfigError, match="No such file"):
        ServerConfig.load(tmp_path / "missing", {})


def test_dynamic_layers_win_and_every_layer_is_listed() -> None:
    config = ServerConfig({"log.retention.hours": "1", "message.max.bytes": "1"})
    changed = config.with_dynamic(
        default={"log.retention.ms": "5000", "message.max.bytes": "2"},
        broker={"message.max.bytes": "3"},
    )
    assert config.message_max_bytes == 1
    assert changed.message_max_bytes == 3
    assert changed.log_retention_ms == 5000
    settings = [
        (setting.value, setting.source) for setting in changed.settings("message.max.bytes")
    ]
    assert settings == [
        ("3", ValueSource.DYNAMIC_BROKER),
        ("2", ValueSource.DYNAMIC_DEFAULT_BROKER),
        ("1", ValueSource.STATIC_BROKER),
        ("1048588", ValueSource.DEFAULT),
    ]
    retention = [(setting.name, setting.source) for setting in changed.settings("log.retention.ms")]
    assert retention == [
        ("log.retention.ms", ValueSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", ValueSource.STATIC_BROKER),
    ]


def test_update_modes_are_those_of_kafka() -> None:
    for name in ("log.retention.ms", "message.max.bytes", "max.connections", "num.io.threads"):
        assert BROKER_CONFIGS[name].update is UpdateMode.CLUSTER_WIDE
    for name in ("log.retention.hours", "log.dirs", "num.partitions", "node.id"):
        assert BROKER_CONFIGS[name].update is UpdateMode.READ_ONLY


def test_a_broker_of_a_cluster_replicates_the_topics_of_coordinators() -> None:
    """As Kafka does. One that is alone could not."""
    alone = ServerConfig({})
    assert alone.offsets_topic_replication_factor == alone.transaction_state_log_min_isr == 1
    several = {"zookeeper.connect": "localhost:2181"}
    config = ServerConfig(several)
    assert config.offsets_topic_replication_factor == 3
    assert config.transaction_state_log_replication_factor == 3
    assert config.share_coordinator_state_topic_replication_factor == 3
    assert config.transaction_state_log_min_isr == 2
    assert config.share_coordinator_state_topic_min_isr == 2
    (default,) = config.settings("offsets.topic.replication.factor")
    assert (default.value, default.source) == ("3", ValueSource.DEFAULT)
    chosen = ServerConfig({**several, "offsets.topic.replication.factor": "2"})
    assert chosen.offsets_topic_replication_factor == 2


LISTENERS = "OUTSIDE://:9093,PLAINTEXT://:9092"
PROTOCOLS = "OUTSIDE:SASL_SSL,PLAINTEXT:PLAINTEXT"


def test_inter_broker_listener_defaults_to_plaintext_as_in_kafka() -> None:
    properties = {"listeners": LISTENERS, "listener.security.protocol.map": PROTOCOLS}
    assert ServerConfig(properties).inter_broker_listener_name == "PLAINTEXT"
    properties |= {
        "inter.broker.listener.name": "outside",
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    assert ServerConfig(properties).inter_broker_listener_name == "OUTSIDE"


def test_a_listeners_own_property_wins_in_every_layer() -> None:
    static = {"listeners": LISTENERS, "listener.security.protocol.map": PROTOCOLS}
    own = "listener.name.outside.ssl.client.auth"
    config = ServerConfig({**static, own: "required"}, dynamic_broker={"ssl.client.auth": "none"})
    assert ListenerSettings(config, "OUTSIDE").get("ssl.client.auth") == "required"
    assert ListenerSettings(config, "PLAINTEXT").get("ssl.client.auth") == "none"


def test_client_auth_of_sasl_ssl_is_the_listeners_own_only() -> None:
    static = {"listeners": LISTENERS, "listener.security.protocol.map": PROTOCOLS}
    config = ServerConfig({**static, "ssl.client.auth": "required"})
    settings = ListenerSettings(config, "OUTSIDE")
    assert tls_settings(settings, "SSL").client_auth == "required"
    assert tls_settings(settings, "SASL_SSL").client_auth == "none"


def test_properties_of_a_listener_and_a_mechanism_are_known() -> None:
    jaas = definition_of("listener.name.outside.scram-sha-256.sasl.jaas.config")
    assert jaas is BROKER_CONFIGS["sasl.jaas.config"]
    assert definition_of("listener.name.outside.ssl.keystore.location") is not None
    assert definition_of("listener.name.outside.no.such") is None
