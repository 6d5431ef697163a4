"""DeleteRecords (key 21), v0 to v2 (KIP-107).

Moves the log start offset of partitions up to an offset, or with -1 to the high watermark. Returns
the low watermark when all live replicas have followed, else REQUEST_TIMED_OUT. Records of internal
topics, and of topics that are only compacted, cannot be deleted.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ottla.broker.delayed_operation import DelayedOperation
from ottla.broker.request_context import RequestContext
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
    ctx: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    pending: list[PendingDeletion] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _answer(ctx, topic.name, requested, pending) for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not pending or request.timeout <= 0:
        return response
    return DelayedDeleteRecords(response, pending, request.timeout).future


class PendingDeletion(NamedTuple):
    """A partition whose low watermark has not reached `target` yet."""

    partition: Partition
    target: int
    result: DeleteRecordsPartitionResult


class DelayedDeleteRecords:
    """A request that waits for followers, which report their log start offsets as they fetch."""

    def __init__(
        self, response: DeleteRecordsResponse, pending: list[PendingDeletion], timeout_ms: int
    ) -> None:
        self._response = response
        self._pending = pending
        self._partitions = [deletion.partition for deletion in pending]
        self._operation = DelayedOperation(self._try_complete, timeout_ms, on_end=self._unwatch)
        for partition in self._partitions:
            partition.waiting.add(self._wake)

    @property
    def future(self) -> asyncio.Future[DeleteRecordsResponse]:
        return self._operation.future

    def _wake(self, size: int) -> None:
        self._operation.look()

    def _try_complete(self, last: bool) -> DeleteRecordsResponse | None:
        left = []
        for wait in self._pending:
            wait.result.low_watermark = wait.partition.low_watermark
            if not wait.partition.leads:
                wait.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                wait.result.low_watermark = NO_LOW_WATERMARK
            elif wait.result.low_watermark < wait.target:
                left.append(wait)
            else:
                wait.result.error_code = ErrorCode.NONE
        self._pending = left
        return None if left and not last else self._response

    def _unwatch(self) -> None:
        for partition in self._partitions:
            partition.waiting.discard(self._wake)


def _answer(
    ctx: RequestContext,
    topic: str,
    requested: DeleteRecordsPartition,
    pending: list[PendingDeletion],
) -> DeleteRecordsPartitionResult:
    index = requested.partition_index
    try:
        partition, start = _delete(ctx, topic, requested)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
        )
    result = DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=partition.low_watermark
    )
    if result.low_watermark < start:
        result.error_code = ErrorCode.REQUEST_TIMED_OUT  # until it is known to be done
        pending.append(PendingDeletion(partition, start, result))
    return result


def _delete(
    ctx: RequestContext, topic: str, requested: DeleteRecordsPartition
) -> tuple[Partition, int]:
    partition = ctx.broker.partitions.leading(topic, requested.partition_index)
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
    return partition, partition.delete_records(requested.offset, ctx.now_ms)
