"""JsonSchemaConverter: schemas and values as JSON Schema, and as other clients read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from test_avro_converter import INNER, VALUE, WHOLE

from ottla.client.schema_registry import SchemaRegistry
from ottla.connect.converters.json_schema_converter import JsonSchemaConverter
from ottla.connect.converters.registry_converter import RegistryConverter
from ottla.connect.data import (
    INT32_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    Struct,
    Type,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from ottla.connect.errors import DataException

Make = Callable[..., RegistryConverter]


@pytest.fixture
def make(configured: Callable[..., RegistryConverter]) -> Make:
    return partial(configured, JsonSchemaConverter)


def text_of(schemas: SchemaRegistry, subject: str) -> Any:
    return json.loads(schemas.version(subject).text)


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.mark.parametrize("decimals", ["BASE64", "numeric"])
def test_every_connect_type_survives_a_round_trip(make: Make, decimals: str) -> None:
    topic = f"json-whole-{decimals}"
    written = make(decimal_format=decimals).from_connect(topic, WHOLE, VALUE)
    schema, value = make().to_connect(topic, written)
    assert schema == WHOLE
    assert value == VALUE


def test_schemas_are_confluents(make: Make, schemas: SchemaRegistry) -> None:
    schema = struct_schema(
        {
            "tiny": Schema(Type.INT8, default=3),
            "name": OPTIONAL_STRING_SCHEMA,
            "price": decimal_schema(2),
            "map": map_schema(STRING_SCHEMA, INT32_SCHEMA),
            "pairs": map_schema(INT32_SCHEMA, STRING_SCHEMA),
        },
        name="shop.Thing",
    )
    value = {"tiny": 1, "price": Decimal("1.00"), "map": {}, "pairs": {1: "x"}}
    written = make(object_additional_properties="false").from_connect(
        "json-texts", schema, Struct(schema, value)
    )
    assert written is not None
    assert json.loads(written[5:])["pairs"] == [{"key": 1, "value": "x"}]
    assert text_of(schemas, "json-texts-value") == {
        "type": "object",
        "title": "shop.Thing",
        "additionalProperties": False,
        "properties": {
            "tiny": {
                "type": "integer",
                "connect.type": "int8",
                "default": 3,
                "connect.index": 0,
            },
            "name": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
            "price": {
                "type": "string",
                "connect.type": "bytes",
                "title": "org.apache.kafka.connect.data.Decimal",
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
                "connect.index": 2,
            },
            "map": {
                "type": "object",
                "connect.type": "map",
                "additionalProperties": {"type": "integer", "connect.type": "int32"},
                "connect.index": 3,
            },
            "pairs": {
                "type": "array",
                "connect.type": "map",
                "items": {
                    "type": "object",
                    "properties": {
                        "key": {"type": "integer", "connect.type": "int32", "connect.index": 0},
                        "value": {"type": "string", "connect.index": 1},
                    },
                },
                "connect.index": 4,
            },
        },
    }


ORDER = {
    "title": "Order",
    "type": "object",
    "definitions": {"line": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "state": {"type": "string", "enum": ["open", "done"]},
        "note": {"type": ["null", "string"]},
        "line": {"$ref": "#/definitions/line"},
        "both": {
            "allOf": [{"$ref": "#/definitions/line"}, {"properties": {"m": {"type": "string"}}}]
        },
        "any": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"$ref": "#/definitions/line"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id"],
}


@pytest.mark.parametrize(("any", "index"), [(5, 0), ("five", 1), ({"n": 5}, 2)])
def test_schemas_of_others_are_read(
    make: Make, confluent: SchemaRegistryClient, any: Any, index: int
) -> None:
    order = {
        "id": 1,
        "price": 2.5,
        "state": "open",
        "note": None,
        "line": {"n": 3},
        "both": {"n": 4, "m": "m"},
        "any": any,
        "tags": ["a", "b"],
    }
    topic = f"json-orders-{index}"
    serializer = JSONSerializer(json.dumps(ORDER), confluent)
    schema, value = make().to_connect(topic, serializer(order, context(topic)))
    assert schema is not None
    assert (schema.name, schema.version) == ("Order", 1)
    types = {field.name: field.schema.type for field in schema.fields}
    assert types["id"] is Type.INT64
    assert types["price"] is Type.FLOAT64
    assert (value["id"], value["price"], value["state"], value["note"]) == (1, 2.5, "open", None)
    assert (dict(value["line"]), dict(value["both"])) == ({"n": 3}, {"n": 4, "m": "m"})
    chosen = value["any"][f"io.confluent.connect.json.OneOf.field.{index}"]
    assert (dict(chosen) if index == 2 else chosen) == any
    assert value["tags"] == ["a", "b"]
    # And it goes back as it came.
    written = make().from_connect(f"{topic}-again", schema, value)
    assert written is not None
    assert json.loads(written[5:]) == order


def test_properties_that_are_not_required_may_be_optional(
    make: Make, confluent: SchemaRegistryClient
) -> None:
    data = JSONSerializer(json.dumps(ORDER), confluent)({"id": 1}, context("json-loose"))
    strict, value = make().to_connect("json-loose", data)
    loose, _ = make(use_optional_for_nonrequired="true").to_connect("json-loose", data)
    assert strict is not None
    assert loose is not None
    assert [field.name for field in strict.fields if field.schema.optional] == ["note"]
    assert [field.name for field in loose.fields if not field.schema.optional] == ["id"]
    assert value["price"] is None


def test_generalized_unions_and_enums(make: Make, confluent: SchemaRegistryClient) -> None:
    general = make(generalized_sum_type_support="true")
    data = JSONSerializer(json.dumps(ORDER), confluent)(
        {"id": 1, "any": "x", "state": "done"}, context("json-general")
    )
    schema, value = make(
        generalized_sum_type_support="true", use_optional_for_nonrequired="true"
    ).to_connect("json-general", data)
    assert schema is not None
    assert dict(value["any"])["connect_union_field_1"] == "x"
    state = schema.field("state")
    assert state is not None
    assert state.schema.parameters == {
        "org.apache.kafka.connect.data.Enum": "",
        "org.apache.kafka.connect.data.Enum.open": "0",
        "org.apache.kafka.connect.data.Enum.done": "1",
    }
    assert general.from_connect("json-general-again", schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING_SCHEMA, "k"),
        (OPTIONAL_INT32_SCHEMA, 6),
        (array_schema(INNER), [Struct(INNER, {"x": 1, "y": None})]),
        (None, {"a": [1, 2.5, None], "b": {"c": True}}),
    ],
)
def test_values_other_than_structs_are_written(make: Make, schema: Any, value: Any) -> None:
    topic = f"json-single-{abs(hash(repr(schema)))}"
    read, found = make().to_connect(topic, make().from_connect(topic, schema, value))
    assert found == value
    assert read == (schema if schema is None else schema.replace(version=1))


def test_confluents_deserializer_reads_what_is_written(
    make: Make, schemas: SchemaRegistry, confluent: SchemaRegistryClient
) -> None:
    written = make().from_connect("json-interop", WHOLE, VALUE)
    text = schemas.version("json-interop-value").text
    found = JSONDeserializer(text, schema_registry_client=confluent)(
        written, context("json-interop")
    )
    assert found["tiny"] == -128
    assert found["maybe_inner"] == {"x": 1, "y": None}
    assert found["at"] == VALUE["at"].timestamp() * 1000
    assert found["named_map"] == [{"key": 5, "value": "five"}]


def test_an_error_names_the_schema_id(make: Make, schemas: SchemaRegistry) -> None:
    id = schemas.register("json-bad-value", "JSON", '{"type":"object"}').id
    with pytest.raises(DataException, match=f"topic json-bad to JSON: schema id {id}: "):
        make().to_connect("json-bad", b"\x00" + id.to_bytes(4, "big") + b"{")
    recursive = '{"type":"object","properties":{"next":{"$ref":"#"}}}'
    id = schemas.register("json-tree-value", "JSON", recursive).id
    with pytest.raises(DataException, match=f"schema id {id}: The JSON schema contains itself"):
        make().to_connect("json-tree", b"\x00" + id.to_bytes(4, "big") + b"{}")
