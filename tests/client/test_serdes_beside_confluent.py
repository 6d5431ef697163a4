"""Our serdes and confluent-kafka's read each other's records: all three languages, both ways.

With nested types, references, message indexes other than the first, and ids in headers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client import Avro, JsonSchema, Protobuf, SchemaRegistry
from ottla.client.serdes.registry_serde import RegistrySerde
from ottla.schemas.schema_types import Reference

HERE = Path(__file__).parent
PLACES = {"prefix": prefix_schema_id_serializer, "header": header_schema_id_serializer}


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)
    note: str | None = None


ORDER = Order(2**40, [Line("a"), Line("b", 3)], "thanks")
PLAIN = {
    "id": 2**40,
    "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": 3}],
    "note": "thanks",
}


@pytest.fixture
def theirs(registry_url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry_url}) as client:
        yield client


@pytest.fixture
def ours(registry_url: str) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(registry_url)
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Classes as protoc generates them."""
    from grpc_tools import protoc

    made = tmp_path_factory.mktemp("generated")
    known = str(Path(str(importlib.import_module("grpc_tools").__file__)).parent / "_proto")
    files = [str(HERE / name) for name in ("shop.proto", "shop_address.proto")]
    assert protoc.main(["", f"-I{HERE}", f"-I{known}", f"--python_out={made}", *files]) == 0
    sys.path.insert(0, str(made))
    yield importlib.import_module("shop_pb2")
    sys.path.remove(str(made))


def both_ways(
    serde: RegistrySerde[Any],
    value: Any,
    write: Callable[[Any, SerializationContext], Any],
    read: Callable[[Any, SerializationContext], Any],
    theirs: Any,
) -> None:
    """`theirs` is what they make of the value, and take for it."""
    topic = "both"
    headers: list[tuple[str, bytes | None]] = []
    data = serde.serialize_with_headers(topic, headers, value)
    assert read(data, SerializationContext(topic, MessageField.VALUE, headers)) == theirs
    their_headers: list[tuple[str, bytes | None]] = []
    their_data = write(theirs, SerializationContext(topic, MessageField.VALUE, their_headers))
    assert their_data == data
    assert their_headers == headers
    assert serde.deserialize_with_headers(topic, their_headers, their_data) == value


def conf(place: str, subject: str) -> dict[str, Any]:
    return {
        "schema.id.serializer": PLACES[place],
        "subject.name.strategy": lambda *_: subject,
    }


def settings(place: str, subject: str) -> dict[str, Any]:
    return {
        "value.schema.id.serializer": place,
        "subject.name.strategy": lambda *_: subject,
    }


@pytest.mark.parametrize("place", PLACES)
def test_avro(place: str, theirs: SchemaRegistryClient, ours: SchemaRegistry) -> None:
    subject = f"avro-{place}"
    serde: Avro[Order] = Avro(Order, registry=ours, settings=settings(place, subject))
    serde.serialize_with_headers("both", [], ORDER)
    text = ours.version(subject).text
    write = AvroSerializer(theirs, text, conf=conf(place, subject))
    both_ways(serde, ORDER, write, AvroDeserializer(theirs), PLAIN)


@pytest.mark.parametrize("place", PLACES)
def test_json_schema(place: str, theirs: SchemaRegistryClient, ours: SchemaRegistry) -> None:
    subject = f"json-{place}"
    serde: JsonSchema[Order] = JsonSchema(Order, registry=ours, settings=settings(place, subject))
    serde.serialize_with_headers("both", [], ORDER)
    text = ours.version(subject).text
    write = JSONSerializer(text, theirs, conf=conf(place, subject))
    read = JSONDeserializer(text, schema_registry_client=theirs)
    both_ways(serde, ORDER, write, read, PLAIN)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["Before", "Order", "Order.Line"])
def test_protobuf_classes(
    name: str, place: str, shop: Any, theirs: SchemaRegistryClient, ours: SchemaRegistry
) -> None:
    """Indexes 0, 1 and 1-0; the file imports another, which becomes a reference."""
    subject = f"proto-{place}-{name}"
    made = shop
    for part in name.split("."):
        made = getattr(made, part)
    value = {
        "Before": lambda: made(note="x"),
        "Order": lambda: made(
            id=2**40, lines=[{"sku": "a", "count": 1}], address={"street": "Main"}, counts={"a": 1}
        ),
        "Order.Line": lambda: made(sku="z", count=7),
    }[name]()
    serde: Protobuf[Any] = Protobuf(made, registry=ours, settings=settings(place, subject))
    write = ProtobufSerializer(made, theirs, conf(place, subject))
    read = ProtobufDeserializer(made, {}, theirs)
    both_ways(serde, value, write, read, value)
    headers: list[tuple[str, bytes | None]] = []
    data = serde.serialize_with_headers("both", headers, value)
    as_dict = Protobuf[Any](registry=ours).deserialize_with_headers("both", headers, data)
    assert as_dict is not None
    assert made(**as_dict) == value
    assert [reference.name for reference in ours.version(subject).references] == [
        "shop_address.proto"
    ]


def test_avro_with_a_reference(theirs: SchemaRegistryClient, ours: SchemaRegistry) -> None:
    line = (
        '{"type": "record", "name": "Line", "namespace": "shop", '
        '"fields": [{"name": "sku", "type": "string"}]}'
    )
    order = (
        '{"type": "record", "name": "Order", "namespace": "shop", '
        '"fields": [{"name": "line", "type": "shop.Line"}]}'
    )
    ours.register("a-line", "AVRO", line)
    serde: Avro[Any] = Avro(
        schema=order,
        references=[Reference("shop.Line", "a-line", 1)],
        registry=ours,
        settings=settings("prefix", "a-order"),
    )
    schema = Schema(order, "AVRO", [SchemaReference("shop.Line", "a-line", 1)])
    write = AvroSerializer(theirs, schema, conf=conf("prefix", "a-order"))
    value = {"line": {"sku": "x"}}
    both_ways(serde, value, write, AvroDeserializer(theirs), value)


def test_json_schema_with_a_reference(theirs: SchemaRegistryClient, ours: SchemaRegistry) -> None:
    line = '{"type": "object", "title": "Line", "properties": {"sku": {"type": "string"}}}'
    order = '{"type": "object", "title": "Order", "properties": {"line": {"$ref": "line.json"}}}'
    ours.register("j-line", "JSON", line)
    serde: JsonSchema[Any] = JsonSchema(
        schema=order,
        references=[Reference("line.json", "j-line", 1)],
        registry=ours,
        settings=settings("prefix", "j-order"),
    )
    schema = Schema(order, "JSON", [SchemaReference("line.json", "j-line", 1)])
    write = JSONSerializer(schema, theirs, conf=conf("prefix", "j-order"))
    read = JSONDeserializer(schema, schema_registry_client=theirs)
    value = {"line": {"sku": "x"}}
    both_ways(serde, value, write, read, value)


def test_avro_bytes_have_no_size(theirs: SchemaRegistryClient, ours: SchemaRegistry) -> None:
    serde: Avro[Any] = Avro(
        schema='"bytes"', registry=ours, settings=settings("prefix", "just-bytes")
    )
    write = AvroSerializer(theirs, '"bytes"', conf=conf("prefix", "just-bytes"))
    both_ways(serde, b"abc", write, AvroDeserializer(theirs), b"abc")
