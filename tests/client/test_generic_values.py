"""Values that were read without a class: they carry their schema, and can be written again."""

from __future__ import annotations

import copy
import json
import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.client import (
    Avro,
    GenericRecord,
    JsonSchema,
    Protobuf,
    SchemaRegistry,
    SerializationError,
)
from ottla.client.serdes.generic_values import CarriedSchema, GenericList
from ottla.schemas.schema_types import Reference

KINDS = [Avro, JsonSchema, Protobuf]


@dataclass
class Order:
    customer: str
    total: int
    note: str | None = None


@pytest.fixture
def registry(registry_url: str) -> Iterator[SchemaRegistry]:
    made = SchemaRegistry(registry_url)
    yield made
    made.close()


@pytest.fixture
def topic() -> str:
    return f"generic-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("of", KINDS)
def test_a_read_value_can_be_written_to_another_topic(
    of: Any, topic: str, registry: SchemaRegistry
) -> None:
    typed, generic = of(Order, registry=registry), of(registry=registry)
    data = typed.serialize(topic, Order("ann", 5))
    found = generic.deserialize(topic, data)
    assert found == {"customer": "ann", "total": 5, "note": None}
    more = found | {"total": 6}
    for value, total in (
        (found, 5),
        (more, 6),
        (pickle.loads(pickle.dumps(more)), 6),
        (copy.deepcopy(more), 6),
        (more.copy(), 6),
    ):
        written = generic.serialize(f"{topic}-2", value)
        assert typed.deserialize(f"{topic}-2", written) == Order("ann", total)
    one, two = (registry.version(f"{name}-value") for name in (topic, f"{topic}-2"))
    assert one.id == two.id


@pytest.mark.parametrize("of", KINDS)
def test_a_dict_without_a_schema_is_refused(of: Any, topic: str, registry: SchemaRegistry) -> None:
    other = JsonSchema if of is Avro else Avro
    data = other(Order, registry=registry).serialize(topic, Order("ann", 5))
    of_another_language = other(registry=registry).deserialize(topic, data)
    for value in ({"customer": "ann"}, GenericRecord({"customer": "ann"}), of_another_language):
        with pytest.raises(SerializationError, match=r"no schema for a .*record \|"):
            of(registry=registry).serialize(f"{topic}-2", value)


def test_each_schema_has_its_own_writer(topic: str, registry: SchemaRegistry) -> None:
    generic: Avro[Any] = Avro(registry=registry)
    text = (
        '{"type": "record", "name": "R", "fields": [{"name": "%s", "type": "long", "default": 0}]}'
    )
    one = GenericRecord({"a": 1}, CarriedSchema("AVRO", text % "a"))
    two = GenericRecord({"b": 2}, CarriedSchema("AVRO", text % "b"))
    data = [generic.serialize(topic, entry) for entry in (one, two, one)]
    assert data[0] == data[2]
    assert [generic.deserialize(topic, item) for item in data] == [one, two, one]
    assert registry.versions(f"{topic}-value") == [1, 2]


@pytest.mark.parametrize("value", ["text", 7, 2.5, True, b"\x00\x01"])
def test_text_and_numbers_need_no_class_in_avro(
    value: Any, topic: str, registry: SchemaRegistry
) -> None:
    serde: Avro[Any] = Avro(registry=registry)
    assert serde.deserialize(topic, serde.serialize(topic, value)) == value


@pytest.mark.parametrize("value", ["text", 7, 2.5, True])
def test_text_and_numbers_need_no_class_in_json(
    value: Any, topic: str, registry: SchemaRegistry
) -> None:
    serde: JsonSchema[Any] = JsonSchema(registry=registry)
    assert serde.deserialize(topic, serde.serialize(topic, value)) == value


@pytest.mark.parametrize(
    ("of", "schema"),
    [
        (Avro, '{"type": "array", "items": "long"}'),
        (JsonSchema, '{"type": "array", "items": {"type": "integer"}}'),
    ],
)
def test_a_list_carries_its_schema_as_well(
    of: Any, schema: str, topic: str, registry: SchemaRegistry
) -> None:
    generic = of(registry=registry)
    data = of(schema=schema, registry=registry).serialize(topic, [1, 2])
    found = generic.deserialize(topic, data)
    assert found == [1, 2]
    assert isinstance(found, GenericList)
    assert generic.serialize(f"{topic}-2", pickle.loads(pickle.dumps(found))) == data


def test_references_are_carried_along(topic: str, registry: SchemaRegistry) -> None:
    address = (
        '{"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}'
    )
    person = '{"type": "record", "name": "P", "fields": [{"name": "home", "type": "Address"}]}'
    made = registry.register(f"{topic}-address", "AVRO", address)
    reference = Reference("Address", made.subject, made.version)
    serde: Avro[Any] = Avro(schema=person, references=[reference], registry=registry)
    data = serde.serialize(topic, {"home": {"city": "Brno"}})
    generic: Avro[Any] = Avro(registry=registry)
    assert generic.serialize(f"{topic}-2", generic.deserialize(topic, data)) == data


def test_a_nested_message_is_written_as_itself(topic: str, registry: SchemaRegistry) -> None:
    text = """syntax = "proto3"; package shop;
        message Unused { string x = 1; }
        message Order { message Line { string sku = 1; optional int32 count = 2; } }"""
    serde: Protobuf[Any] = Protobuf(schema=text, message="Order.Line", registry=registry)
    data = serde.serialize(topic, {"sku": "a"})
    generic: Protobuf[Any] = Protobuf(registry=registry)
    found = generic.deserialize(topic, data)
    assert found == {"sku": "a", "count": None}
    assert generic.serialize(f"{topic}-2", found) == data
    by_record: Protobuf[Any] = Protobuf(
        registry=registry, settings={"subject.name.strategy": "RecordNameStrategy"}
    )
    by_record.serialize(topic, found)
    assert registry.version("shop.Order.Line").text


def test_the_latest_version_shapes_generic_records(topic: str, registry: SchemaRegistry) -> None:
    old = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'
    new = old.replace("}]}", '}, {"name": "b", "type": "string", "default": "-"}]}')
    registry.register(f"{topic}-value", "AVRO", old)
    data = Avro[Any](schema=old, registry=registry).serialize(topic, {"a": 1})
    latest = registry.register(f"{topic}-value", "AVRO", new)
    serde: Avro[Any] = Avro(registry=registry, settings={"use.latest.version": "true"})
    found = serde.deserialize(topic, data)
    assert found == {"a": 1, "b": "-"}
    assert found.schema.text == latest.text


ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}


def test_records_within_records_carry_their_schemas(topic: str, registry: SchemaRegistry) -> None:
    fields = [
        {"name": "home", "type": ADDRESS},
        {"name": "others", "type": {"type": "array", "items": ["null", "Address"]}},
        {"name": "named", "type": {"type": "map", "values": "Address"}},
    ]
    text = json.dumps({"type": "record", "name": "P", "namespace": "shop", "fields": fields})
    brno = {"city": "Brno"}
    value = {"home": brno, "others": [None, brno], "named": {"x": brno}}
    data = Avro[Any](schema=text, registry=registry).serialize(topic, value)
    generic: Avro[Any] = Avro(registry=registry)
    found = generic.deserialize(topic, data)
    assert found == value
    assert generic.serialize(topic, found) == data
    for part in (found["home"], found["others"][1], found["named"]["x"]):
        written = generic.serialize(f"{topic}-part", part)
        assert generic.deserialize(f"{topic}-part", written) == brno
    assert json.loads(registry.version(f"{topic}-part-value").text)["name"] == "Address"


@pytest.mark.parametrize("branch", ["Address", "Place"])
def test_a_record_in_a_union_stays_in_its_branch(
    branch: str, topic: str, registry: SchemaRegistry
) -> None:
    """Both branches have the same fields: the value alone does not say which it is."""
    union = ["null", ADDRESS, PLACE, {"type": "array", "items": ["Address", "Place"]}]
    text = json.dumps({"type": "record", "name": "P", "fields": [{"name": "at", "type": union}]})
    named = (branch, {"city": "Brno"})
    generic: Avro[Any] = Avro(registry=registry)
    for at in (named, [named, named], None):
        data = Avro[Any](schema=text, registry=registry).serialize(topic, {"at": at})
        found = generic.deserialize(topic, data)
        assert generic.serialize(topic, found) == data
    root = json.dumps([ADDRESS, PLACE])
    data = Avro[Any](schema=root, registry=registry).serialize(f"{topic}-root", named)
    found = generic.deserialize(f"{topic}-root", data)
    assert found == {"city": "Brno"}
    assert generic.serialize(f"{topic}-root", found | {"city": "Brno"}) == data


def test_a_recursive_record_carries_its_schema(topic: str, registry: SchemaRegistry) -> None:
    fields = [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]
    text = json.dumps({"type": "record", "name": "Node", "fields": fields})
    value = {"n": 1, "next": {"n": 2, "next": None}}
    data = Avro[Any](schema=text, registry=registry).serialize(topic, value)
    generic: Avro[Any] = Avro(registry=registry)
    found = generic.deserialize(topic, data)
    assert generic.serialize(topic, found) == data
    assert generic.deserialize(topic, generic.serialize(topic, found["next"])) == value["next"]
