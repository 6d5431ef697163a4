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
    from ottla.client.record import Delivered, Record, TopicPartition
    from ottla.client.serde import Serde
    from ottla.client.share_consumer import ShareConsumer
    from ottla.errors import ErrorCode, KafkaError

__all__ = [
    "Admin",
    "Consumer",
    "Delivered",
    "Delivery",
    "ErrorCode",
    "KafkaError",
    "Producer",
    "RebalanceListener",
    "Record",
    "ResourceType",
    "Sending",
    "Serde",
    "ShareConsumer",
    "TopicPartition",
]

_HOMES = {
    "Admin": "ottla.client.admin",
    "Consumer": "ottla.client.consumer",
    "Delivered": "ottla.client.record",
    "Delivery": "ottla.client.delivery",
    "ErrorCode": "ottla.errors",
    "KafkaError": "ottla.errors",
    "Producer": "ottla.client.producer",
    "RebalanceListener": "ottla.client.consumer",
    "Record": "ottla.client.record",
    "ResourceType": "ottla.client.configs",
    "Sending": "ottla.client.producer",
    "Serde": "ottla.client.serde",
    "ShareConsumer": "ottla.client.share_consumer",
    "TopicPartition": "ottla.client.record",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
