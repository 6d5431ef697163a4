"""The pytest plugin: brokers as fixtures.

    kafka           a fresh broker for this test
    kafka_session   one broker for all tests that use it
    registry        a schema registry beside kafka's broker

pytest imports this file in every run of every project that has Ottla installed; the first test that
uses a broker imports it. Broker properties for both fixtures, in pytest.ini:

    kafka_properties =
        num.partitions=3
        auto.create.topics.enable=false
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.registry.server import RegistryServer
    from ottla.testing.local_cluster import LocalCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "kafka_properties",
        "broker properties for the fixtures kafka and kafka_session: name=value, one a line",
        type="linelist",
        default=[],
    )


@pytest.fixture
def kafka(pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """A fresh Kafka broker, in this process: kafka.bootstrap_servers."""
    from ottla.testing.local_cluster import LocalCluster

    with LocalCluster(config=_plugin_properties(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture
def registry(kafka: LocalCluster) -> Iterator[RegistryServer]:
    """A schema registry beside the broker of the fixture kafka: registry.url."""
    from ottla.extras import require

    require("the fixture registry", "registry")
    from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
    from ottla.registry.server import RegistryServer

    settings = kafka.client_settings()
    with RegistryServer(
        KafkaSchemaRegistry(kafka.bootstrap_servers, settings=settings), port=0
    ) as registry:
        kafka.call(lambda: kafka.broker().schema_validation.use(registry.url))
        yield registry


@pytest.fixture(scope="session")
def kafka_session(pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """A Kafka broker that all tests share: kafka_session.bootstrap_servers."""
    from ottla.testing.local_cluster import LocalCluster

    with LocalCluster(config=_plugin_properties(pytestconfig)) as cluster:
        yield cluster


def _plugin_properties(config: pytest.Config) -> dict[str, str]:
    properties = {}
    for line in config.getini("kafka_properties"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(
                f"kafka_properties: {line!r}: expected name=value, such as num.partitions=3"
            )
        properties[name.strip()] = value.strip()
    return properties
