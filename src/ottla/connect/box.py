"""The plugins in the box, by the names that Kafka has for them."""

from __future__ import annotations

from typing import Final

from ottla.connect.plugin import Kind, Plugin

HERE: Final = "ottla.connect"
KAFKA: Final = "org.apache.kafka.connect"

CONFLUENT: Final = "io.confluent.connect"

# Kind, the class in Kafka or at Confluent, module and class under connectors, and other names that
# it goes by.
CONNECTORS: Final = (
    (Kind.SOURCE, f"{KAFKA}.file.FileStreamSourceConnector", "file_source", ()),
    (Kind.SINK, f"{KAFKA}.file.FileStreamSinkConnector", "file_sink", ()),
    (Kind.SOURCE, f"{CONFLUENT}.jdbc.JdbcSourceConnector", "jdbc.source", ()),
    (Kind.SINK, f"{CONFLUENT}.jdbc.JdbcSinkConnector", "jdbc.sink", ()),
    (Kind.SINK, f"{CONFLUENT}.http.HttpSinkConnector", "http.sink", ()),
    (Kind.SOURCE, f"{KAFKA}.mirror.MirrorSourceConnector", "mirror.source", ()),
    (Kind.SOURCE, f"{KAFKA}.mirror.MirrorCheckpointConnector", "mirror.checkpoints", ()),
    (Kind.SOURCE, f"{KAFKA}.mirror.MirrorHeartbeatConnector", "mirror.heartbeats", ()),
    (
        Kind.SINK,
        "StorageSinkConnector",
        "storage.sink",
        (f"{CONFLUENT}.s3.S3SinkConnector", "S3SinkConnector"),
    ),
)


# Of keys and values only, as Confluent's.
REGISTRY_CONVERTERS: Final = {
    "avro.AvroConverter": "avro:AvroConverter",
    "json.JsonSchemaConverter": "json_schema_converter:JsonSchemaConverter",
    "protobuf.ProtobufConverter": "protobuf:ProtobufConverter",
}


def _connectors() -> list[Plugin]:
    return [
        Plugin(kind, name, f"{HERE}.connectors.{module}:{name.rpartition('.')[2]}", aliases)
        for kind, name, module, aliases in CONNECTORS
    ]


def _converters() -> list[Plugin]:
    primitive = f"{HERE}.converters.primitive"
    targets = {
        f"{KAFKA}.json.JsonConverter": f"{HERE}.converters.json:JsonConverter",
        f"{KAFKA}.storage.StringConverter": f"{primitive}:StringConverter",
    }
    for name in ("ByteArray", "Boolean", "Double", "Float", "Integer", "Long", "Short"):
        targets[f"{KAFKA}.converters.{name}Converter"] = f"{primitive}:{name}Converter"
    found = [
        Plugin(kind, name, target)
        for kind in (Kind.CONVERTER, Kind.HEADER_CONVERTER)
        for name, target in sorted(targets.items())
    ]
    for name, target in REGISTRY_CONVERTERS.items():
        found.append(Plugin(Kind.CONVERTER, f"{CONFLUENT}.{name}", f"{HERE}.converters.{target}"))
    simple = f"{HERE}.converters.header:SimpleHeaderConverter"
    return [*found, Plugin(Kind.HEADER_CONVERTER, f"{KAFKA}.storage.SimpleHeaderConverter", simple)]


# The module of each; those of the first group have a class for keys and one for values.
HALVES: Final = {
    "Cast": "cast",
    "ExtractField": "shape",
    "Flatten": "shape",
    "HeaderFrom": "headers",
    "HoistField": "shape",
    "InsertField": "insert_field",
    "MaskField": "edit",
    "ReplaceField": "edit",
    "SetSchemaMetadata": "edit",
    "TimestampConverter": "timestamp_converter",
}
WHOLES: Final = {
    "DropHeaders": "headers",
    "Filter": "shape",
    "InsertHeader": "headers",
    "RegexRouter": "routing",
    "TimestampRouter": "routing",
    "ValueToKey": "routing",
}
PREDICATES: Final = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")


def _transforms() -> list[Plugin]:
    targets = {name: f"{module}:{name}" for name, module in WHOLES.items()}
    for name, module in HALVES.items():
        for half in ("Key", "Value"):
            targets[f"{name}${half}"] = f"{module}:{name}{half}"
    return [
        Plugin(Kind.TRANSFORM, f"{KAFKA}.transforms.{name}", f"{HERE}.transforms.{target}")
        for name, target in sorted(targets.items())
    ]


def _predicates() -> list[Plugin]:
    named = f"{KAFKA}.transforms.predicates"
    return [
        Plugin(Kind.PREDICATE, f"{named}.{name}", f"{HERE}.predicates:{name}")
        for name in PREDICATES
    ]


def in_the_box() -> list[Plugin]:
    return [*_connectors(), *_converters(), *_transforms(), *_predicates()]
