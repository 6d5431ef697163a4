"""Configs of groups and of client metrics subscriptions, as Apache Kafka 4.3.1 answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from admin_broker import AdminBroker, ScenarioRunner

from ottla.config import GROUP_CONFIGS
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest

METRICS, GROUP = 16, 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
RESET = "share.auto.offset.reset"

Operation = tuple[str, int, str | None]


@pytest.fixture
def run(tmp_path: Path) -> ScenarioRunner:
    return ScenarioRunner(tmp_path)


async def alter(
    broker: AdminBroker, kind: int, name: str, *operations: Operation, validate: bool = False
) -> tuple[str, str | None]:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[incremental_alter_configs.AlterableConfig(*operation) for operation in operations],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate
    )
    answer = (await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)).responses[0]
    return ErrorCode(answer.error_code).name, answer.error_message


async def describe(
    broker: AdminBroker, kind: int, name: str
) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(kind, name, None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await broker.ask(ApiKey.DESCRIBE_CONFIGS, request)).results
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


def said(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


async def listed(broker: AdminBroker, version: int = 1, *kinds: int) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = await broker.ask(ApiKey.LIST_CONFIG_RESOURCES, request, version)
    assert answer.error_code == 0
    return [
        (config_resource.resource_type, config_resource.resource_name)
        for config_resource in answer.config_resources
    ]


def test_a_group_uses_the_brokers_configs_until_it_overrides_them(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        found = await describe(broker, GROUP, "g")
        assert set(found) == set(GROUP_CONFIGS)
        assert said(found[SESSION]) == [
            ("group.consumer.session.timeout.ms", "50000", 4),
            ("group.consumer.session.timeout.ms", "45000", 5),
        ]
        assert said(found[RESET]) == [(RESET, "latest", 5)]
        assert await alter(broker, GROUP, "g", (SESSION, SET, " 60000"), (RESET, SET, "earliest"))
        found = await describe(broker, GROUP, "g")
        assert (found[SESSION].value, found[SESSION].config_source) == ("60000", 8)
        assert said(found[SESSION])[0] == (SESSION, "60000", 8)
        assert said(found[RESET]) == [(RESET, "earliest", 8), (RESET, "latest", 5)]
        assert (await describe(broker, GROUP, "other"))[SESSION].value == "50000"

    run(scenario, group_consumer_session_timeout_ms="50000")


@pytest.mark.parametrize("name", ["g", "a/b", "..", ".", "<default>", "%2F", "größe 1+1*", "a=b?"])
def test_a_group_of_any_name_is_listed_as_long_as_it_has_configs(
    run: ScenarioRunner, name: str
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        assert await alter(broker, GROUP, name, (SESSION, SET, "46000")) == ("NONE", None)
        assert broker.image.group_config(name) == {SESSION: "46000"}
        assert await listed(broker, 1, GROUP) == [(GROUP, name)]
        assert await alter(broker, GROUP, name, (SESSION, DELETE, None)) == ("NONE", None)
        assert broker.image.group_config(name) == {}
        assert await listed(broker, 1, GROUP) == []
        assert await alter(broker, GROUP, name, (SESSION, SET, "46000")) == ("NONE", None)

    run(scenario)


def test_client_metrics_are_described_and_listed(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        assert await alter(broker, GROUP, "g", (SESSION, SET, "46000")) == ("NONE", None)
        found = await describe(broker, METRICS, "m")
        assert {name: config.value for name, config in found.items()} == {
            "metrics": "",
            "interval.ms": "300000",
            "match": "",
        }
        assert [said(config) for config in found.values()] == [[], [], []]
        operations: list[Operation] = [("metrics", SET, " a , b"), ("match", SET, "client_id=x.*")]
        assert await alter(broker, METRICS, "m", *operations, validate=True) == ("NONE", None)
        assert broker.image.client_metrics("m") == {}
        assert await alter(broker, METRICS, "m", *operations) == ("NONE", None)
        found = await describe(broker, METRICS, "m")
        assert said(found["metrics"]) == [("metrics", "a,b", 7)]
        assert await listed(broker, 0) == [(METRICS, "m")]
        assert await listed(broker, 1, GROUP, METRICS) == [(METRICS, "m"), (GROUP, "g")]

    run(scenario)


REFUSED = [
    (GROUP, "", SESSION, "45000", "INVALID_REQUEST", "Default group resources are not allowed."),
    (GROUP, "g", "nope", "1", "INVALID_CONFIG", "Unknown group config name: nope"),
    (GROUP, "g", SESSION, "x", "INVALID_CONFIG", "Not a number of type INT"),
    (GROUP, "g", SESSION, "44999", "INVALID_CONFIG", "group.consumer.min.session.timeout.ms"),
    (GROUP, "g", SESSION, "60001", "INVALID_CONFIG", "group.consumer.max.session.timeout.ms"),
    (GROUP, "g", HEARTBEAT, "4999", "INVALID_CONFIG", "must be greater than or equal to"),
    (GROUP, "g", "share.record.lock.duration.ms", "1", "INVALID_CONFIG", "at least 1000"),
    (GROUP, "g", "share.record.lock.duration.ms", "14999", "INVALID_CONFIG", "group.share.min."),
    (GROUP, "g", "share.delivery.count.limit", "11", "INVALID_CONFIG", "group.share.max.deliv"),
    (GROUP, "g", "streams.num.standby.replicas", "3", "INVALID_CONFIG", "max.standby.replicas"),
    (GROUP, "g", RESET, "EARLIEST", "INVALID_CONFIG", "either 'earliest', 'latest' or"),
    (GROUP, "g", RESET, "by_duration:-PT1H", "INVALID_CONFIG", "either 'earliest', 'latest' or"),
    (GROUP, "g", RESET, "by_duration:P", "INVALID_CONFIG", "either 'earliest', 'latest' or"),
    (GROUP, "g", "share.isolation.level", "foo", "INVALID_CONFIG", "String must be one of"),
    (METRICS, "", "metrics", "*", "INVALID_REQUEST", "Subscription name can't be empty"),
    (METRICS, "m", "nope", "1", "INVALID_REQUEST", "Unknown client metrics configuration: nope"),
    (METRICS, "m", "interval.ms", "99", "INVALID_REQUEST", "between 100 and 3600000 (1 hour)"),
    (METRICS, "m", "interval.ms", "x", "INVALID_CONFIG", "Not a number of type INT"),
    (METRICS, "m", "match", "foo=bar", "INVALID_CONFIG", "matching pattern: foo=bar"),
    (METRICS, "m", "match", "client_id=[", "INVALID_CONFIG", "matching pattern: client_id=["),
    (METRICS, "m", "match", "client_id=", "INVALID_CONFIG", "matching pattern: client_id="),
]


@pytest.mark.parametrize(("kind", "name", "key", "value", "code", "message"), REFUSED)
def test_refused_changes_change_nothing(
    run: ScenarioRunner, kind: int, name: str, key: str, value: str, code: str, message: str
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        found, reason = await alter(broker, kind, name, (key, SET, value))
        assert found == code
        assert message in (reason or "")
        assert await listed(broker, 1, GROUP, METRICS) == []

    run(scenario)


def test_a_heartbeat_must_come_within_the_session(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        code, reason = await alter(broker, GROUP, "g", (SESSION, SET, "6000"))
        assert code == "INVALID_CONFIG"
        assert reason == f"{SESSION} must be greater than {HEARTBEAT}"

    run(
        scenario,
        group_consumer_min_session_timeout_ms="1000",
        group_consumer_heartbeat_interval_ms="6000",
    )


def test_lists_of_client_metrics_do_not_take_append(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        code, _ = await alter(broker, METRICS, "m", ("metrics", APPEND, "a"))
        assert code == "INVALID_CONFIG"

    run(scenario)


def test_alter_configs_replaces_all_that_a_group_has(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await alter(broker, GROUP, "g", (SESSION, SET, "46000"), (RESET, SET, "earliest"))
        resource = alter_configs.AlterConfigsResource(
            resource_type=GROUP,
            resource_name="g",
            configs=[alter_configs.AlterableConfig(HEARTBEAT, "6000")],
        )
        request = alter_configs.AlterConfigsRequest(resources=[resource])
        answer = await broker.ask(ApiKey.ALTER_CONFIGS, request)
        assert answer.responses[0].error_code == 0
        assert broker.image.group_config("g") == {HEARTBEAT: "6000"}

    run(scenario)
