"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from admin_broker import NODE_ID, AdminBroker, ScenarioRunner

from ottla.config import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigType, ValueSource
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
ME = str(NODE_ID)


@pytest.fixture
def run(tmp_path: Path) -> ScenarioRunner:
    return ScenarioRunner(tmp_path)


async def create(broker: AdminBroker, name: str, **configs: str) -> None:
    creatable = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    response = await broker.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[creatable]))
    assert response.topics[0].error_code == 0


async def describe(
    broker: AdminBroker,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int | None = None,
    documentation: bool = False,
) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=documentation
    )
    response = await broker.ask(ApiKey.DESCRIBE_CONFIGS, request, version)
    (result,) = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert (result.error_code, result.error_message) == (0, None)
    return {config.name: config for config in result.configs}


async def refused(broker: AdminBroker, kind: int, name: str) -> ErrorCode:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name)
    request = DescribeConfigsRequest(resources=[resource])
    response = await broker.ask(ApiKey.DESCRIBE_CONFIGS, request)
    return ErrorCode(response.results[0].error_code)


def layers(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, str]]:
    return [
        (synonym.name, synonym.value, ValueSource(synonym.source).name)
        for synonym in config.synonyms
    ]


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_topic_configs_has_all_of_them_with_sources(
    run: ScenarioRunner, version: int
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t", retention_ms="7")
        found = await describe(broker, TOPIC, "t", version=version, documentation=version >= 3)
        assert set(found) == {
            config.name for config in TOPIC_CONFIGS.values() if not config.internal
        }
        retention = found["retention.ms"]
        assert (retention.value, retention.config_source) == ("7", ValueSource.DYNAMIC_TOPIC)
        assert layers(retention) == [
            ("retention.ms", "7", "DYNAMIC_TOPIC"),
            ("log.retention.minutes", "5", "STATIC_BROKER"),
        ]
        size = found["max.message.bytes"]
        assert (size.value, size.config_source) == ("1048588", ValueSource.DEFAULT)
        assert layers(size) == [("message.max.bytes", "1048588", "DEFAULT")]
        assert not any(config.read_only or config.is_sensitive for config in found.values())
        if version >= 3:
            assert retention.config_type == ConfigType.LONG
            assert all(config.documentation for config in found.values())

    run(scenario, log_retention_minutes="5")


def test_describe_takes_a_topics_defaults_from_the_broker(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t")
        found = await describe(broker, TOPIC, "t", ["retention.ms", "nonsense"])
        assert set(found) == {"retention.ms"}
        assert found["retention.ms"].value == "300000"
        assert found["retention.ms"].config_source == ValueSource.STATIC_BROKER
        assert found["retention.ms"].documentation is None

    run(scenario, log_retention_minutes="5")


def test_describe_broker_configs_has_all_of_them_and_hides_secrets(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        found = await describe(broker, BROKER, ME)
        defined = {config.name for config in BROKER_CONFIGS.values() if not config.internal}
        assert set(found) == defined | {"no.such.thing"}
        assert (found["node.id"].value, found["node.id"].read_only) == (ME, True)
        assert found["node.id"].config_source == ValueSource.STATIC_BROKER
        assert found["log.retention.ms"].value is None
        assert not found["log.retention.ms"].read_only
        secret = found["ssl.key.password"]
        assert (secret.value, secret.is_sensitive) == (None, True)
        assert layers(secret) == [("ssl.key.password", None, "STATIC_BROKER")]
        unknown = found["no.such.thing"]
        assert (unknown.value, unknown.is_sensitive) == (None, True)

    run(scenario, ssl_key_password="hush", no_such_thing="1")


def test_describe_refuses_unknown_resources(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        assert await refused(broker, TOPIC, "none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await refused(broker, TOPIC, "a b") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await refused(broker, BROKER, "99") == ErrorCode.INVALID_REQUEST
        assert await refused(broker, LOGGER, "") == ErrorCode.INVALID_REQUEST
        assert await refused(broker, GROUP, "") == ErrorCode.INVALID_REQUEST
        assert await refused(broker, METRICS, "") == ErrorCode.INVALID_REQUEST
        assert await refused(broker, 99, "x") == ErrorCode.INVALID_REQUEST

    run(scenario)


Outcome = tuple[str, str | None]


async def incremental(
    broker: AdminBroker,
    kind: int,
    name: str,
    *operations: tuple[str, int, str | None],
    **options: Any,
) -> Outcome:
    configs = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=what, value=value)
        for key, what, value in operations
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    version = options.pop("version", None)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], **options
    )
    response = await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, version)
    (result,) = response.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return ErrorCode(result.error_code).name, result.error_message


@pytest.mark.parametrize("version", range(2))
def test_incremental_changes_of_a_topic(run: ScenarioRunner, version: int) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t", retention_ms="7")
        for operation, expected in [
            (("segment.ms", SET, "8"), {"retention.ms": "7", "segment.ms": "8"}),
            (("retention.ms", DELETE, None), {"segment.ms": "8"}),
            (
                ("cleanup.policy", APPEND, "compact"),
                {"segment.ms": "8", "cleanup.policy": "delete,compact"},
            ),
            (
                ("cleanup.policy", APPEND, "compact"),
                {"segment.ms": "8", "cleanup.policy": "delete,compact"},
            ),
            (
                ("cleanup.policy", SUBTRACT, "delete"),
                {"segment.ms": "8", "cleanup.policy": "compact"},
            ),
            (("segment.ms", DELETE, None), {"cleanup.policy": "compact"}),
            (("flush.ms", DELETE, None), {"cleanup.policy": "compact"}),
        ]:
            outcome = await incremental(broker, TOPIC, "t", operation, version=version)
            assert outcome == ("NONE", None)
            assert broker.image.topics["t"].configs == expected
        assert broker.partitions.find("t", 0).log.config.cleanup_policy == {"compact"}

    run(scenario)


@pytest.mark.parametrize("incrementally", [True, False])
def test_a_broker_keeps_unknown_configs(run: ScenarioRunner, incrementally: bool) -> None:
    """Like Kafka, because the config may belong to a plug-in; its value may be a secret."""

    async def scenario(broker: AdminBroker) -> None:
        if incrementally:
            code, _ = await incremental(broker, BROKER, ME, ("nope", SET, "1"))
        else:
            configs = [alter_configs.AlterableConfig(name="nope", value="1")]
            resource = alter_configs.AlterConfigsResource(BROKER, ME, configs)
            answer = await broker.ask(
                ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest([resource])
            )
            code = ErrorCode(answer.responses[0].error_code).name
        assert code == "NONE"
        assert broker.image.broker_config(ME) == {"nope": "1"}
        shown = await describe(broker, BROKER, ME)
        nope = shown["nope"]
        assert (nope.value, nope.is_sensitive, nope.read_only) == (None, True, True)
        assert nope.config_source == ValueSource.DYNAMIC_BROKER

    run(scenario)


REFUSED = [
    (TOPIC, "none", ("flush.ms", SET, "1"), "UNKNOWN_TOPIC_OR_PARTITION", None),
    (TOPIC, "t", ("nope", SET, "1"), "INVALID_CONFIG", "Unknown topic config name: nope"),
    (TOPIC, "t", ("flush.ms", SET, "x"), "INVALID_CONFIG", "Not a number of type LONG"),
    (TOPIC, "t", ("flush.ms", SET, None), "INVALID_REQUEST", "Null value not supported"),
    (TOPIC, "t", ("flush.ms", APPEND, "1"), "INVALID_CONFIG", "Can't APPEND to key flush.ms"),
    (TOPIC, "t", ("nope", SUBTRACT, "1"), "INVALID_CONFIG", "Can't SUBTRACT to key nope"),
    (TOPIC, "t", ("flush.ms", 9, "1"), "INVALID_REQUEST", "Unknown operations type 9"),
    (TOPIC, "t", ("cleanup.policy", APPEND, "x" * 32767), "INVALID_CONFIG", "maximum value size"),
    (BROKER, "99", ("log.retention.ms", SET, "1"), "INVALID_REQUEST", "Unexpected broker id"),
    (BROKER, ME, ("log.dirs", SET, "/x"), "INVALID_REQUEST", "Cannot update these configs dynam"),
    (BROKER, ME, ("nope", APPEND, "1"), "INVALID_CONFIG", "Unknown config name: nope"),
    (BROKER, ME, ("log.retention.ms", SET, "x"), "INVALID_REQUEST", "Not a number of type LONG"),
    (BROKER, ME, ("log.retention.ms", SET, "0"), "INVALID_REQUEST", "unlimited (-1)"),
    (BROKER, "", ("ssl.keystore.type", SET, "PEM"), "INVALID_REQUEST", "at default cluster level"),
    (99, "g", ("consumer.session.timeout.ms", SET, "1"), "INVALID_REQUEST", "Unsupported"),
    (LOGGER, ME, ("ottla.nowhere", SET, "INFO"), "INVALID_CONFIG", "does not exist"),
    (LOGGER, ME, ("root", SET, "LOUD"), "INVALID_CONFIG", "not a supported log level"),
    (LOGGER, ME, ("root", DELETE, None), "INVALID_REQUEST", "not allowed"),
    (LOGGER, ME, ("root", APPEND, "INFO"), "INVALID_REQUEST", "APPEND operation is not allowed"),
    (LOGGER, "99", ("root", SET, "INFO"), "INVALID_REQUEST", "Unexpected broker id"),
]


@pytest.mark.parametrize(("kind", "name", "operation", "code", "message"), REFUSED)
def test_refused_incremental_changes_change_nothing(
    run: ScenarioRunner,
    kind: int,
    name: str,
    operation: tuple[str, int, str | None],
    code: str,
    message: str | None,
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t", retention_ms="7")
        before = broker.image
        found, said = await incremental(broker, kind, name, operation)
        assert found == code
        assert message is None or message in (said or "")
        assert broker.image is before

    run(scenario)


def test_a_repeated_resource_is_refused(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t")
        outcome = await incremental(
            broker, TOPIC, "t", ("flush.ms", SET, "1"), ("flush.ms", DELETE, None)
        )
        assert outcome == ("INVALID_REQUEST", "Error due to duplicate config keys")
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC, resource_name="t"
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource, resource]
        )
        response = await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        assert [result.error_code for result in response.responses] == [42, 42]

    run(scenario)


def test_validate_only_validates_and_changes_nothing(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t")
        for kind, name, key in ((TOPIC, "t", "flush.ms"), (BROKER, "", "log.retention.ms")):
            good = await incremental(broker, kind, name, (key, SET, "5"), validate_only=True)
            assert good == ("NONE", None)
            bad, _ = await incremental(broker, kind, name, (key, SET, "x"), validate_only=True)
            assert bad != "NONE"
        assert broker.image.topics["t"].configs == {}
        assert broker.image.broker_configs == {}

    run(scenario)


def test_broker_configs_change_for_one_or_all_brokers_and_reach_the_logs(
    run: ScenarioRunner,
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t")
        log = broker.partitions.find("t", 0).log
        name = "log.retention.ms"
        assert await incremental(broker, BROKER, "", (name, SET, "5000")) == ("NONE", None)
        assert log.config.retention_ms == 5000
        assert await incremental(broker, BROKER, ME, (name, SET, "6000")) == ("NONE", None)
        assert log.config.retention_ms == 6000
        found = await describe(broker, BROKER, ME, [name])
        assert found[name].value == "6000"
        assert layers(found[name]) == [
            (name, "6000", "DYNAMIC_BROKER"),
            (name, "5000", "DYNAMIC_DEFAULT_BROKER"),
        ]
        default = await describe(broker, BROKER, "")
        assert set(default) == {name}
        assert (default[name].value, default[name].config_source) == (
            "5000",
            ValueSource.DYNAMIC_DEFAULT_BROKER,
        )
        topic = await describe(broker, TOPIC, "t", ["retention.ms"])
        assert topic["retention.ms"].value == "6000"
        assert topic["retention.ms"].config_source == ValueSource.DYNAMIC_BROKER
        assert await incremental(broker, BROKER, ME, (name, DELETE, None)) == ("NONE", None)
        assert log.config.retention_ms == 5000

    run(scenario)


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all_that_is_set(run: ScenarioRunner, version: int) -> None:
    async def alter(
        broker: AdminBroker, kind: int, name: str, **options: Any
    ) -> alter_configs.AlterConfigsResourceResponse:
        configs = [
            alter_configs.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in options.items()
            if key != "validate_only"
        ]
        resource = alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        request = alter_configs.AlterConfigsRequest(
            resources=[resource], validate_only="validate_only" in options
        )
        response = await broker.ask(ApiKey.ALTER_CONFIGS, request, version)
        result: alter_configs.AlterConfigsResourceResponse = response.responses[0]
        return result

    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "t", retention_ms="7", segment_ms="8")
        assert (await alter(broker, TOPIC, "t", segment_ms="9")).error_code == 0
        assert broker.image.topics["t"].configs == {"segment.ms": "9"}
        assert (await alter(broker, TOPIC, "t", validate_only=True)).error_code == 0
        assert broker.image.topics["t"].configs == {"segment.ms": "9"}
        bad = await alter(broker, TOPIC, "t", segment_ms="soon")
        assert bad.error_code == ErrorCode.INVALID_CONFIG
        assert (await alter(broker, BROKER, ME, message_max_bytes="5")).error_code == 0
        assert broker.config.message_max_bytes == 5
        assert (await alter(broker, BROKER, ME)).error_code == 0
        assert broker.config.message_max_bytes == 1048588
        logger = await alter(broker, LOGGER, ME, root="INFO")
        assert logger.error_code == ErrorCode.INVALID_REQUEST
        null = await alter(broker, TOPIC, "t", segment_ms=None)
        assert null.error_code == ErrorCode.INVALID_REQUEST

    run(scenario)


def test_levels_of_loggers_can_be_read_and_set(run: ScenarioRunner) -> None:
    logger = logging.getLogger("ottla.cluster")
    before = logger.level

    async def scenario(broker: AdminBroker) -> None:
        name = "ottla.cluster"
        assert await incremental(broker, LOGGER, ME, (name, SET, "DEBUG")) == ("NONE", None)
        assert logger.level == logging.DEBUG
        found = await describe(broker, LOGGER, ME)
        assert (found[name].value, found[name].config_source) == (
            "DEBUG",
            ValueSource.DYNAMIC_BROKER_LOGGER,
        )
        assert "root" in found
        only_tried = await incremental(broker, LOGGER, ME, (name, SET, "FATAL"), validate_only=True)
        assert only_tried == ("NONE", None)
        assert logger.level == logging.DEBUG
        assert await incremental(broker, LOGGER, ME, (name, DELETE, None)) == ("NONE", None)
        assert logger.level == logging.NOTSET

    try:
        run(scenario)
    finally:
        logger.setLevel(before)


def test_list_config_resources(run: ScenarioRunner) -> None:
    async def listed(broker: AdminBroker, version: int, *kinds: int) -> list[tuple[int, str]] | str:
        request = ListConfigResourcesRequest(resource_types=list(kinds))
        response = await broker.ask(ApiKey.LIST_CONFIG_RESOURCES, request, version)
        if response.error_code:
            return ErrorCode(response.error_code).name
        return [
            (config_resource.resource_type, config_resource.resource_name)
            for config_resource in response.config_resources
        ]

    async def scenario(broker: AdminBroker) -> None:
        await create(broker, "b")
        await create(broker, "a")
        assert await listed(broker, 0) == []
        assert await listed(broker, 1) == [(LOGGER, ME), (BROKER, ME), (TOPIC, "a"), (TOPIC, "b")]
        assert await listed(broker, 1, TOPIC) == [(TOPIC, "a"), (TOPIC, "b")]
        assert await listed(broker, 1, METRICS, GROUP) == []
        assert await listed(broker, 1, 99) == "UNSUPPORTED_VERSION"

    run(scenario)
