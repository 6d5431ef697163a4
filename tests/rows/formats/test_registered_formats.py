"""AVRO, JSON_SR and PROTOBUF with a registry, against the serializers of confluent-kafka."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client.schema_registry import SchemaRegistry
from ottla.errors import KafkaError
from ottla.rows import types as t
from ottla.rows.errors import SqlError
from ottla.rows.formats import Decoder, Encoder, arrow_schema
from ottla.rows.formats.arrow import arrow_array
from ottla.rows.formats.codec import codec_of
from ottla.rows.formats.registry_format import Frames
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema, Role
from ottla.schemas import framing
from ottla.schemas.protobuf.message_types import MessageTypes
from ottla.schemas.schema_types import parse
from ottla.testing import LocalCluster

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": "double"},
    ],
}
COLUMNS = [
    Column("ID", t.BIGINT),
    Column("NAME", t.STRING),
    Column("PRICE", t.DOUBLE),
    Column("TAGS", t.map_of(t.STRING, t.INTEGER)),
    Column("AT", t.TIMESTAMP),
    Column("COST", t.decimal(8, 2)),
    Column("PLACE", t.struct(("CITY", t.STRING), ("CODES", t.array(t.BIGINT)))),
    Column("DAY", t.DATE),
    Column("HOUR", t.TIME),
    Column("RAW", t.BYTES),
    Column("OK", t.BOOLEAN),
]
PROTOBUFS = ("PROTOBUF", "PROTOBUF_NOSR")
ROW = {
    "ID": 1,
    "NAME": "ann",
    "PRICE": 2.5,
    "TAGS": {"a": 1, "b": 2},
    "AT": dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC),
    "COST": Decimal("-12.34"),
    "PLACE": {"CITY": "Ulm", "CODES": [1, 2]},
    "DAY": dt.date(2026, 2, 3),
    "HOUR": dt.time(1, 2, 3, 4000),
    "RAW": b"\0\1",
    "OK": True,
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(registry=True) as cluster:
        yield cluster.registry_url


@pytest.fixture(scope="module")
def registry(url: str) -> Iterator[SchemaRegistry]:
    made = SchemaRegistry(url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def theirs(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as made:
        yield made


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def format_of(name: str, topic: str, *, wrapped: bool = True, **properties: str) -> FormatInfo:
    subject = {} if name == "PROTOBUF_NOSR" else {"SUBJECT": f"{topic}-value"}
    return FormatInfo(name, wrapped, {**subject, **properties})


def batch(columns: list[Column], rows: list[dict[str, Any]]) -> list[pa.Array]:
    return [arrow_array([row.get(c.name) for row in rows], c.type) for c in columns]


# What confluent-kafka wrote


def test_avro_written_by_confluent_kafka_is_read(theirs: Any, registry: SchemaRegistry) -> None:
    serializer = AvroSerializer(theirs, json.dumps(ORDER))
    later = {**ORDER, "fields": [*ORDER["fields"], {"name": "x", "type": "int", "default": 0}]}
    newer = AvroSerializer(theirs, json.dumps(later))
    where = context("avro-theirs")
    data = [
        serializer({"id": 1, "name": "ann", "price": 1.5}, where),
        newer({"id": 2, "name": None, "price": 2.5, "x": 9}, where),
        b"",
        b"\0\0\0\x7f\x7frest",
        b"{}",
        serializer({"id": 3, "name": "cy", "price": 0.0}, where),
    ]
    columns = [Column("ID", t.BIGINT), Column("NAME", t.STRING), Column("X", t.INTEGER)]
    half = codec_of(format_of("AVRO", "avro-theirs"), columns, of_key=False, registry=registry)
    arrays, problems = half.read(pa.array(data, pa.binary()))
    assert [a.to_pylist() for a in arrays] == [
        [1, 2, None, None, None, 3],
        ["ann", None, None, None, None, "cy"],
        [None, 9, None, None, None, None],
    ]
    assert sorted(problems) == [2, 3, 4]
    assert "schema id 32639: Schema" in problems[3]
    assert "begins with" in problems[2]
    assert half.read_row(data[0]) == [1, "ann", None]


def test_schemas_by_guid_are_read(theirs: Any, registry: SchemaRegistry) -> None:
    data = AvroSerializer(theirs, json.dumps(ORDER))(
        {"id": 1, "name": "ann", "price": 1.5}, context("avro-guid")
    )
    assert data is not None
    guid = registry.version("avro-guid-value").guid
    columns = [Column("ID", t.BIGINT)]
    half = codec_of(format_of("AVRO", "avro-guid"), columns, of_key=False, registry=registry)
    both = pa.array([framing.with_guid(guid, data[5:]), data], pa.binary())
    arrays, problems = half.read(both)
    assert (arrays[0].to_pylist(), problems) == ([1, 1], {})


def test_json_written_by_confluent_kafka_is_read(theirs: Any, registry: SchemaRegistry) -> None:
    schema = {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "tags": {"type": "object"}},
    }
    where = context("json-theirs")
    data = JSONSerializer(json.dumps(schema), theirs)({"id": 7, "tags": {"a": 1}}, where)
    columns = [Column("ID", t.BIGINT), Column("TAGS", t.map_of(t.STRING, t.INTEGER))]
    half = codec_of(format_of("JSON_SR", "json-theirs"), columns, of_key=False, registry=registry)
    assert half.read_row(data) == [7, {"a": 1}]
    with pytest.raises(ValueError, match="begins with"):
        half.read_row(b'{"id": 7}')


PROTO = """syntax = "proto3"; package acme;
import "google/protobuf/timestamp.proto";
message Other { string unused = 1; }
message Order {
  int64 id = 1; optional string name = 2; uint32 count = 3; repeated string codes = 4;
  map<string, int32> tags = 5; Place place = 6; google.protobuf.Timestamp at = 7; Colour colour = 8;
  enum Colour { RED = 0; BLUE = 1; }
  message Place { string city = 1; }
}"""


def test_protobuf_written_by_confluent_kafka_is_read(theirs: Any, registry: SchemaRegistry) -> None:
    from google.protobuf import timestamp_pb2

    types = MessageTypes(parse("PROTOBUF", PROTO, {}))
    order = types.by_name("acme.Order")
    at = timestamp_pb2.Timestamp(seconds=1, nanos=500_000_000)
    message = order(id=5, count=6, codes=["x"], tags={"a": 1}, colour=1)
    message.at.MergeFromString(at.SerializeToString())
    message.place.city = "Ulm"
    registered = registry.register("proto-theirs-value", "PROTOBUF", PROTO)
    data = framing.with_id(registered.id, framing.indexes_bytes((1,)) + message.SerializeToString())
    columns = [
        Column("ID", t.BIGINT),
        Column("NAME", t.STRING),
        Column("COUNT", t.BIGINT),
        Column("CODES", t.array(t.STRING)),
        Column("TAGS", t.map_of(t.STRING, t.INTEGER)),
        Column("PLACE", t.struct(("CITY", t.STRING))),
        Column("AT", t.TIMESTAMP),
        Column("COLOUR", t.STRING),
        Column("ABSENT", t.DATE),
    ]
    half = codec_of(format_of("PROTOBUF", "proto-theirs"), columns, of_key=False, registry=registry)
    assert half.read_row(data) == [
        5,
        None,
        6,
        ["x"],
        {"a": 1},
        {"CITY": "Ulm"},
        dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC),
        "BLUE",
        None,
    ]


def test_protobuf_messages_of_their_serializer_are_read(
    theirs: Any, registry: SchemaRegistry
) -> None:
    from google.protobuf import wrappers_pb2

    conf = {"use.deprecated.format": False}
    serializer = ProtobufSerializer(wrappers_pb2.Int64Value, theirs, conf)
    data = serializer(wrappers_pb2.Int64Value(value=9), context("proto-wrapped"))
    columns = [Column("VALUE", t.BIGINT)]
    half = codec_of(
        format_of("PROTOBUF", "proto-wrapped"), columns, of_key=False, registry=registry
    )
    assert half.read_row(data) == [9]


# What they read


def test_confluent_kafka_reads_our_avro(theirs: Any, registry: SchemaRegistry) -> None:
    half = codec_of(format_of("AVRO", "avro-ours"), COLUMNS, of_key=False, registry=registry)
    data = half.write(batch(COLUMNS, [ROW, {}]), 2).to_pylist()
    read = AvroDeserializer(theirs)
    found = read(data[0], context("avro-ours"))
    tags = found.pop("TAGS")
    assert {tag["key"]: tag["value"] for tag in tags} == ROW["TAGS"]
    assert found == {name: value for name, value in ROW.items() if name != "TAGS"}
    assert set(read(data[1], context("avro-ours")).values()) == {None}
    (version,) = registry.versions("avro-ours-value")
    text = json.loads(registry.version("avro-ours-value", version).text)
    assert text["name"] == "KsqlDataSourceSchema"
    assert text["namespace"] == "io.confluent.ksql.avro_schemas"
    place = next(field for field in text["fields"] if field["name"] == "PLACE")
    assert place["type"][1]["name"] == "KsqlDataSourceSchema_PLACE"


def test_confluent_kafka_reads_our_json(theirs: Any, registry: SchemaRegistry) -> None:
    columns = [column for column in COLUMNS if column.name != "COST"]
    half = codec_of(format_of("JSON_SR", "json-ours"), columns, of_key=False, registry=registry)
    data = half.write(batch(columns, [ROW, {}]), 2).to_pylist()
    schema = registry.version("json-ours-value").text
    read = JSONDeserializer(schema, schema_registry_client=theirs)
    found = read(data[0], context("json-ours"))
    assert found["ID"] == 1
    assert found["TAGS"] == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    assert found["PLACE"] == ROW["PLACE"]
    assert set(read(data[1], context("json-ours")).values()) == {None}


def test_confluent_kafka_reads_our_protobuf(theirs: Any, registry: SchemaRegistry) -> None:
    columns = [Column("ID", t.BIGINT), Column("NAME", t.STRING)]
    format_ = format_of("PROTOBUF", "proto-ours")
    half = codec_of(format_, columns, of_key=False, registry=registry)
    data = half.write_row([1, "ann"])
    text = registry.version("proto-ours-value").text
    message = MessageTypes(parse("PROTOBUF", text, {})).by_name("ConnectDefault1")
    read = ProtobufDeserializer(message, {"use.deprecated.format": False}, theirs)
    found = read(data, context("proto-ours"))
    assert (found.ID, found.NAME) == (1, "ann")


# Both ways


@pytest.mark.parametrize(
    ("name", "nullable"),
    [
        ("AVRO", ""),
        ("JSON_SR", ""),
        *((name, how) for name in PROTOBUFS for how in ("", "OPTIONAL", "WRAPPER")),
    ],
)
def test_rows_survive_a_round_trip(name: str, nullable: str, registry: SchemaRegistry) -> None:
    topic = f"back-{name}-{nullable}"
    given = {"PROTOBUF_NULLABLE_REPRESENTATION": nullable} if nullable else {}
    layout = Layout(
        LogicalSchema((Column("K", t.STRING, Role.KEY), *COLUMNS)),
        FormatInfo(name, False, {} if "NOSR" in name else {"SUBJECT": f"{topic}-key"}),
        format_of(name, topic, **given),
    )
    nulls = {"K": "b", "TAGS": {}, "PLACE": None}
    rows: list[dict[str, Any]] = [{"K": "a", **ROW}, nulls]
    schema = arrow_schema(layout)
    columns = [
        arrow_array([row.get(column.name) for row in rows], column.type)
        for column in layout.schema.columns
    ]
    names = [column.name for column in layout.schema.columns]
    made = pa.RecordBatch.from_arrays(columns, names=names)
    keys, values, _ = Encoder(layout, registry).encode(made)
    numbers = pa.array([0, 1], pa.int64())
    found, bad = Decoder(layout, registry).decode(
        keys, values, numbers, numbers.cast(pa.int32()), numbers
    )
    assert bad == []
    assert found.schema == schema
    first, second = found.select(names).to_pylist()
    assert {**first, "TAGS": dict(first["TAGS"])} == rows[0]
    assert second["PLACE"] is None
    zero = name.startswith("PROTOBUF") and not nullable
    assert second["NAME"] == ("" if zero else None)
    assert second["ID"] == (0 if zero else None)


def test_a_single_value_stands_alone(theirs: Any, registry: SchemaRegistry) -> None:
    columns = [Column("K", t.INTEGER, Role.KEY)]
    format_ = FormatInfo("AVRO", False, {"SUBJECT": "alone-key", "SCHEMA_FULL_NAME": "a.b.Key"})
    half = codec_of(format_, columns, of_key=True, registry=registry)
    data = half.write_row([42])
    assert registry.version("alone-key").text == '"int"'
    assert AvroDeserializer(theirs)(data, context("alone")) == 42
    assert half.read_row(data) == [42]


def test_the_schema_of_an_id_is_written_exactly(theirs: Any, registry: SchemaRegistry) -> None:
    registered = registry.register("by-id", "AVRO", json.dumps(ORDER))
    columns = [Column("id", t.BIGINT), Column("price", t.DOUBLE)]
    format_ = FormatInfo("AVRO", True, {"SUBJECT": "x-value", "SCHEMA_ID": str(registered.id)})
    half = codec_of(format_, columns, of_key=False, registry=registry)
    data = half.write_row([1, 2.5])
    assert data is not None
    assert framing.split_frame(data)[0].id == registered.id
    assert AvroDeserializer(theirs)(data, context("x")) == {"id": 1, "name": None, "price": 2.5}
    with pytest.raises(ValueError, match="id is null"):
        half.write_row([None, 2.5])


def test_a_part_of_an_array_is_read_without_the_rest() -> None:
    """A task reads a large batch in portions: each would copy the bytes of all of them."""
    framed = [bytes(5) + b"%d" % number for number in range(100)]
    frames = Frames(pa.array([None, b"", *framed], pa.binary())[42:52])
    assert frames.data == b"".join(framed[40:50])
    ((_, chosen),) = frames.groups
    places, count = frames.places(chosen)
    bounds = np.frombuffer(places, np.int32).reshape(count, 2).tolist()
    assert [frames.data[start:end] for start, end in bounds] == [
        b"%d" % number for number in range(40, 50)
    ]


def test_without_a_registry_the_error_names_the_setting() -> None:
    half = codec_of(format_of("AVRO", "t"), [Column("V", t.INTEGER)], of_key=False)
    with pytest.raises(SqlError, match="no schema registry is configured") as caught:
        half.write_row([1])
    assert "ksql.schema.registry.url" in caught.value.remedy


def test_a_registry_that_does_not_answer_loses_no_record() -> None:
    """An error of the task, not of the records: Spark retries it."""
    away = SchemaRegistry("http://127.0.0.1:9", tries_max=1)
    half = codec_of(format_of("AVRO", "t"), [Column("V", t.INTEGER)], of_key=False, registry=away)
    with pytest.raises(KafkaError, match="No schema registry answers"):
        half.read(pa.array([b"\0\0\0\0\1\2"], pa.binary()))
