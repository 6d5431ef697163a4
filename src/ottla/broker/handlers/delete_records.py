"""DeleteRecords (key 21), v0 to v2 (KIP-107).

Moves the start of partitions up to an offset, or with -1 to the high watermark; answers where each
begins now. Records of internal topics, and of topics that are only compacted, stay.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.cluster.image import INTERNAL_TOPICS
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_LOW_WATERMARK = -1


def handle(ctx: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_answer(ctx, topic.name, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    ctx: Context, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _delete(ctx, topic, asked)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index,
            low_watermark=NO_LOW_WATERMARK,
            error_code=error.code,
        )
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=low_watermark
    )


def _delete(ctx: Context, topic: str, asked: DeleteRecordsPartition) -> int:
    partition = ctx.broker.partitions.find(topic, asked.partition_index)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}"
        )
    policy = partition.log.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Records of partition {partition} can not be deleted due to the configured policy",
        )
    return partition.delete_records(asked.offset, ctx.now_ms)
