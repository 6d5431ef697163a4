"""ProtobufConverter: schemas and values as Protobuf, and as other clients read them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from test_avro_converter import INNER, WHOLE
from test_avro_converter import VALUE as WHOLE_VALUE

from ottla.client.schema_registry import SchemaRegistry
from ottla.connect.converters.protobuf import ProtobufConverter
from ottla.connect.converters.registry_converter import RegistryConverter
from ottla.connect.data import (
    BYTES_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    Struct,
    Type,
    array_schema,
    date_schema,
    decimal_schema,
    map_schema,
    struct_schema,
    timestamp_schema,
)
from ottla.connect.errors import DataException
from ottla.schemas.protobuf.message_types import MessageTypes
from ottla.schemas.schema_types import parse

Make = Callable[..., RegistryConverter]
NAMESPACE = "io.confluent.connect.protobuf"


@pytest.fixture
def make(configured: Callable[..., RegistryConverter]) -> Make:
    return partial(configured, ProtobufConverter)


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


# Protobuf has no null in an array, and no null but by `optional` for the others.
FIELDS = {field.name: field.schema for field in WHOLE.fields if field.name != "list"}
SCHEMA = struct_schema({**FIELDS, "list": array_schema(STRING_SCHEMA)}, name="shop.Whole")
VALUE = Struct(
    SCHEMA, {**{name: WHOLE_VALUE.get_without_default(name) for name in FIELDS}, "list": ["a"]}
)


def test_every_connect_type_survives_a_round_trip(make: Make) -> None:
    converter = make(optional_for_nullables="true")
    written = converter.from_connect("proto-whole", SCHEMA, VALUE)
    schema, value = converter.to_connect("proto-whole", written)
    assert schema is not None
    assert plain(value) == plain(VALUE)
    types = {field.name: (field.schema.type, field.schema.name) for field in SCHEMA.fields}
    logical = {name for name, (_, named) in types.items() if named and named.startswith("org.")}
    read = {field.name: field.schema for field in schema.fields}
    assert {name: read[name].type for name in types} == {name: t for name, (t, _) in types.items()}
    assert all(read[name].name == types[name][1] for name in logical)
    assert [name for name, field in read.items() if field.optional] == [
        *("price", "exact", "day", "hour", "at", "maybe", "maybe_at", "map", "by_number"),
        *("by_day", "named_map", "inner", "maybe_inner", "maybe_defaulted", "defaults", "list"),
    ]
    # What was read is written again as it was: numbers of fields are kept.
    again = converter.from_connect("proto-whole-again", schema, value)
    assert again is not None
    assert written is not None
    assert again[5:] == written[5:]


def test_schemas_are_confluents(make: Make, schemas: SchemaRegistry) -> None:
    schema = struct_schema(
        {
            "tiny": INT8_SCHEMA,
            "name": OPTIONAL_STRING_SCHEMA,
            "price": decimal_schema(2),
            "inner": INNER,
            "map": map_schema(STRING_SCHEMA, INT32_SCHEMA, name="Counts"),
            "tags": array_schema(STRING_SCHEMA),
        },
        name="shop.Thing",
    )
    value = Struct(
        schema,
        {
            "tiny": 1,
            "price": Decimal("1.00"),
            "inner": Struct(INNER, {"x": 1}),
            "map": {"a": 1},
            "tags": [],
        },
    )
    make().from_connect("proto-texts", schema, value)
    assert schemas.version("proto-texts-value").text == (
        """syntax = "proto3";
package shop;

import "confluent/meta.proto";
import "confluent/type/decimal.proto";

message Thing {
  int32 tiny = 1 [(confluent.field_meta) = {
    params: [
      {
        key: "connect.type",
        value: "int8"
      }
    ]
  }];
  string name = 2;
  confluent.type.Decimal price = 3 [(confluent.field_meta) = {
    params: [
      {
        key: "scale",
        value: "2"
      }
    ]
  }];
  Inner inner = 4;
  repeated CountsEntry map = 5;
  repeated string tags = 6;

  message Inner {
    int32 x = 1;
    string y = 2;
  }
  message CountsEntry {
    string key = 1;
    int32 value = 2;
  }
}
"""
    )


def test_nulls_are_kept_by_optional_fields_or_wrappers(make: Make) -> None:
    schema = struct_schema({"a": OPTIONAL_INT32_SCHEMA, "b": OPTIONAL_STRING_SCHEMA}, name="N")
    value = Struct(schema, {"a": 0, "b": None})
    for number, (setting, expected) in enumerate(
        (
            ({}, {"a": 0, "b": ""}),  # proto3 alone does not distinguish null from unset
            ({"optional_for_nullables": "true"}, {"a": 0, "b": None}),
            ({"wrapper_for_nullables": "true"}, {"a": 0, "b": None}),
        )
    ):
        converter = make(**setting)
        topic = f"proto-nulls-{number}"
        found = converter.to_connect(topic, converter.from_connect(topic, schema, value))[1]
        assert dict(found) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [(INT32_SCHEMA, 5), (STRING_SCHEMA, "k"), (BYTES_SCHEMA, b"\x01"), (FLOAT64_SCHEMA, 0.0)],
)
def test_single_values_are_googles_wrappers(make: Make, schema: Schema, value: Any) -> None:
    topic = f"proto-single-{schema.type}"
    written = make().from_connect(topic, schema, value)
    assert make().to_connect(topic, written) == (schema.replace(version=1), value)
    struct, message = make(wrapper_for_raw_primitives="false").to_connect(topic, written)
    assert struct is not None
    assert struct.type is Type.STRUCT
    assert message["value"] == value


def test_values_that_protobuf_cannot_hold_are_refused(make: Make) -> None:
    for schema, value, message in (
        (array_schema(INT32_SCHEMA), [1], "root schema of type ARRAY"),
        (None, {"a": 1}, "needs a schema"),
        (date_schema(), datetime.date(2000, 1, 1), "root schema of type INT32"),
    ):
        with pytest.raises(DataException, match=message):
            make().from_connect("proto-refused", schema, value)
    nested = struct_schema({"a": array_schema(array_schema(INT32_SCHEMA))}, name="A")
    with pytest.raises(DataException, match="arrays of arrays"):
        make().from_connect("proto-refused", nested, Struct(nested, {"a": [[1]]}))


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { int32 o = 1; }
message Order {
  int64 id = 1;
  uint64 huge = 2;
  fixed32 small = 3;
  Colour colour = 4;
  google.protobuf.Timestamp at = 5;
  repeated Line lines = 6;
  map<string, Line> by_name = 7;
  oneof payment { string card = 8; Line cash = 9; }
  optional string note = 10;
  enum Colour { RED = 0; BLUE = 3; }
  message Line { int32 n = 1; }
}
"""


def order() -> Any:
    types = MessageTypes(parse("PROTOBUF", PROTO, {}))
    return types.by_name("shop.Order")(
        id=1,
        huge=2**64 - 1,
        small=2**32 - 1,
        colour=3,
        at=datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC),
        lines=[{"n": 1}, {"n": 2}],
        by_name={"a": {"n": 3}},
        cash={"n": 0},
    )


def test_messages_of_others_are_read(make: Make, confluent: SchemaRegistryClient) -> None:
    message = order()
    serializer = ProtobufSerializer(type(message), confluent, {"use.deprecated.format": False})
    data = serializer(message, context("proto-orders"))
    schema, value = make().to_connect("proto-orders", data)
    assert schema is not None
    assert (schema.name, schema.version) == ("Order", 1)
    assert plain(value) == {
        "payment_0": {"card": None, "cash": {"n": 0}},
        "id": 1,
        "huge": -1,
        "small": 2**32 - 1,
        "colour": "BLUE",
        "at": datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC),
        "lines": [{"n": 1}, {"n": 2}],
        "by_name": {"a": {"n": 3}},
        "note": None,
    }
    colour = schema.field("colour")
    assert colour is not None
    assert colour.schema.parameters == {
        f"{NAMESPACE}.Enum": "Colour",
        f"{NAMESPACE}.Enum.RED": "0",
        f"{NAMESPACE}.Enum.BLUE": "3",
        f"{NAMESPACE}.Tag": "4",
    }
    full, _ = make(enhanced_protobuf_schema_support="true").to_connect("proto-orders", data)
    assert full is not None
    assert full.name == "shop.Order"


@pytest.mark.parametrize(
    ("settings", "field", "expected"),
    [
        ({"int_for_enums": "true"}, "colour", 3),
        ({"flatten_unions": "true"}, "cash", {"n": 0}),
        ({"generate_index_for_unions": "false"}, "payment", {"card": None, "cash": {"n": 0}}),
        ({"generalized_sum_type_support": "true"}, "payment_0", {"card": None, "cash": {"n": 0}}),
    ],
)
def test_a_read_message_can_be_written_again(
    make: Make,
    confluent: SchemaRegistryClient,
    settings: dict[str, str],
    field: str,
    expected: Any,
) -> None:
    message = order()
    topic = f"proto-{field}-{len(settings)}"
    serializer = ProtobufSerializer(type(message), confluent, {"use.deprecated.format": False})
    data = serializer(message, context(topic))
    converter = make(**settings)
    schema, value = converter.to_connect(topic, data)
    assert plain(value[field]) == expected
    assert schema is not None
    again = converter.from_connect(f"{topic}-again", schema, value)
    assert again is not None
    read = type(message).FromString(again[6:])  # the first message of its file: one index byte
    assert read.WhichOneof("payment") == "cash"
    assert (read.huge, read.small, read.colour) == (2**64 - 1, 2**32 - 1, 3)
    assert read == message


def test_confluents_deserializer_reads_what_is_written(
    make: Make, confluent: SchemaRegistryClient, schemas: SchemaRegistry
) -> None:
    schema = struct_schema(
        {
            "id": INT32_SCHEMA,
            "at": timestamp_schema(),
            "map": map_schema(INT32_SCHEMA, STRING_SCHEMA),
        },
        name="shop.Sold",
    )
    at = datetime.datetime(2026, 11, 18, 1, 2, 3, 4000, tzinfo=datetime.UTC)
    written = make().from_connect(
        "proto-interop", schema, Struct(schema, {"id": 1, "at": at, "map": {5: "five"}})
    )
    registered = schemas.version("proto-interop-value")
    message_class = MessageTypes(schemas.parsed(registered)).by_name("shop.Sold")
    deserializer = ProtobufDeserializer(
        message_class, {"use.deprecated.format": False}, schema_registry_client=confluent
    )
    found = deserializer(written, context("proto-interop"))
    assert (found.id, found.at.ToMilliseconds()) == (1, at.timestamp() * 1000)
    assert [(entry.key, entry.value) for entry in found.map] == [(5, "five")]


def test_the_latest_version_is_written_with(make: Make, schemas: SchemaRegistry) -> None:
    text = (
        'syntax = "proto3"; message First { int32 f = 1; } message R { int64 b = 7; int32 a = 3; }'
    )
    latest = schemas.register("proto-latest-value", "PROTOBUF", text)
    schema = struct_schema({"a": INT32_SCHEMA}, name="R")
    converter = make(
        auto_register_schemas="false",
        use_latest_version="true",
        latest_compatibility_strict="false",
    )
    written = converter.from_connect("proto-latest", schema, Struct(schema, {"a": 5}))
    assert written == b"\x00" + latest.id.to_bytes(4, "big") + b"\x02\x02" + b"\x18\x05"
    read, value = converter.to_connect("proto-latest", written)
    assert read is not None
    assert (read.name, dict(value)) == ("R", {"b": 0, "a": 5})


def test_an_error_names_the_schema_id(make: Make, schemas: SchemaRegistry) -> None:
    id = schemas.register("proto-bad-value", "PROTOBUF", PROTO).id
    frame = b"\x00" + id.to_bytes(4, "big")
    for payload in (b"\x02\x02\xff", b"\x02\x0a", b"\x05"):
        with pytest.raises(DataException, match=f"topic proto-bad to Protobuf: schema id {id}: "):
            make().to_connect("proto-bad", frame + payload)
    text = 'syntax = "proto3"; message Tree { repeated Tree below = 1; }'
    id = schemas.register("proto-tree-value", "PROTOBUF", text).id
    with pytest.raises(DataException, match="The message Tree contains itself"):
        make().to_connect("proto-tree", b"\x00" + id.to_bytes(4, "big") + b"\x00")
