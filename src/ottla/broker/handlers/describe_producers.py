"""DescribeProducers (key 61), v0.

Lists the producers of a partition with their last sequence and the start offset of an open
transaction (KIP-664), so that operators can find hanging transactions.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError
from ottla.storage.producers import ProducerStateEntry
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_describe(ctx, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(ctx: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        partition = ctx.broker.partitions.find(topic, index)
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message or None)
    return PartitionResponse(
        index, active_producers=[_state(producer) for producer in partition.log.producers()]
    )


def _state(producer: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_offset,
    )
