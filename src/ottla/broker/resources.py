"""The resource types of Kafka's config APIs."""

from __future__ import annotations

from enum import IntEnum

from ottla.errors import ErrorCode, KafkaError


class ConfigResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def check_node_id(name: str, node_id: int) -> None:
    """INVALID_REQUEST unless the resource names this broker."""
    if name != str(node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id}, but received {name}",
        )


def unsupported_type(resource_type: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")
