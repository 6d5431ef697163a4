"""Topics that brokers create by themselves: because a client asks for one, or for their own use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.forwarding import PASSING, ask_controller, until_image
from ottla.cluster.decisions import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

CREATE_S_MAX: Final = 10.0


async def create(broker: Broker, wish: NewTopic) -> None:
    """The topic is in our image when this returns; that somebody else has made it is as good.

    KafkaError if it can't be, LEADER_NOT_AVAILABLE if it only can't be now.
    """
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=wish.name,
                num_partitions=wish.partition_count,
                replication_factor=wish.replication_factor,
                configs=[CreatableTopicConfig(*each) for each in wish.configs.items()],
            )
        ],
        timeout=int(CREATE_S_MAX * 1000),
    )
    response = await ask_controller(broker, request, ApiKey.CREATE_TOPICS, CreateTopicsResponse)
    (result,) = response.topics
    if result.error_code in PASSING:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, result.error_message or "")
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
    await until_image(broker, lambda image: wish.name in image.topics)
