"""DescribeProducers (key 61), v0.

The producers that a partition's log knows, with their last sequence and, where one has a
transaction open, the offset at which it begins (KIP-664): so one is found that nobody ends.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import KafkaError
from ottla.storage.producers import Producer
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(ctx: Context, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_describe(ctx, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(ctx: Context, topic: str, index: int) -> PartitionResponse:
    try:
        partition = ctx.broker.partitions.find(topic, index)
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message or None)
    return PartitionResponse(
        index, active_producers=[_state(each) for each in partition.log.producers()]
    )


def _state(producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_offset,
    )
