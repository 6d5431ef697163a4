"""The client of a schema registry, against a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.schema_registry import SchemaRegistry, SchemaRegistryError
from ottla.errors import ErrorCode, KafkaError
from ottla.schemas.schema_types import Reference
from ottla.testing import LocalCluster

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
LINE = (
    '{"type":"record","name":"Line","fields":[{"name":"order","type":"Order"},'
    '{"name":"n","type":"int"}]}'
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(registry=True) as cluster:
        yield cluster.registry_url


@pytest.fixture
def registry(url: str) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(url)
    yield registry
    registry.close()


def test_a_schema_is_registered_and_found_again(registry: SchemaRegistry) -> None:
    made = registry.register("orders-value", "AVRO", ORDER)
    assert (made.subject, made.version, made.kind) == ("orders-value", 1, "AVRO")
    assert registry.look_up("orders-value", "AVRO", ORDER).id == made.id
    assert registry.by_id(made.id).text == ORDER
    assert registry.by_guid(made.guid).text == ORDER
    assert registry.version("orders-value").id == made.id
    assert registry.versions("orders-value") == [1]
    assert "orders-value" in registry.subjects()


def test_references_are_resolved(registry: SchemaRegistry) -> None:
    registry.register("order", "AVRO", ORDER)
    made = registry.register("line", "AVRO", LINE, [Reference("Order", "order", 1)])
    found = registry.by_id(made.id)
    assert found.references == (Reference("Order", "order", 1),)
    assert registry.referenced_texts(found.references) == {"Order": ORDER}
    assert registry.parsed(found).kind == "AVRO"


def test_a_refusal_has_status_code_and_message(registry: SchemaRegistry) -> None:
    with pytest.raises(SchemaRegistryError, match="not found") as caught:
        registry.version("nothing")
    assert (caught.value.status, caught.value.code) == (404, 40401)


def test_an_incompatibility_is_explained(registry: SchemaRegistry) -> None:
    registry.register("prices", "AVRO", '"int"')
    assert registry.incompatibilities("prices", "AVRO", '"long"') == []
    reasons = registry.incompatibilities("prices", "AVRO", '"bytes"')
    assert reasons
    assert "TYPE_MISMATCH" in reasons[0]
    with pytest.raises(SchemaRegistryError) as caught:
        registry.register("prices", "AVRO", '"bytes"')
    assert caught.value.status == 409


def test_deleted_subjects_are_gone(registry: SchemaRegistry) -> None:
    registry.register("gone", "AVRO", ORDER)
    assert registry.delete("gone") == [1]
    assert registry.delete("gone", permanent=True) == [1]
    assert registry.register("gone", "AVRO", ORDER).version == 1


def test_an_unanswered_request_goes_to_the_next_url(url: str) -> None:
    registry = SchemaRegistry(f"http://127.0.0.1:1,{url}")
    assert isinstance(registry.subjects(), list)
    registry.close()


def test_an_unreachable_registry_is_an_error() -> None:
    with pytest.raises(KafkaError, match="No schema registry answers") as caught:
        SchemaRegistry("http://127.0.0.1:1").subjects()
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION


def test_a_registry_has_a_url() -> None:
    with pytest.raises(KafkaError, match=r"schema\.registry\.url is not set"):
        SchemaRegistry(settings={})
