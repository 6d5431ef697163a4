"""The same bytes as those of confluent-kafka: logical types, unions, defaults, nested types."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.client import Avro, Protobuf, SchemaRegistry
from ottla.schemas.protobuf.message_types import MessageTypes
from ottla.schemas.protobuf.values import MessageValues
from ottla.schemas.schema_types import parse

NUMBERS = itertools.count()
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
AT = dt.datetime(1960, 2, 29, 1, 2, 3, 4000, dt.UTC)


def field(of: Any, **words: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": of, **words}]}


def logical(of: str, kind: str, **words: Any) -> dict[str, Any]:
    return field({"type": of, "logicalType": kind, **words})


AVRO: list[tuple[Any, Any]] = [
    ("int", -5),
    ("long", 2**40),
    ("string", "é"),
    ("boolean", True),
    ("float", 0.5),
    ("double", 1e300),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    (["null", "string", "long"], "x"),
    (["null", "string", "long"], 7),
    (["string", "bytes"], b"x"),
    ({"type": "array", "items": "long"}, [1, 2]),
    ({"type": "map", "values": "string"}, {"a": "b"}),
    ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5)),
    ({"type": "long", "logicalType": "timestamp-millis"}, AT),
    (logical("int", "date"), {"f": dt.date(2024, 2, 29)}),
    (logical("int", "time-millis"), {"f": dt.time(1, 2, 3, 4000)}),
    (logical("long", "time-micros"), {"f": dt.time(1, 2, 3, 4005)}),
    (logical("long", "timestamp-millis"), {"f": AT}),
    (logical("long", "timestamp-micros"), {"f": AT.replace(microsecond=5)}),
    (logical("long", "timestamp-nanos"), {"f": 123456789012345678}),
    (logical("long", "local-timestamp-millis"), {"f": AT.replace(tzinfo=None)}),
    (logical("long", "local-timestamp-micros"), {"f": AT.replace(tzinfo=None)}),
    (logical("long", "local-timestamp-nanos"), {"f": 123456789012345678}),
    (logical("fixed", "duration", name="D", size=12), {"f": b"\1\0\0\0\2\0\0\0\3\0\0\0"}),
    (logical("string", "uuid"), {"f": uuid.UUID(int=5)}),
    (logical("bytes", "decimal", precision=10, scale=2), {"f": Decimal("12.34")}),
    (logical("fixed", "decimal", name="D", size=8, precision=10, scale=2), {"f": Decimal("-1.23")}),
    (field(["null", INNER, OTHER]), {"f": {"x": 1}}),
    (field(["null", INNER, OTHER]), {"f": ("Other", {"x": 1})}),
    (field("int", default=3), {}),
    (field(["null", "long"], default=None), {}),
]


@pytest.fixture(scope="module")
def theirs(registry_url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry_url}) as client:
        yield client


@pytest.fixture(scope="module")
def ours(registry_url: str) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(registry_url)
    yield registry
    registry.close()


def compared(schema: Any, value: Any, theirs: SchemaRegistryClient, ours: SchemaRegistry) -> None:
    topic, text = f"bytes-{next(NUMBERS)}", json.dumps(schema)
    context = SerializationContext(topic, MessageField.VALUE)
    data = Avro[Any](schema=text, registry=ours).serialize(topic, value)
    assert data == AvroSerializer(theirs, text)(value, context)
    generic: Avro[Any] = Avro(registry=ours)
    found = generic.deserialize(topic, data)
    assert found == AvroDeserializer(theirs)(data, context)
    if isinstance(found, dict | list):  # other languages carry their type
        assert generic.serialize(topic, found) == data


@pytest.mark.parametrize(("schema", "value"), AVRO)
def test_avro(schema: Any, value: Any, theirs: SchemaRegistryClient, ours: SchemaRegistry) -> None:
    compared(schema, value, theirs, ours)


SCALARS = st.sampled_from(
    [
        ("int", st.integers(-(2**31), 2**31 - 1)),
        ("long", st.integers(-(2**63), 2**63 - 1)),
        ("double", st.floats(allow_nan=False)),
        ("boolean", st.booleans()),
        ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
        ("bytes", st.binary(max_size=5)),
    ]
)


def larger(inner: Any) -> Any:
    """An array, a map, an optional value, or a record of two fields."""
    arrays = inner.map(lambda of: ({"type": "array", "items": of[0]}, st.lists(of[1], max_size=2)))
    maps = inner.map(
        lambda of: (
            {"type": "map", "values": of[0]},
            st.dictionaries(st.sampled_from("abc"), of[1], max_size=2),
        )
    )
    scalars = SCALARS.map(lambda of: (["null", of[0]], st.none() | of[1]))
    return arrays | maps | scalars | st.tuples(inner, inner).map(record)


def record(parts: Any) -> Any:
    names = [("a", parts[0]), ("b", parts[1])]
    fields = [{"name": name, "type": of} for name, (of, _) in names]
    schema = {"type": "record", "name": f"R{next(NUMBERS)}", "fields": fields}
    return schema, st.fixed_dictionaries({name: value for name, (_, value) in names})


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_avro(theirs: SchemaRegistryClient, ours: SchemaRegistry, data: Any) -> None:
    parts = st.recursive(SCALARS, larger, max_leaves=6)
    schema, values = data.draw(st.tuples(parts, parts).map(record))
    compared(schema, data.draw(values), theirs, ours)


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Color { RED = 0; BLUE = 1; }
message First { string s = 1; }
message Outer {
  map<string, int32> m = 1;
  message Inner {
    int32 i = 1;
    map<int64, Deep> deeps = 2;
    message Deep { bytes b = 1; }
  }
  Inner inner = 2;
  oneof choice { string text = 3; First first = 4; google.protobuf.StringValue wrapped = 5; }
  repeated Inner list = 6;
  repeated google.protobuf.Timestamp times = 7;
  map<string, google.protobuf.Timestamp> named_times = 8;
  map<string, google.protobuf.Duration> waits = 9;
  google.protobuf.Value value = 10;
  repeated google.protobuf.Value values = 11;
  map<string, google.protobuf.Struct> structs = 12;
  map<bool, google.protobuf.ListValue> lists = 13;
  optional int32 chosen = 14;
  repeated Color colors = 15;
  map<string, First> firsts = 16;
}
"""
PROTOBUF: list[tuple[str, dict[str, Any]]] = [
    ("Outer", {}),
    (
        "Outer",
        {
            "m": {"a": 1},
            "inner": {"i": 3, "deeps": {}},
            "text": "",
            "chosen": 0,
            "colors": ["BLUE"],
        },
    ),
    ("Outer", {"first": {"s": "x"}, "list": [{"i": 4, "deeps": {5: {"b": b"z"}}}]}),
    ("Outer", {"wrapped": "w", "times": [AT], "named_times": {"a": AT, "b": AT}}),
    ("Outer", {"waits": {"a": dt.timedelta(seconds=-1, microseconds=-7), "b": dt.timedelta(3)}}),
    ("Outer", {"value": {"a": [1.0, None, True]}, "values": [1.0, "x", None, [{}]]}),
    ("Outer", {"structs": {"a": {"b": None}}, "lists": {True: [1.0, "x"]}}),
    ("Outer.Inner", {"i": 1}),
    ("Outer.Inner.Deep", {"b": b"1"}),
    ("First", {"s": "s"}),
]


@pytest.mark.parametrize(("message", "value"), PROTOBUF)
def test_protobuf(
    message: str, value: dict[str, Any], theirs: SchemaRegistryClient, ours: SchemaRegistry
) -> None:
    """Confluent's serializer registers a descriptor, whose maps count as nested messages."""
    made = MessageTypes(parse("PROTOBUF", PROTO, {})).by_name(f"shop.{message}")
    sent = MessageValues(made).from_dict(value)
    topic = f"bytes-{next(NUMBERS)}"
    context = SerializationContext(topic, MessageField.VALUE)
    conf = {"use.deprecated.format": False}
    data = ProtobufSerializer(made, theirs, conf)(sent, context)
    assert Protobuf(made, registry=ours).serialize(topic, sent) == data
    generic: Protobuf[Any] = Protobuf(registry=ours)
    found = generic.deserialize(topic, data)
    assert {name: found[name] for name in value} == value
    again = generic.serialize(f"{topic}-2", found)
    assert again is not None
    assert ProtobufDeserializer(made, conf)(again, context) == sent
