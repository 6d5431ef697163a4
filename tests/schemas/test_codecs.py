"""Python values as bytes and back, by a schema: Avro, Protobuf, and what JSON Schema allows."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal

import pytest

from ottla.schemas.avro.codec import AvroCodec
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.json_schema.validator import InvalidValue, JsonValidator
from ottla.schemas.protobuf.message_types import MessageTypes, message_indexes, message_name
from ottla.schemas.protobuf.values import MessageValues
from ottla.schemas.schema_types import ParsedSchema, parse

ORDER = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal",
                             "precision": 9, "scale": 2}},
  {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
  {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
  {"name": "next", "type": ["null", "Order"], "default": null}]}"""

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "common.proto";
enum State { NEW = 0; PAID = 1; }
message First { int32 n = 1; }
message Order {
  message Line { string sku = 1; int32 count = 2; }
  int64 id = 1;
  google.protobuf.Timestamp at = 2;
  map<string, Line> by_sku = 3;
  repeated Line lines = 4;
  State state = 5;
  google.protobuf.StringValue note = 6;
  optional int32 maybe = 7;
  oneof pay { string card = 8; bytes cash = 9; }
  google.protobuf.Struct extra = 10;
  common.Address address = 11;
  Order next = 12;
  repeated google.protobuf.Int64Value counts = 13;
}
"""
COMMON = 'syntax = "proto3"; package common; message Address { string street = 1; }'


def test_avro_writes_and_reads_logical_types_and_recursion() -> None:
    codec = AvroCodec(parse("AVRO", ORDER, {}))
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=datetime.UTC)
    inner = {
        "id": 1,
        "at": at,
        "price": Decimal("1.50"),
        "key": uuid.UUID(int=7),
        "state": "NEW",
        "next": None,
    }
    order = {**inner, "id": 2, "state": "PAID", "next": inner}
    data = codec.encode(order)
    assert codec.decode(data) == order
    assert codec.decode(b"12345" + data, 5) == order


def test_avro_resolves_references_and_the_readers_schema() -> None:
    address = '{"type": "record", "name": "a.Address", "fields": [{"name": "s", "type": "string"}]}'
    old = parse(
        "AVRO",
        '{"type": "record", "name": "P", "fields": [{"name": "at", "type": "a.Address"}]}',
        {"a.Address": address},
    )
    new = parse(
        "AVRO",
        '{"type": "record", "name": "P", "fields": ['
        '{"name": "n", "type": "int", "default": 3}, {"name": "at", "type": "a.Address"}]}',
        {"a.Address": address},
    )
    data = AvroCodec(old).encode({"at": {"s": "x"}})
    assert AvroCodec(old, new).decode(data) == {"n": 3, "at": {"s": "x"}}


def test_avro_writes_top_level_bytes_without_a_size() -> None:
    codec = AvroCodec(parse("AVRO", '"bytes"', {}))
    assert codec.encode(b"abc") == b"abc"
    assert codec.decode(b".....abc", 5) == b"abc"


def test_an_endlessly_nested_record_is_an_error_and_no_crash() -> None:
    text = '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}'
    codec = AvroCodec(parse("AVRO", text, {}))
    assert codec.decode(b"\x02\x00") == {"next": {"next": None}}
    with pytest.raises(RecursionError):
        codec.decode(b"\x02" * 100_000 + b"\x00")


def test_items_that_take_no_bytes_are_bounded() -> None:
    """Nine bytes can claim 2^62 of them."""
    nulls = AvroCodec(parse("AVRO", '{"type": "array", "items": "null"}', {}))
    assert nulls.decode(nulls.encode([None] * 900)) == [None] * 900
    claims = b"\xfe" + b"\xff" * 8 + b"\x01\x00"
    for data in (claims, b"\xd0\x0f" * 50 + b"\0", b"\xff" * 9 + b"\x01\x00\x00"):
        with pytest.raises(ValueError, match="take no bytes"):
            nulls.decode(data)
    record = """{"type": "record", "name": "R", "fields": [
        {"name": "text", "type": "string"}, {"name": "map", "type": {"type": "map",
        "values": ["double", {"type": "fixed", "name": "F", "size": 2}, "R"]}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "none", "type": {"type": "array", "items":
            {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}}}]}"""
    codec = AvroCodec(parse("AVRO", record, {}))
    inner = {"text": "", "map": {}, "kind": "A", "none": []}
    value = {"text": "x" * 99, "map": {"a": 1.5, "b": b"xy", "c": inner}, "kind": "B"}
    data = codec.encode({**value, "none": [{"n": None}] * 3})
    assert codec.decode(b"." + data, 1) == {**value, "none": [{"n": None}] * 3}
    with pytest.raises(ValueError, match="take no bytes"):
        codec.decode(data[:-2] + claims)
    with pytest.raises(ValueError, match="end too early"):
        codec.decode(data[:-2])
    with pytest.raises(ValueError, match="no branch number 9"):
        codec.decode(data[:104] + b"\x12" + data[105:])


def test_a_schema_whose_empty_values_double_with_each_record_is_refused() -> None:
    fields = '{"name": "a", "type": %s}, {"name": "b", "type": "%s"}'
    text, name = '{"type": "record", "name": "R0", "fields": []}', "R0"
    for number in range(1, 60):
        inner = fields % (text, name)
        name = f"R{number}"
        text = f'{{"type": "record", "name": "{name}", "fields": [{inner}]}}'
    with pytest.raises(ValueError, match="values that take no bytes"):
        AvroCodec(parse("AVRO", text, {}))


def _proto() -> ParsedSchema:
    return parse("PROTOBUF", PROTO, {"common.proto": COMMON})


def test_protobuf_messages_survive_as_dicts() -> None:
    types = MessageTypes(_proto())
    values = MessageValues(types.by_name("shop.Order"))
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=datetime.UTC)
    order = {
        "id": 2**40,
        "at": at,
        "by_sku": {"a": {"sku": "a", "count": 1}},
        "lines": [{"sku": "b", "count": 2}],
        "state": "PAID",
        "note": "thanks",
        "maybe": 0,
        "card": None,
        "cash": b"\x00",
        "extra": {"deep": [1.0, None, {"x": True}]},
        "address": {"street": "Main"},
        "next": None,
        "counts": [1, 2],
    }
    data = values.from_dict(order).SerializeToString()
    message = types.by_name("shop.Order").FromString(data)
    assert values.to_dict(message) == order
    nested = {**order, "next": order}
    again = types.by_name("shop.Order").FromString(values.from_dict(nested).SerializeToString())
    assert values.to_dict(again) == nested


def test_protobuf_finds_messages_by_their_indexes() -> None:
    schema = _proto()
    types = MessageTypes(schema)
    file = schema.body.file
    assert message_name(file, (1, 0)) == "shop.Order.Line"
    assert message_indexes(file, "shop.Order.Line") == (1, 0)
    assert message_indexes(file, "First") == (0,)
    assert types.by_indexes((1, 0)).DESCRIPTOR.full_name == "shop.Order.Line"
    assert types.by_indexes((1, 0)) is types.by_indexes([1, 0])
    with pytest.raises(InvalidSchema, match=r"no message at the indexes \[5\]"):
        types.by_indexes((5,))


def test_two_versions_of_a_message_do_not_conflict() -> None:
    old = MessageTypes(parse("PROTOBUF", 'syntax = "proto3"; message A { int32 a = 1; }', {}))
    new = MessageTypes(parse("PROTOBUF", 'syntax = "proto3"; message A { string a = 1; }', {}))
    assert new.by_name("A")(a="x").a == "x"
    assert old.by_name("A")(a=1).a == 1


def test_protobuf_knows_confluents_own_types() -> None:
    text = """syntax = "proto3"; import "confluent/type/decimal.proto";
              import "confluent/meta.proto";
              message A { confluent.type.Decimal d = 1 [(confluent.field_meta).doc = "x"]; }"""
    values = MessageValues(MessageTypes(parse("PROTOBUF", text, {})).by_name("A"))
    value = {"d": {"value": b"\x01", "precision": 3, "scale": 1}}
    assert values.to_dict(values.from_dict(value)) == value


def test_json_values_are_checked_with_references() -> None:
    schema = parse(
        "JSON",
        '{"type": "object", "properties": {"to": {"$ref": "address.json"}}, "required": ["to"]}',
        {"address.json": '{"type": "object", "properties": {"street": {"type": "string"}}}'},
    )
    validator = JsonValidator(schema)
    validator.check({"to": {"street": "Main"}})
    with pytest.raises(InvalidValue, match=r"\['to'\]\['street'\]: 1 is not of type \"string\""):
        validator.check({"to": {"street": 1}})


def test_the_draft_determines_the_meaning_of_a_keyword() -> None:
    """Draft 7 ignores siblings of $ref; since 2019-09 they apply."""
    text = '{"$schema": "%s", "$ref": "#/definitions/a", "maximum": 1, "definitions": {"a": {}}}'
    JsonValidator(parse("JSON", text % "http://json-schema.org/draft-07/schema#", {})).check(5)
    late = JsonValidator(parse("JSON", text % "https://json-schema.org/draft/2020-12/schema", {}))
    with pytest.raises(InvalidValue):
        late.check(5)
