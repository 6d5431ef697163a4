"""One registry for all tests of converters; each test uses its own topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from ottla.client.schema_registry import SchemaRegistry
from ottla.connect.converters.registry_converter import RegistryConverter
from ottla.testing import LocalCluster


@pytest.fixture(scope="session")
def registry_url() -> Iterator[str]:
    with LocalCluster(registry=True) as cluster:
        yield cluster.registry_url


@pytest.fixture(scope="session")
def schemas(registry_url: str) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(registry_url)
    yield registry
    registry.close()


@pytest.fixture(scope="session")
def confluent(registry_url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry_url}) as client:
        yield client


@pytest.fixture
def configured(registry_url: str) -> Iterator[Callable[..., RegistryConverter]]:
    """Makes a converter: settings are keyword arguments, with _ for dots."""
    made: list[RegistryConverter] = []

    def make(kind: type[RegistryConverter], **settings: str) -> RegistryConverter:
        converter = kind()
        made.append(converter)
        named = {name.replace("_", "."): value for name, value in settings.items()}
        converter.configure(
            {"schema.registry.url": registry_url, "converter.type": "value", **named}
        )
        return converter

    yield make
    for converter in made:
        if hasattr(converter, "_registry"):
            converter.close()
