"""Ids of schemas in headers, as confluent-kafka's serializers write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import wrappers_pb2

from ottla.client.schema_registry import SchemaRegistry
from ottla.rows import types as t
from ottla.rows.formats import BadRecord, Decoder
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema, Role
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER, with_id
from ottla.spark.record_arrays import HEADERS
from ottla.testing import LocalCluster

Headers = list[tuple[str, bytes | None]]

RECORD = {"type": "record", "name": "V", "fields": [{"name": "VALUE", "type": "long"}]}
OBJECT = {"title": "V", "type": "object", "properties": {"VALUE": {"type": "integer"}}}
INT64 = wrappers_pb2.Int64Value


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


def layout_of(name: str, *more: Column) -> Layout:
    columns = (Column("K", t.BIGINT, Role.KEY), Column("VALUE", t.BIGINT), *more)
    key = FormatInfo(name if name == "AVRO" else "KAFKA", wrapped=False)
    return Layout(LogicalSchema(columns), key, FormatInfo(name))


def decoded(
    layout: Layout, registry: SchemaRegistry, records: list[tuple[Any, Any, Headers]]
) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    keys, values, headers = zip(*records, strict=True)
    numbers = pa.array(range(len(records)), pa.int64())
    pairs = [[{"key": name, "value": data} for name, data in header] or None for header in headers]
    rows, bad = Decoder(layout, registry).decode(
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        numbers,
        numbers.cast(pa.int32()),
        numbers,
        pa.array(pairs, HEADERS),
    )
    return rows.to_pylist(), bad


def context(name: str, *, of_key: bool = False) -> SerializationContext:
    field = MessageField.KEY if of_key else MessageField.VALUE
    return SerializationContext(f"headers-{name}", field, [])


@pytest.mark.parametrize("name", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_the_header_names_the_schema_where_there_is_one(
    name: str, theirs: Any, registry: SchemaRegistry
) -> None:
    def written(number: int, **conf: Any) -> tuple[bytes, Headers]:
        where = context(name)
        if name == "AVRO":
            data = AvroSerializer(theirs, json.dumps(RECORD), conf=conf)({"VALUE": number}, where)
        elif name == "JSON_SR":
            data = JSONSerializer(json.dumps(OBJECT), theirs, conf=conf)({"VALUE": number}, where)
        else:
            conf["use.deprecated.format"] = False
            data = ProtobufSerializer(INT64, theirs, conf)(INT64(value=number), where)
        assert data is not None
        headers: Headers = where.headers
        return data, headers

    in_header = {"schema.id.serializer": header_schema_id_serializer}
    one, one_headers = written(1, **in_header)
    assert [header for header, _ in one_headers] == [VALUE_HEADER]
    two, _ = written(2)
    other: Headers = [("trace", b"x"), (VALUE_HEADER, None), (KEY_HEADER, b"junk")]
    unread = (VALUE_HEADER, b"\0\0")
    key = None if name == "AVRO" else (5).to_bytes(8)
    layout = layout_of(name)
    records: list[tuple[bytes | None, bytes | None, Headers]] = [
        (key, one, one_headers),
        (key, two, []),
        (key, two, other),
        (key, None, one_headers),
        (key, one, [unread, *one_headers]),
        (key, one, [*one_headers, unread]),
        (key, one, []),
    ]
    rows, bad = decoded(layout, registry, records)
    assert [row["VALUE"] for row in rows] == [1, 2, 2, None, 1]
    assert [(bad_record.offset, bad_record.half) for bad_record in bad] == [
        (5, "value"),
        (6, "value"),
    ]
    assert "begins with" in bad[0].cause
    decoder = Decoder(layout, registry)
    for key, value, headers in records[:5]:
        assert decoder.row(key, value, 0, headers=headers)["VALUE"] in (1, 2, None)
    with pytest.raises(ValueError, match="begins with"):
        decoder.row(None, one, 0, headers=[*one_headers, unread])


def test_keys_have_a_header_of_their_own(theirs: Any, registry: SchemaRegistry) -> None:
    where = context("keys", of_key=True)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    key = AvroSerializer(theirs, '"long"', conf=conf)(7, where)
    value = AvroSerializer(theirs, json.dumps(RECORD))({"VALUE": 3}, context("keys"))
    assert value is not None
    layout = layout_of("AVRO", Column("NAMED", t.BYTES, Role.HEADER, KEY_HEADER))
    id_ = registry.version("headers-keys-key").id
    by_id: Headers = [(KEY_HEADER, with_id(id_, b"more"))]
    named: Any = where.headers
    rows, bad = decoded(layout, registry, [(key, value, named), (key, value, by_id)])
    assert bad == []
    assert [(row["K"], row["VALUE"]) for row in rows] == [(7, 3), (7, 3)]


def test_only_layouts_that_need_headers_read_them() -> None:
    plain = Layout(
        LogicalSchema((Column("VALUE", t.BIGINT),)), FormatInfo("KAFKA"), FormatInfo("JSON")
    )
    assert not plain.reads_headers
    assert layout_of("JSON_SR").reads_headers
