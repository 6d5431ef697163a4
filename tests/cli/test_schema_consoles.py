"""The console tools with schemas, beside confluent-kafka's serializers and deserializers."""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.cli.kafka import schema_consoles as tools
from ottla.cli.kafka.console_consumer import main as plain_consumer
from ottla.cli.kafka.schema_json import AvroJson
from ottla.client import Admin, Consumer, ConsumerRecord, Producer
from ottla.schemas.schema_types import parse
from ottla.testing import LocalCluster

Tool = Callable[..., Any]
ROOT = Path(__file__).parent.parent.parent

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
        ],
    }
)
JSON_ORDER = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }
)
PROTO_ORDER = """
syntax = "proto3";
package shop;
message Order { int64 order_id = 1; string note = 2; }
message Refund { int64 order_id = 1; }
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as cluster:
        yield cluster


@pytest.fixture
def bootstrap(cluster: LocalCluster) -> str:
    return cluster.bootstrap_servers


@pytest.fixture
def made(admin: Admin, topic: str) -> str:
    admin.topics.create(topic, 1)
    return topic


@pytest.fixture
def produce(run: Tool, cluster: LocalCluster, made: str) -> Tool:
    def produce(main: Tool, stdin: str, *properties: str) -> Any:
        words = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", made]
        for entry in (f"schema.registry.url={cluster.registry_url}", *properties):
            words += ["--property", entry]
        return run(main, *words, stdin=stdin)

    return produce


@pytest.fixture
def consume(run: Tool, cluster: LocalCluster, made: str) -> Tool:
    def consume(main: Tool, count: int, *properties: str, options: tuple[str, ...] = ()) -> Any:
        words = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", made]
        words += ["--from-beginning", "--max-messages", str(count), *options]
        for entry in (f"schema.registry.url={cluster.registry_url}", *properties):
            words += ["--property", entry]
        return run(main, *words)

    return consume


def read(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    with Consumer(bootstrap, topic, auto_offset_reset="earliest") as consumer:
        return consumer.take(count)


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": cluster.registry_url}) as client:
        yield client


def test_avro_from_the_console_is_read_by_confluent(
    produce: Tool, consume: Tool, cluster: LocalCluster, client: SchemaRegistryClient, made: str
) -> None:
    lines = (
        '{"id":1,"note":{"string":"grün"},"price":"\\u0000d"}\n{"id":2,"note":null,"price":"a"}\n'
    )
    ran = produce(tools.avro_producer, lines, f"value.schema={ORDER}")
    assert (ran.out, ran.err, ran.code) == ("", "", 0)
    first, second = read(cluster.bootstrap_servers, made, 2)
    deserialize = AvroDeserializer(client)
    context = SerializationContext(made, MessageField.VALUE)
    assert deserialize(first.value, context)["note"] == "grün"
    assert deserialize(second.value, context)["note"] is None
    shown = consume(tools.avro_consumer, 2)
    assert shown.out == (
        '{"id":1,"note":{"string":"grün"},"price":"\\u0000d"}\n{"id":2,"note":null,"price":"a"}\n'
    )
    assert shown.err == "Processed a total of 2 messages\n"


def test_avro_from_confluent_is_printed_with_keys_and_ids(
    consume: Tool, cluster: LocalCluster, client: SchemaRegistryClient, made: str
) -> None:
    key, value = AvroSerializer(client, '"long"'), AvroSerializer(client, ORDER)
    data = {"id": 7, "note": "x", "price": b"\x01"}
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send(
            made,
            value(data, SerializationContext(made, MessageField.VALUE)),
            key=key(5, SerializationContext(made, MessageField.KEY)),
        ).result()
        producer.send(made, None, key=None).result()
    ids = [client.get_latest_version(f"{made}-{side}").schema_id for side in ("key", "value")]
    words = ("print.key=true", "print.schema.ids=true", "print.partition=true", "print.offset=true")
    shown = consume(tools.avro_consumer, 2, *words, "schema.id.separator=@", "null.literal=NIL")
    assert shown.out == (
        f'Partition:0\tOffset:0\t5@{ids[0]}\t{{"id":7,"note":{{"string":"x"}},"price":"\\u0001"}}'
        f"@{ids[1]}\n"
        "Partition:0\tOffset:1\tNIL@NIL\tNIL@NIL\n"
    )


def test_keys_without_a_schema(produce: Tool, consume: Tool) -> None:
    serializer = "org.apache.kafka.common.serialization.LongSerializer"
    words = ("parse.key=true", "key.separator=:", f"key.serializer={serializer}")
    assert produce(tools.avro_producer, '12:"a"\n', 'value.schema="string"', *words).code == 0
    deserializer = serializer.replace("Serializer", "Deserializer")
    shown = consume(tools.avro_consumer, 1, "print.key=true", f"key.deserializer={deserializer}")
    assert shown.out == '12\t"a"\n'


def test_a_schema_by_file_and_by_id(
    produce: Tool, consume: Tool, client: SchemaRegistryClient, tmp_path: Path, made: str
) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    line = '{"id":1,"note":null,"price":""}\n'
    assert produce(tools.avro_producer, line, f"value.schema.file={file}").code == 0
    id = client.get_latest_version(f"{made}-value").schema_id
    assert produce(tools.avro_producer, line, f"value.schema.id={id}").code == 0
    latest = ("auto.register=false", "use.latest.version=true")
    assert produce(tools.avro_producer, line, *latest).code == 0
    assert consume(tools.avro_consumer, 3).out == line * 3


def test_json_schema_and_references(
    produce: Tool, consume: Tool, client: SchemaRegistryClient, made: str
) -> None:
    ran = produce(tools.json_schema_producer, '{"id": 1}\n', f"value.schema={JSON_ORDER}")
    assert (ran.err, ran.code) == ("", 0)
    bad = produce(tools.json_schema_producer, '{"id": "x"}\n', f"value.schema={JSON_ORDER}")
    assert """['id']: "x" is not of type "integer\"""" in bad.err
    refs = json.dumps([{"name": "order.json", "subject": f"{made}-value", "version": 1}])
    outer = json.dumps({"type": "array", "items": {"$ref": "order.json"}})
    strategy = "value.subject.name.strategy=io.confluent.kafka.serializers.subject."
    named = f"{strategy}RecordNameStrategy"
    words = (f"value.schema={outer}", f"value.refs={refs}")
    refused = produce(tools.json_schema_producer, "[]\n", *words, named)
    assert "the schema of the values has no name" in refused.err
    client.set_compatibility(f"{made}-value", "NONE")
    assert produce(tools.json_schema_producer, '[{"id": 2}]\n', *words).code == 0
    assert consume(tools.json_schema_consumer, 2).out == '{"id":1}\n[{"id":2}]\n'


def test_protobuf_by_message_and_by_header(
    produce: Tool, consume: Tool, cluster: LocalCluster, made: str
) -> None:
    schema = f"value.schema={PROTO_ORDER}"
    assert produce(tools.protobuf_producer, '{"orderId": 1, "note": "x"}\n', schema).code == 0
    header = "value.schema.id.serializer=io.confluent.kafka.serializers.schema.id."
    ran = produce(
        tools.protobuf_producer,
        '{"order_id": "2"}\n',
        schema,
        "value.schema.full.name=shop.Refund",
        f"{header}HeaderSchemaIdSerializer",
    )
    assert (ran.err, ran.code) == ("", 0)
    first, second = read(cluster.bootstrap_servers, made, 2)
    assert first.value is not None
    assert second.value == b"\x08\x02"
    assert first.value[5:] == b"\x00\x08\x01\x12\x01x"
    assert second.headers[0][0] == "__value_schema_id"
    shown = consume(tools.protobuf_consumer, 2, "preserve.json.field.name=true")
    assert shown.out == '{"order_id":"1","note":"x"}\n{"order_id":"2"}\n'
    assert consume(tools.protobuf_consumer, 1).out == '{"orderId":"1","note":"x"}\n'


def test_a_plain_console_consumer_takes_the_formatter(produce: Tool, consume: Tool) -> None:
    produce(tools.avro_producer, "1\n", 'value.schema="int"')
    formatter = ("--formatter", "io.confluent.kafka.formatter.AvroMessageFormatter")
    assert consume(plain_consumer, 1, options=formatter).out == "1\n"


@pytest.mark.parametrize(
    ("line", "properties", "sentence"),
    [
        ("{}", (f"value.schema={ORDER}",), "on line 1: id is missing"),
        ("1", (), "Must provide the value schema in either value.schema, value.schema.id, or"),
        ("1", ("value.schema=nonsense",), "The schema of the values: not JSON"),
        ("1", ("value.schema.file=/nowhere",), "Error reading schema from /nowhere: No such file"),
        ("1", ("value.schema.id=4711",), "Schema 4711 not found (error code 40403)"),
        ("1", ('value.schema="int"', "auto.register=false"), "(error code 40401)"),
        ("1", ('value.schema="int"', "value.refs=1"), "value.refs=1: expected"),
        ("1", ('value.schema="int"', "schema.registry.url=localhost"), "No schema registry answer"),
    ],
)
def test_a_producer_refuses_invalid_options(
    produce: Tool, line: str, properties: tuple[str, ...], sentence: str
) -> None:
    ran = produce(tools.avro_producer, f"{line}\n", *properties)
    assert sentence in ran.err
    assert "Traceback" not in ran.err
    assert ran.code == 1


def test_a_record_without_a_schema_says_where_it_is(
    consume: Tool, cluster: LocalCluster, made: str
) -> None:
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send(made, b"plain").result()
        producer.send(made, b"\0\0\0\x30\x39x").result()
    skip = ("--skip-message-on-error",)
    ran = consume(tools.avro_consumer, 2, options=skip)
    assert ran.out == ""
    assert f"The value of {made}-0 at offset 0: Unknown magic byte!" in ran.err
    assert f"The value of {made}-0 at offset 1, schema id 12345: Schema 12345 not found" in ran.err
    assert consume(tools.avro_consumer, 2).code == 1


@pytest.mark.parametrize("language", ["avro", "json-schema", "protobuf"])
@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_every_tool_is_installed_and_has_help(run: Tool, language: str, side: str) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts[f"kafka-{language}-console-{side}"].partition(":")
    main = getattr(importlib.import_module(module), function)
    ran = run(main, "--help")
    assert "schema.registry.url=http://localhost:8081" in ran.err


def test_a_login_by_properties(produce: Tool) -> None:
    ran = produce(
        tools.avro_producer,
        "1\n",
        'value.schema="int"',
        "basic.auth.credentials.source=USER_INFO",
        "basic.auth.user.info=ann",
    )
    assert "basic.auth.user.info must be USER:PASSWORD" in ran.err
    assert ran.code == 1


def test_bytes_at_the_root_have_no_size() -> None:
    """As Confluent's serializers write them, also with a logical type."""
    for schema in ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 4}):
        lines = AvroJson(parse("AVRO", json.dumps(schema), {}))
        assert lines.payload_of('"ab\\u00ff"') == b"ab\xff"
        assert lines.text_of(b"12345ab\xff", 5) == '"abÿ"'
