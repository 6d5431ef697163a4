"""DeleteRecords (key 21), v0 to v2 (KIP-107).

Moves the start of partitions up to an offset, or with -1 to the high watermark; answers where each
begins now, when all replicas that are alive have done the same, or with REQUEST_TIMED_OUT. Records
of internal topics, and of topics that are only compacted, stay.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ottla.broker.context import Context
from ottla.cluster.image import INTERNAL_TOPICS
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_LOW_WATERMARK = -1


def handle(
    ctx: Context, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    waits: list[Wait] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_answer(ctx, topic.name, asked, waits) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    if not waits or request.timeout <= 0:
        return response
    return Deleting(response, waits).wait(request.timeout)


class Wait(NamedTuple):
    """Replicas of a partition that have not deleted the same yet."""

    partition: Partition
    target: int
    result: DeleteRecordsPartitionResult


class Deleting:
    """A request that waits for followers. They say where their logs begin when they fetch."""

    def __init__(self, response: DeleteRecordsResponse, waits: list[Wait]) -> None:
        self._response = response
        self._waits = waits
        self._parked = [each.partition for each in waits]

    def wait(self, timeout_ms: int) -> asyncio.Future[DeleteRecordsResponse]:
        loop = asyncio.get_running_loop()
        self._future: asyncio.Future[DeleteRecordsResponse] = loop.create_future()
        self._future.add_done_callback(self._leave)
        self._timer = loop.call_later(timeout_ms / 1000, self._give)
        for partition in self._parked:
            partition.waiting.add(self._look)
        return self._future

    def _look(self, size: int) -> None:
        left = []
        for each in self._waits:
            each.result.low_watermark = each.partition.low_watermark
            if not each.partition.leads:
                each.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                each.result.low_watermark = NO_LOW_WATERMARK
            elif each.result.low_watermark < each.target:
                left.append(each)
            else:
                each.result.error_code = ErrorCode.NONE
        self._waits = left
        if not left:
            self._give()

    def _give(self) -> None:
        if not self._future.done():
            self._future.set_result(self._response)

    def _leave(self, future: asyncio.Future[DeleteRecordsResponse]) -> None:
        self._timer.cancel()
        for partition in self._parked:
            partition.waiting.discard(self._look)


def _answer(
    ctx: Context, topic: str, asked: DeleteRecordsPartition, waits: list[Wait]
) -> DeleteRecordsPartitionResult:
    index = asked.partition_index
    try:
        partition, start = _delete(ctx, topic, asked)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
        )
    result = DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=partition.low_watermark
    )
    if result.low_watermark < start:
        result.error_code = ErrorCode.REQUEST_TIMED_OUT  # until it is known to be done
        waits.append(Wait(partition, start, result))
    return result


def _delete(ctx: Context, topic: str, asked: DeleteRecordsPartition) -> tuple[Partition, int]:
    partition = ctx.broker.partitions.leading(topic, asked.partition_index)
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
    return partition, partition.delete_records(asked.offset, ctx.now_ms)
