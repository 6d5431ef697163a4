"""The plugins that come with Ottla, by Kafka's names for them."""

from __future__ import annotations

from typing import Final

from ottla.connect.plugin import Plugin, PluginType

PACKAGE: Final = "ottla.connect"
KAFKA: Final = "org.apache.kafka.connect"

CONFLUENT: Final = "io.confluent.connect"

# Kind, Kafka's or Confluent's class, module under connectors, aliases.
CONNECTORS: Final = (
    (PluginType.SOURCE, f"{KAFKA}.file.FileStreamSourceConnector", "file_source", ()),
    (PluginType.SINK, f"{KAFKA}.file.FileStreamSinkConnector", "file_sink", ()),
    (PluginType.SOURCE, f"{CONFLUENT}.jdbc.JdbcSourceConnector", "jdbc.source", ()),
    (PluginType.SINK, f"{CONFLUENT}.jdbc.JdbcSinkConnector", "jdbc.sink", ()),
    (PluginType.SINK, f"{CONFLUENT}.http.HttpSinkConnector", "http.sink", ()),
    (PluginType.SOURCE, f"{KAFKA}.mirror.MirrorSourceConnector", "mirror.source", ()),
    (PluginType.SOURCE, f"{KAFKA}.mirror.MirrorCheckpointConnector", "mirror.checkpoints", ()),
    (PluginType.SOURCE, f"{KAFKA}.mirror.MirrorHeartbeatConnector", "mirror.heartbeats", ()),
    (
        PluginType.SINK,
        "StorageSinkConnector",
        "storage.sink",
        (f"{CONFLUENT}.s3.S3SinkConnector", "S3SinkConnector"),
    ),
)


# For keys and values only, as Confluent's.
REGISTRY_CONVERTERS: Final = {
    "avro.AvroConverter": "avro:AvroConverter",
    "json.JsonSchemaConverter": "json_schema_converter:JsonSchemaConverter",
    "protobuf.ProtobufConverter": "protobuf:ProtobufConverter",
}


def _connectors() -> list[Plugin]:
    return [
        Plugin(kind, name, f"{PACKAGE}.connectors.{module}:{name.rpartition('.')[2]}", aliases)
        for kind, name, module, aliases in CONNECTORS
    ]


def _converters() -> list[Plugin]:
    here = f"{PACKAGE}.converters"
    targets = {
        f"{KAFKA}.json.JsonConverter": f"{here}.json:JsonConverter",
        f"{KAFKA}.storage.StringConverter": f"{here}.string_converter:StringConverter",
        f"{KAFKA}.converters.ByteArrayConverter": f"{here}.byte_array_converter:ByteArrayConverter",
        f"{KAFKA}.converters.BooleanConverter": f"{here}.boolean_converter:BooleanConverter",
    }
    for name in ("Double", "Float", "Integer", "Long", "Short"):
        targets[f"{KAFKA}.converters.{name}Converter"] = f"{here}.number_converter:{name}Converter"
    found = [
        Plugin(kind, name, target)
        for kind in (PluginType.CONVERTER, PluginType.HEADER_CONVERTER)
        for name, target in sorted(targets.items())
    ]
    for name, target in REGISTRY_CONVERTERS.items():
        found.append(Plugin(PluginType.CONVERTER, f"{CONFLUENT}.{name}", f"{here}.{target}"))
    simple = f"{here}.header:SimpleHeaderConverter"
    return [
        *found,
        Plugin(PluginType.HEADER_CONVERTER, f"{KAFKA}.storage.SimpleHeaderConverter", simple),
    ]


# Transform -> module. Those in the first table work on values, and their subclasses on keys.
KEY_OR_VALUE_TRANSFORMS: Final = {
    "Cast": "cast",
    "ExtractField": "extract_field",
    "Flatten": "flatten",
    "HeaderFrom": "headers",
    "HoistField": "hoist_field",
    "InsertField": "insert_field",
    "MaskField": "mask_field",
    "ReplaceField": "replace_field",
    "SetSchemaMetadata": "set_schema_metadata",
    "TimestampConverter": "timestamp_converter",
}
RECORD_TRANSFORMS: Final = {
    "DropHeaders": "headers",
    "Filter": "filter",
    "InsertHeader": "headers",
    "RegexRouter": "regex_router",
    "TimestampRouter": "timestamp_router",
    "ValueToKey": "value_to_key",
}
PREDICATES: Final = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")


def _transforms() -> list[Plugin]:
    targets = {name: f"{module}:{name}" for name, module in RECORD_TRANSFORMS.items()}
    for name, module in KEY_OR_VALUE_TRANSFORMS.items():
        targets[f"{name}$Key"] = f"{module}:{name}Key"
        targets[f"{name}$Value"] = f"{module}:{name}"
    return [
        Plugin(PluginType.TRANSFORM, f"{KAFKA}.transforms.{name}", f"{PACKAGE}.transforms.{target}")
        for name, target in sorted(targets.items())
    ]


def _predicates() -> list[Plugin]:
    named = f"{KAFKA}.transforms.predicates"
    return [
        Plugin(PluginType.PREDICATE, f"{named}.{name}", f"{PACKAGE}.predicates:{name}")
        for name in PREDICATES
    ]


def builtin_plugins() -> list[Plugin]:
    return [*_connectors(), *_converters(), *_transforms(), *_predicates()]
