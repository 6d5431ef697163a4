"""confluent-kafka's SchemaRegistryClient and serializers, which others wrote."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Schema,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from registry_records import INT, INT_AND_DEFAULT, INT_AND_MORE

from ottla.registry.server import RegistryServer


@pytest.fixture
def client(registry: RegistryServer) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def test_subjects_versions_and_levels(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("s", Schema(INT, "AVRO"))
    assert client.get_schema(schema_id).schema_str == INT
    assert client.lookup_schema("s", Schema(INT, "AVRO")).version == 1
    assert client.get_latest_version("s").schema_id == schema_id
    assert client.test_compatibility("s", Schema(INT_AND_DEFAULT, "AVRO"))
    assert not client.test_compatibility("s", Schema(INT_AND_MORE, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("s", Schema(INT_AND_MORE, "AVRO"))
    assert refused.value.http_status_code == 409
    client.set_compatibility("s", "NONE")
    assert client.get_compatibility("s") == "NONE"
    client.register_schema("s", Schema(INT_AND_MORE, "AVRO"))
    assert client.get_versions("s") == [1, 2]
    assert client.delete_version("s", 1) == 1
    assert client.delete_subject("s") == [2]
    assert client.get_subjects() == []


def test_records_make_the_round_trip(client: SchemaRegistryClient) -> None:
    context = SerializationContext("t", MessageField.VALUE)
    data = AvroSerializer(client, INT)({"a": 7}, context)
    assert data is not None
    assert data[:5] == b"\0\0\0\0\1"
    assert AvroDeserializer(client)(data, context) == {"a": 7}
    assert client.get_subjects() == ["t-value"]


def test_json_and_protobuf_are_registered_and_formatted(client: SchemaRegistryClient) -> None:
    text = '{"type":"object","properties":{"a":{"type":"integer"}}}'
    assert client.get_schema(client.register_schema("j", Schema(text, "JSON"))).schema_str == text
    proto = 'syntax = "proto3";\npackage p;\n\nmessage M {\n  int32 a = 1;\n}\n'
    schema_id = client.register_schema("p", Schema(proto, "PROTOBUF"))
    serialized = client.get_schema(schema_id, fmt="serialized").schema_str
    assert serialized is not None
    found = FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert (found.package, found.message_type[0].field[0].name) == ("p", "a")
    # A client registers what it has compiled: it is the same schema.
    assert client.lookup_schema("p", Schema(serialized, "PROTOBUF")).schema_id == schema_id


def test_a_schema_is_found_by_its_metadata_and_guid(client: SchemaRegistryClient) -> None:
    schema = Schema(INT, "AVRO", metadata=Metadata(None, MetadataProperties({"k": "v"}), None))
    registered = client.register_schema_full_response("m", schema)
    latest = client.get_latest_with_metadata("m", {"k": "v"})
    assert latest.version == 1
    assert registered.guid is not None
    assert client.get_schema_by_guid(registered.guid).schema_str == INT
