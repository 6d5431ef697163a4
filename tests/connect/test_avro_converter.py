"""AvroConverter: schemas and values as Avro, and as other clients read them."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client import Avro
from ottla.client.schema_registry import SchemaRegistry
from ottla.connect.converters.avro import AvroConverter
from ottla.connect.converters.json_schema_converter import JsonSchemaConverter
from ottla.connect.converters.protobuf import ProtobufConverter
from ottla.connect.converters.registry_converter import RegistryConverter
from ottla.connect.data import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SourceRecord,
    Struct,
    Type,
    array_schema,
    date_schema,
    decimal_schema,
    map_schema,
    struct_schema,
    time_schema,
    timestamp_schema,
)
from ottla.connect.errors import (
    ConfigException,
    ConnectException,
    DataException,
    RetriableException,
)
from ottla.connect.transformation_chain import ConsumedRow, ProducedRow, TransformationChain
from ottla.schemas.framing import with_guid, with_id

AVRO = "io.confluent.connect.avro.AvroConverter"
NAMESPACE = "io.confluent.connect.avro"
Make = Callable[..., RegistryConverter]
INNER = struct_schema({"x": INT32_SCHEMA, "y": OPTIONAL_STRING_SCHEMA}, name="shop.Inner")
WHOLE = struct_schema(
    {
        "tiny": INT8_SCHEMA,
        "small": INT16_SCHEMA,
        "int": INT32_SCHEMA,
        "long": INT64_SCHEMA,
        "float": FLOAT32_SCHEMA,
        "double": FLOAT64_SCHEMA,
        "flag": BOOLEAN_SCHEMA,
        "text": STRING_SCHEMA,
        "raw": BYTES_SCHEMA,
        "price": decimal_schema(2),
        "exact": decimal_schema(2, parameters={"connect.decimal.precision": "10"}),
        "day": date_schema(),
        "hour": time_schema(),
        "at": timestamp_schema(),
        "maybe": OPTIONAL_INT32_SCHEMA,
        "maybe_at": timestamp_schema(optional=True),
        "list": array_schema(OPTIONAL_STRING_SCHEMA),
        "map": map_schema(STRING_SCHEMA, INT32_SCHEMA),
        "by_number": map_schema(INT32_SCHEMA, INNER),
        "by_day": map_schema(date_schema(), STRING_SCHEMA),
        "named_map": map_schema(INT64_SCHEMA, STRING_SCHEMA, name="shop.Names"),
        "inner": INNER,
        "maybe_inner": INNER.as_optional(),
        "defaulted": Schema(Type.INT32, default=7),
        "maybe_defaulted": Schema(Type.STRING, optional=True, default="x"),
        "noted": Schema(
            Type.STRING, doc="a note", version=3, name="shop.Noted", parameters={"a": "b"}
        ),
        "defaults": array_schema(INT32_SCHEMA, default=[1, 2]),
        "bytes_default": Schema(Type.BYTES, default=b"\x00\xff"),
    },
    name="shop.Whole",
    version=4,
    doc="all of it",
)
INNER_VALUE = Struct(INNER, {"x": 1, "y": None})
VALUE = Struct(
    WHOLE,
    {
        "tiny": -128,
        "small": 32767,
        "int": -(2**31),
        "long": 2**63 - 1,
        "float": 0.1,
        "double": 0.1,
        "flag": True,
        "text": "ä€",
        "raw": b"\x00\x01",
        "price": Decimal("-12.34"),
        "exact": Decimal("0.01"),
        "day": datetime.date(2026, 11, 18),
        "hour": datetime.time(13, 14, 15, 16000),
        "at": datetime.datetime(2026, 11, 18, 1, 2, 3, 4000, tzinfo=datetime.UTC),
        "maybe": None,
        "maybe_at": None,
        "list": ["a", None],
        "map": {"one": 1},
        "by_number": {1: INNER_VALUE, 2: Struct(INNER, {"x": 2, "y": "z"})},
        "by_day": {datetime.date(1970, 1, 2): "second"},
        "named_map": {5: "five"},
        "inner": INNER_VALUE,
        "maybe_inner": Struct(INNER.as_optional(), {"x": 1}),
        "defaulted": 8,
        "maybe_defaulted": "y",
        "noted": "n",
        "defaults": [3],
        "bytes_default": b"b",
    },
)


@pytest.fixture
def make(configured: Callable[..., RegistryConverter]) -> Make:
    return partial(configured, AvroConverter)


def text_of(schemas: SchemaRegistry, subject: str) -> Any:
    return json.loads(schemas.version(subject).text)


def test_every_connect_type_survives_a_round_trip(make: Make) -> None:
    written = make().from_connect("whole", WHOLE, VALUE)
    schema, value = make().to_connect("whole", written)
    assert schema == WHOLE
    assert value == VALUE


def test_schemas_are_confluents_property_by_property(make: Make, schemas: SchemaRegistry) -> None:
    schema = struct_schema(
        {
            "tiny": INT8_SCHEMA,
            "at": timestamp_schema(optional=True),
            "price": decimal_schema(2),
            "by_number": map_schema(INT32_SCHEMA, STRING_SCHEMA),
        }
    )
    make().from_connect(
        "texts", schema, Struct(schema, {"tiny": 1, "price": Decimal("1.00"), "by_number": {}})
    )
    connect = "org.apache.kafka.connect.data"
    at = {
        "type": "long",
        "connect.version": 1,
        "connect.name": f"{connect}.Timestamp",
        "logicalType": "timestamp-millis",
    }
    price = {
        "type": "bytes",
        "scale": 2,
        "precision": 64,
        "connect.version": 1,
        "connect.parameters": {"scale": "2"},
        "connect.name": f"{connect}.Decimal",
        "logicalType": "decimal",
    }
    entry = {
        "type": "record",
        "name": "MapEntry",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
    }
    assert text_of(schemas, "texts-value") == {
        "type": "record",
        "name": "ConnectDefault",
        "namespace": NAMESPACE,
        "fields": [
            {"name": "tiny", "type": {"type": "int", "connect.type": "int8"}},
            {"name": "at", "type": ["null", at], "default": None},
            {"name": "price", "type": price},
            {"name": "by_number", "type": {"type": "array", "items": entry}},
        ],
    }


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT32_SCHEMA, 5),
        (STRING_SCHEMA, "k"),
        (BYTES_SCHEMA, b"\x01"),
        (array_schema(INT64_SCHEMA), [1, 2]),
        (
            map_schema(STRING_SCHEMA, array_schema(date_schema())),
            {"a": [datetime.date(2000, 1, 1)]},
        ),
        (OPTIONAL_INT32_SCHEMA, 6),
        (None, {"a": [1, 2.5, None, b"x"], "b": {"c": True}}),
        (None, "plain"),
    ],
)
def test_values_other_than_structs_are_written(make: Make, schema: Any, value: Any) -> None:
    topic = f"single-{abs(hash(repr((schema, value))))}"
    written = make().from_connect(topic, schema, value)
    read, found = make().to_connect(topic, written)
    assert found == value
    is_union = schema is None or schema.optional  # which has no version
    assert read == (schema if is_union else schema.replace(version=1))


def test_nulls_are_tombstones_where_they_may_be(make: Make) -> None:
    assert make().from_connect("n", None, None) is None
    assert make().from_connect("n", OPTIONAL_INT32_SCHEMA, None) is None
    assert make().to_connect("n", None) == (None, None)
    with pytest.raises(DataException, match="null value for non-optional"):
        make().from_connect("n", INT32_SCHEMA, None)


def test_a_default_stands_in_for_null(make: Make) -> None:
    schema = struct_schema({"a": Schema(Type.INT32, optional=True, default=7)}, name="D")
    empty = Struct(schema)
    assert make().to_connect("d1", make().from_connect("d1", schema, empty))[1]["a"] == 7
    ignoring = make(ignore_default_for_nullables="true")
    found = ignoring.to_connect("d2", ignoring.from_connect("d2", schema, empty))[1]
    assert found.get_without_default("a") is None


UNION_TEXT = {
    "type": "record",
    "name": "shop.Event",
    "fields": [
        {
            "name": "what",
            "type": [
                "null",
                "int",
                "long",
                "string",
                {"type": "enum", "name": "shop.Colour", "symbols": ["RED", "BLUE"]},
                {"type": "record", "name": "shop.A", "fields": [{"name": "x", "type": "int"}]},
                {"type": "record", "name": "shop.B", "fields": [{"name": "x", "type": "int"}]},
                {"type": "fixed", "name": "shop.F", "size": 2},
            ],
        },
        {"name": "colour", "type": "shop.Colour", "default": "BLUE"},
    ],
}


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.mark.parametrize("generalized", ["false", "true"])
@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, None),
        (("int", 1), "int"),
        (("long", 1), "long"),
        ("text", "string"),
        (("shop.Colour", "RED"), "Colour"),
        (("shop.A", {"x": 1}), "A"),
        (("shop.B", {"x": 1}), "B"),
        (("shop.F", b"ab"), "F"),
    ],
)
def test_unions_keep_their_branch(
    make: Make, confluent: SchemaRegistryClient, value: Any, field: str | None, generalized: str
) -> None:
    topic = f"unions-{field}-{generalized}"
    serializer = AvroSerializer(confluent, json.dumps(UNION_TEXT))
    data = serializer({"what": value, "colour": "BLUE"}, context(topic))
    converter = make(enhanced_avro_schema_support="true", generalized_sum_type_support=generalized)
    schema, found = converter.to_connect(topic, data)
    assert schema is not None
    set_fields = [name for name, item in (found["what"] or {}).items() if item is not None]
    if field is None:
        assert set_fields == []
    elif generalized == "false":
        expected = {"int": "int", "long": "long", "string": "string"}.get(field, f"shop.{field}")
        assert set_fields == [expected]
    else:
        assert len(set_fields) == 1
        assert set_fields[0].startswith("connect_union_field_")
    assert found["colour"] == "BLUE"
    # The same bytes are written again, under their own subject.
    again = converter.from_connect(f"{topic}-again", schema, found)
    assert again is not None
    assert again[5:] == data[5:]


def test_enums_are_strings_unless_support_is_enhanced(
    make: Make, schemas: SchemaRegistry, confluent: SchemaRegistryClient
) -> None:
    colour = {"type": "enum", "name": "shop.Colour", "symbols": ["RED", "BLUE"], "doc": "hue"}
    text = {"type": "record", "name": "E", "fields": [{"name": "c", "type": colour}]}
    data = AvroSerializer(confluent, json.dumps(text))({"c": "RED"}, context("en"))
    schema, value = make().to_connect("en", data)
    assert schema is not None
    assert value["c"] == "RED"
    assert schema.field("c").schema.parameters == {  # type: ignore[union-attr]
        f"{NAMESPACE}.enum.doc.Colour": "hue",
        f"{NAMESPACE}.Enum": "shop.Colour",
        f"{NAMESPACE}.Enum.RED": "RED",
        f"{NAMESPACE}.Enum.BLUE": "BLUE",
    }
    make().from_connect("plain-enum", schema, value)
    assert text_of(schemas, "plain-enum-value")["fields"][0]["type"]["type"] == "string"
    make(enhanced_avro_schema_support="true").from_connect("enum", schema, value)
    written = text_of(schemas, "enum-value")["fields"][0]["type"]
    assert (written["type"], written["symbols"]) == ("enum", ["RED", "BLUE"])


@pytest.mark.parametrize(("flatten", "expected"), [("true", 3), ("false", {"int": 3})])
def test_a_union_of_one_type_is_that_type(
    make: Make, confluent: SchemaRegistryClient, flatten: str, expected: Any
) -> None:
    text = {"type": "record", "name": "S", "fields": [{"name": "a", "type": ["int"]}]}
    data = AvroSerializer(confluent, json.dumps(text))({"a": 3}, context("singles"))
    _, value = make(flatten_singleton_unions=flatten).to_connect("singles", data)
    assert (value["a"] if flatten == "true" else dict(value["a"])) == expected


def test_fixed_decimals_are_padded(make: Make) -> None:
    schema = decimal_schema(2, parameters={"connect.fixed.size": "8"})
    for value in (Decimal("0.00"), Decimal("-1.00"), Decimal("99999999.99")):
        written = make().from_connect("fixed", schema, value)
        assert written is not None
        assert len(written) == 5 + 8
        assert make().to_connect("fixed", written)[1] == value
    with pytest.raises(DataException, match="has 8"):
        make().from_connect("fixed", schema, Decimal(f"{10**30}.00"))


def test_a_top_level_decimal_is_readable_by_the_serde(make: Make, registry_url: str) -> None:
    written = make().from_connect("price", decimal_schema(2), Decimal("12.34"))
    assert written is not None
    assert written[5:] == b"\x04\xd2"
    assert Avro[Any](registry=registry_url).deserialize("price", written) == Decimal("12.34")
    text = '{"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}'
    serde: Avro[Any] = Avro(schema=text, registry=registry_url)
    data = serde.serialize("other-price", Decimal("-0.01"))
    assert make().to_connect("other-price", data)[1] == Decimal("-0.01")


def test_schema_rules_are_not_bypassed(make: Make, schemas: SchemaRegistry) -> None:
    written = make().from_connect("ruled", STRING_SCHEMA, "x")
    rules = [{"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITEREAD", "expr": "true"}]
    body = {"schema": '"string"', "ruleSet": {"domainRules": rules}}
    found = schemas.ask("POST", "subjects", "ruled-value", "versions", body=body)
    latest = {"auto_register_schemas": "false", "use_latest_version": "true"}
    with pytest.raises(DataException, match=r"rules for WRITE \(r\)"):
        make(**latest).from_connect("ruled", STRING_SCHEMA, "x")
    assert written is not None
    with pytest.raises(DataException, match=r"rules for READ \(r\)"):
        make().to_connect("ruled", with_id(found["id"], written[5:]))
    assert make().to_connect("ruled", written)[1] == "x"


def test_docs_and_defaults_of_avro_are_kept(
    make: Make, schemas: SchemaRegistry, confluent: SchemaRegistryClient
) -> None:
    text = {
        "type": "record",
        "name": "Documented",
        "doc": "of the record",
        "fields": [{"name": "a", "type": "int", "default": 9, "doc": "of the field"}],
    }
    data = AvroSerializer(confluent, json.dumps(text))({"a": 1}, context("docs"))
    schema, value = make().to_connect("docs", data)
    assert schema is not None
    assert schema.parameters == {
        f"{NAMESPACE}.record.doc": "of the record",
        f"{NAMESPACE}.field.doc.a": "of the field",
    }
    inner = schema.field("a").schema  # type: ignore[union-attr]
    assert (inner.default, inner.parameters) == (9, {f"{NAMESPACE}.field.default": "true"})
    make().from_connect("docs-again", schema, value)
    again = text_of(schemas, "docs-again-value")
    assert (again["doc"], again["fields"][0]["doc"]) == ("of the record", "of the field")
    assert again["fields"][0]["default"] == 9
    bare, _ = make(connect_meta_data="false").to_connect("docs", data)
    assert bare is not None
    assert bare.parameters is None


def test_illegal_names_are_scrubbed_when_asked(make: Make, schemas: SchemaRegistry) -> None:
    schema = struct_schema({"a-b": INT32_SCHEMA, "1st": STRING_SCHEMA}, name="my-shop.My Record")
    value = Struct(schema, {"a-b": 1, "1st": "x"})
    with pytest.raises(DataException, match="Illegal name"):
        make().from_connect("illegal", schema, value)
    converter = make(scrub_invalid_names="true")
    _, found = converter.to_connect("scrubbed", converter.from_connect("scrubbed", schema, value))
    text = text_of(schemas, "scrubbed-value")
    assert (text["namespace"], text["name"]) == ("my_shop", "My_Record")
    assert dict(found) == {"a_b": 1, "x1st": "x"}


def test_maps_with_optional_keys(make: Make, schemas: SchemaRegistry) -> None:
    schema = map_schema(OPTIONAL_STRING_SCHEMA, INT32_SCHEMA)
    written = make().from_connect("keys1", schema, {None: 1, "a": 2})
    assert make().to_connect("keys1", written)[1] == {None: 1, "a": 2}
    assert text_of(schemas, "keys1-value")["type"] == "array"
    make(allow_optional_map_keys="true").from_connect("keys2", schema, {"a": 2})
    assert text_of(schemas, "keys2-value")["type"] == "map"


def test_the_latest_version_is_written_with(make: Make, schemas: SchemaRegistry) -> None:
    wider = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "b", "type": "string", "default": "dflt"},
            {"name": "a", "type": "long"},
        ],
    }
    latest = schemas.register("wide-value", "AVRO", json.dumps(wider))
    schema = struct_schema({"a": INT32_SCHEMA}, name="R")
    settings = {"auto_register_schemas": "false", "use_latest_version": "true"}
    converter = make(**settings)
    written = converter.from_connect("wide", schema, Struct(schema, {"a": 5}))
    assert written is not None
    assert int.from_bytes(written[1:5], "big") == latest.id
    assert dict(converter.to_connect("wide", written)[1]) == {"b": "dflt", "a": 5}
    other = struct_schema({"a": STRING_SCHEMA}, name="R")
    with pytest.raises(DataException, match=r"latest.compatibility.strict"):
        make(**settings).from_connect("wide", other, Struct(other, {"a": "x"}))


def test_without_auto_registration_a_schema_must_exist(make: Make) -> None:
    converter = make(auto_register_schemas="false")
    with pytest.raises(DataException, match="Failed to serialize data for topic strict from Avro"):
        converter.from_connect("strict", INT32_SCHEMA, 1)
    make().from_connect("strict", INT32_SCHEMA, 1)
    assert converter.from_connect("strict", INT32_SCHEMA, 1)


def test_subjects_are_named_by_their_strategy(
    make: Make, schemas: SchemaRegistry, confluent: SchemaRegistryClient
) -> None:
    package = "io.confluent.kafka.serializers.subject"
    for strategy in ("RecordNameStrategy", f"{package}.TopicRecordNameStrategy"):
        converter = make(value_subject_name_strategy=strategy)
        written = converter.from_connect("named", INNER, INNER_VALUE)
        schema, value = converter.to_connect("named", written)
        assert (schema, dict(value)) == (INNER.replace(version=1), dict(INNER_VALUE))
    assert {"shop.Inner", "named-shop.Inner"} <= set(schemas.subjects())
    with pytest.raises(DataException, match="this subject name strategy needs a schema"):
        make(value_subject_name_strategy="RecordNameStrategy").from_connect(
            "named", INT32_SCHEMA, 1
        )
    with pytest.raises(ConfigException, match=r"value.subject.name.strategy"):
        make(value_subject_name_strategy="Other")


def test_confluents_deserializer_reads_what_is_written(
    make: Make, confluent: SchemaRegistryClient
) -> None:
    written = make().from_connect("interop", WHOLE, VALUE)
    found = AvroDeserializer(confluent)(written, context("interop"))
    assert found["tiny"] == -128
    assert found["price"] == Decimal("-12.34")
    assert found["at"] == VALUE["at"]
    assert found["by_day"] == [{"key": datetime.date(1970, 1, 2), "value": "second"}]
    assert found["maybe_inner"] == {"x": 1, "y": None}


def test_records_that_cannot_be_read_say_where_they_are(
    registry_url: str, schemas: SchemaRegistry
) -> None:
    letters: list[ProducedRow] = []
    config = {
        "key.converter": "StringConverter",
        "value.converter": AVRO,
        "value.converter.schema.registry.url": registry_url,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    chain = TransformationChain(config, connector="c", on_dead_letter=letters.append)
    registered = schemas.register("bad-value", "AVRO", '"string"')
    unknown = ConsumedRow("bad", 3, 41, 0, 0, None, b"\x00\x00\x0f\xff\xff\x02a", ())
    cut_off = unknown._replace(value=b"\x00" + registered.id.to_bytes(4, "big") + b"\x7fa")
    unframed = unknown._replace(value=b'{"a": 1}')
    assert [chain.sink(row) for row in (unknown, cut_off, unframed)] == [None, None, None]
    prefix = "__connect.errors."
    letter_headers = [dict(letter.headers) for letter in letters]
    assert [headers[f"{prefix}offset"] for headers in letter_headers] == [b"41"] * 3
    messages = [
        (headers[f"{prefix}exception.message"] or b"").decode() for headers in letter_headers
    ]
    assert "schema id 1048575: " in messages[0]
    assert f"schema id {registered.id}: " in messages[1]
    assert "the first is 0x7b" in messages[2]
    assert all("data for topic bad to Avro" in message for message in messages)
    strict = TransformationChain({**config, "errors.tolerance": "none"}, connector="c")
    with pytest.raises(ConnectException, match="Tolerance exceeded") as raised:
        strict.sink(cut_off)
    chain.close()
    strict.close()
    cause = raised.value.__cause__
    assert cause is not None
    assert cause.__notes__ == ["topic='bad', partition=3, offset=41"]


def test_a_schema_may_be_named_by_a_header(registry_url: str, schemas: SchemaRegistry) -> None:
    registered = schemas.register("headed-value", "AVRO", '"string"')
    chain = TransformationChain(
        {
            "key.converter": "StringConverter",
            "value.converter": AVRO,
            "value.converter.schema.registry.url": registry_url,
        },
        connector="c",
    )
    for header in (with_guid(registered.guid, b""), with_id(registered.id, b"")):
        headers = (("__key_schema_id", b"x"), ("__value_schema_id", header))
        record = chain.sink(ConsumedRow("headed", 0, 0, 0, 0, b"k", b"\x04hi", headers))
        assert record is not None
        assert (record.key, record.value) == ("k", "hi")
    chain.close()


def test_an_unavailable_registry_is_retriable() -> None:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": "http://127.0.0.1:1", "converter.type": "value"})
    with pytest.raises(RetriableException, match="No schema registry answers"):
        converter.from_connect("t", INT32_SCHEMA, 1)


def test_a_recursive_schema_is_rejected(make: Make, confluent: SchemaRegistryClient) -> None:
    node = {
        "type": "record",
        "name": "tree.Node",
        "fields": [{"name": "next", "type": ["null", "tree.Node"]}],
    }
    data = AvroSerializer(confluent, json.dumps(node))({"next": None}, context("tree"))
    with pytest.raises(DataException, match=r"schema id \d+: The record tree.Node contains itself"):
        make().to_connect("tree", data)


def test_the_documented_example_works_and_every_setting_is_listed(registry_url: str) -> None:
    """docs/connect.md: its config works as printed, and its tables list every setting."""
    page = (Path(__file__).parents[2] / "docs" / "connect.md").read_text(encoding="utf-8")
    section = page.partition("## Converters")[2].partition("\n## ")[0]
    (example,) = re.findall(r"^```json\n(.*?)^```$", section, re.M | re.S)
    chain = TransformationChain(
        json.loads(example.replace("http://localhost:8081", registry_url)), connector="c"
    )
    record = SourceRecord({}, {}, "paged", value_schema=INNER, value=INNER_VALUE)
    row = chain.source(record)
    assert row is not None
    again = chain.sink(ConsumedRow("paged", 0, 0, 0, 0, None, row.value, ()))
    assert again is not None
    assert dict(again.value) == dict(INNER_VALUE)
    chain.close()
    for converter in (AvroConverter, JsonSchemaConverter, ProtobufConverter):
        for name in converter().config_def().keys:
            short = name.removeprefix("schema.registry.ssl.")
            assert name == "converter.type" or f"`{short}`" in section, name
