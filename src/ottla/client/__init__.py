"""A small typed layer over confluent-kafka: Producer, Consumer, ShareConsumer, Admin.

    from ottla.client import Consumer, Producer

confluent-kafka is imported in this room and nowhere else, and only by what needs it: a tool that
asks for one module of this room does not pay for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.configs import ResourceType
    from ottla.client.consumer import Consumer, RebalanceListener
    from ottla.client.delivery import Delivery
    from ottla.client.producer import Producer, Sending
    from ottla.client.received import RecordDeserializationError
    from ottla.client.record import Delivered, Record, TopicPartition
    from ottla.client.schema_registry import SchemaRegistry
    from ottla.client.serde import (
        Boolean,
        Bytes,
        Double,
        Float,
        Int,
        Json,
        Long,
        Serde,
        SerializationError,
        Short,
        String,
        Uuid,
    )
    from ottla.client.serdes.avro import Avro
    from ottla.client.serdes.generic_values import GenericRecord
    from ottla.client.serdes.json_schema import JsonSchema
    from ottla.client.serdes.lists import List
    from ottla.client.serdes.protobuf import Protobuf
    from ottla.client.share_consumer import ShareConsumer
    from ottla.errors import ErrorCode, KafkaError

__all__ = [
    "Admin",
    "Avro",
    "Boolean",
    "Bytes",
    "Consumer",
    "Delivered",
    "Delivery",
    "Double",
    "ErrorCode",
    "Float",
    "GenericRecord",
    "Int",
    "Json",
    "JsonSchema",
    "KafkaError",
    "List",
    "Long",
    "Producer",
    "Protobuf",
    "RebalanceListener",
    "Record",
    "RecordDeserializationError",
    "ResourceType",
    "SchemaRegistry",
    "Sending",
    "Serde",
    "SerializationError",
    "ShareConsumer",
    "Short",
    "String",
    "TopicPartition",
    "Uuid",
]

_HOMES = {
    "Admin": "ottla.client.admin",
    "Avro": "ottla.client.serdes.avro",
    "Boolean": "ottla.client.serde",
    "Bytes": "ottla.client.serde",
    "Consumer": "ottla.client.consumer",
    "Delivered": "ottla.client.record",
    "Delivery": "ottla.client.delivery",
    "Double": "ottla.client.serde",
    "ErrorCode": "ottla.errors",
    "Float": "ottla.client.serde",
    "GenericRecord": "ottla.client.serdes.generic_values",
    "Int": "ottla.client.serde",
    "Json": "ottla.client.serde",
    "JsonSchema": "ottla.client.serdes.json_schema",
    "KafkaError": "ottla.errors",
    "List": "ottla.client.serdes.lists",
    "Long": "ottla.client.serde",
    "Producer": "ottla.client.producer",
    "Protobuf": "ottla.client.serdes.protobuf",
    "RebalanceListener": "ottla.client.consumer",
    "Record": "ottla.client.record",
    "RecordDeserializationError": "ottla.client.received",
    "ResourceType": "ottla.client.configs",
    "SchemaRegistry": "ottla.client.schema_registry",
    "Sending": "ottla.client.producer",
    "Serde": "ottla.client.serde",
    "SerializationError": "ottla.client.serde",
    "ShareConsumer": "ottla.client.share_consumer",
    "Short": "ottla.client.serde",
    "String": "ottla.client.serde",
    "TopicPartition": "ottla.client.record",
    "Uuid": "ottla.client.serde",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
