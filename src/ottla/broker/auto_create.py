"""Creates topics that a client asks for without creating them, and the brokers' internal topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.forwarding import RETRIABLE, await_image, call_controller
from ottla.cluster.topics import TopicSpec
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts

CREATE_S_MAX: Final = 10.0


async def auto_create_topic(broker: BrokerParts, spec: TopicSpec) -> None:
    """When this returns, the topic is in our image; another broker may have created it.

    KafkaError if it cannot be created; LEADER_NOT_AVAILABLE if a retry may help.
    """
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=spec.name,
                num_partitions=spec.partition_count,
                replication_factor=spec.replication_factor,
                configs=[CreatableTopicConfig(*config) for config in spec.configs.items()],
            )
        ],
        timeout=int(CREATE_S_MAX * 1000),
    )
    response = await call_controller(broker, request, ApiKey.CREATE_TOPICS, CreateTopicsResponse)
    (result,) = response.topics
    if result.error_code in RETRIABLE:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, result.error_message or "")
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
    await await_image(broker.metadata, lambda image: spec.name in image.topics)
