"""The clients of Kafka, typed, over confluent-kafka, and serdes for keys and values.

    from ottla.client import Consumer, Producer

Producer, Consumer, ShareConsumer and Admin work with any Kafka cluster. Serdes turn keys and values
into bytes and back, with or without a schema registry. The registry and the rooms
of the Spark half speak to brokers through this one.

    producer.py, consumer.py   records to and from topics, on librdkafka
    admin.py                   topics, configs, groups, transactions, quotas, users
    serde.py                   Serde and Kafka's own formats; serdes/ has those with a registry
    protocol/                  Ottla's own Kafka client, for requests that librdkafka lacks

confluent-kafka is imported in this room and nowhere else, and only by the modules that need it: a
tool that imports one module does not pay for the others. Nothing here imports broker, replica,
storage or cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.configs import ResourceType
    from ottla.client.consumer import Consumer, RebalanceListener
    from ottla.client.delivery import Delivery
    from ottla.client.producer import FutureRecordMetadata, Producer
    from ottla.client.record import ConsumerRecord, RecordMetadata, TopicPartition
    from ottla.client.record_reader import RecordDeserializationError
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
    "ConsumerRecord",
    "Delivery",
    "Double",
    "ErrorCode",
    "Float",
    "FutureRecordMetadata",
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
    "RecordDeserializationError",
    "RecordMetadata",
    "ResourceType",
    "SchemaRegistry",
    "Serde",
    "SerializationError",
    "ShareConsumer",
    "Short",
    "String",
    "TopicPartition",
    "Uuid",
]

_MODULES = {
    "Admin": "ottla.client.admin",
    "Avro": "ottla.client.serdes.avro",
    "Boolean": "ottla.client.serde",
    "Bytes": "ottla.client.serde",
    "Consumer": "ottla.client.consumer",
    "RecordMetadata": "ottla.client.record",
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
    "ConsumerRecord": "ottla.client.record",
    "RecordDeserializationError": "ottla.client.record_reader",
    "ResourceType": "ottla.client.configs",
    "SchemaRegistry": "ottla.client.schema_registry",
    "FutureRecordMetadata": "ottla.client.producer",
    "Serde": "ottla.client.serde",
    "SerializationError": "ottla.client.serde",
    "ShareConsumer": "ottla.client.share_consumer",
    "Short": "ottla.client.serde",
    "String": "ottla.client.serde",
    "TopicPartition": "ottla.client.record",
    "Uuid": "ottla.client.serde",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
