"""kafka-avro-console-producer and -consumer, and those of JSON Schema and Protobuf.

They are the console producer and consumer, with another line reader and formatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ottla.cli.kafka import console_consumer, console_producer
from ottla.cli.kafka.options import Option
from ottla.cli.kafka.tool import run

_PACKAGE: Final = "io.confluent.kafka.formatter."
AVRO: Final = "AvroMessage"
JSON_SCHEMA: Final = "json.JsonSchemaMessage"
PROTOBUF: Final = "protobuf.ProtobufMessage"

READER_HELP: Final = """How lines are read; repeatable. There are \
those of kafka-console-producer, and:
 schema.registry.url=http://localhost:8081
 value.schema=<schema>, or
 value.schema.file=<path>, or
 value.schema.id=<id>
 value.refs=[{"name":...,"subject":...,"version":...}]
 value.schema.full.name=<Protobuf message>
 value.subject.name.strategy=TopicNameStrategy
 value.schema.id.serializer=HeaderSchemaIdSerializer
 key.schema..., key.refs, ... (with parse.key=true)
 key.serializer=<class> (keys without a schema)
 auto.register=true
 use.latest.version=false
 normalize.schemas=false
 basic.auth.user.info=<user>:<password>
 schema.registry.ssl.truststore.location=<file>"""

FORMATTER_HELP: Final = """How records are printed; repeatable. There are \
those of kafka-console-consumer, and:
 schema.registry.url=http://localhost:8081
 print.schema.ids=true|false
 schema.id.separator=<separator>
 preserve.json.field.name=true|false (Protobuf)
 key.deserializer=<class> (keys without a schema)
 value.deserializer=<class>
 basic.auth.user.info=<user>:<password>
 schema.registry.ssl.truststore.location=<file>"""


def avro_producer(arguments: Sequence[str] | None = None) -> int:
    return _produce("kafka-avro-console-producer", AVRO, "Avro", arguments)


def avro_consumer(arguments: Sequence[str] | None = None) -> int:
    return _consume("kafka-avro-console-consumer", AVRO, "Avro", arguments)


def json_schema_producer(arguments: Sequence[str] | None = None) -> int:
    return _produce("kafka-json-schema-console-producer", JSON_SCHEMA, "JSON Schema", arguments)


def json_schema_consumer(arguments: Sequence[str] | None = None) -> int:
    return _consume("kafka-json-schema-console-consumer", JSON_SCHEMA, "JSON Schema", arguments)


def protobuf_producer(arguments: Sequence[str] | None = None) -> int:
    return _produce("kafka-protobuf-console-producer", PROTOBUF, "Protobuf", arguments)


def protobuf_consumer(arguments: Sequence[str] | None = None) -> int:
    return _consume("kafka-protobuf-console-consumer", PROTOBUF, "Protobuf", arguments)


def _produce(name: str, reader: str, language: str, arguments: Sequence[str] | None) -> int:
    description = f"This tool reads lines of JSON and sends each as a record, in {language}."
    options = _with(
        console_producer.OPTIONS,
        {
            "line-reader": {"default": f"{_PACKAGE}{reader}Reader"},
            "reader-property": {"help": READER_HELP},
            "property": {"help": "The same, as Confluent's tools call it."},
        },
    )
    return run(name, description, options, console_producer.work, arguments)


def _consume(name: str, formatter: str, language: str, arguments: Sequence[str] | None) -> int:
    description = f"This tool reads records in {language} and prints them as JSON."
    options = _with(
        console_consumer.OPTIONS,
        {
            "formatter": {"default": f"{_PACKAGE}{formatter}Formatter"},
            "formatter-property": {"help": FORMATTER_HELP},
            "property": {"help": "The same, as Confluent's tools call it."},
        },
    )
    return run(name, description, options, console_consumer.work, arguments)


def _with(options: Sequence[Option], changes: dict[str, dict[str, str]]) -> tuple[Option, ...]:
    return tuple(_changed(option, **changes.get(option.name, {})) for option in options)


def _changed(option: Option, *, help: str = "", default: str = "") -> Option:
    return replace(option, help=help or option.help, default=default or option.default)
