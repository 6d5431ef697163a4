"""A small typed layer over confluent-kafka: Producer, Consumer, Admin.

    from ottla.client import Consumer, Producer

confluent-kafka is imported in this room and nowhere else.
"""

from __future__ import annotations

from ottla.client.admin import Admin
from ottla.client.consumer import Consumer, RebalanceListener
from ottla.client.delivery import Delivery
from ottla.client.producer import Producer, Sending
from ottla.client.record import Delivered, Record, TopicPartition
from ottla.client.serde import Serde
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
    "Sending",
    "Serde",
    "TopicPartition",
]
