"""WriteTxnMarkers (key 27), v1 to v2.

Appends a transaction's marker, on behalf of its coordinator, to each partition that this broker
leads. The response is sent when the markers are committed; each partition has its own error code,
and the coordinator retries those that failed.

v2  transaction version (KIP-1228): markers of version 2 raise the producer's epoch (KIP-890)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_markers import TransactionEnd
from ottla.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(
    ctx: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    answers = [answer for marker in request.markers for answer in _write(ctx, marker)]
    return all_of(answers).then(lambda codes: _response(request, codes)).result()


def _write(ctx: RequestContext, marker: WritableTxnMarker) -> list[Promise[ErrorCode]]:
    """For each partition a result, which resolves when its marker is committed."""
    end = TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    answers = []
    for topic in marker.topics:
        for index in topic.partition_indexes:
            answer = Promise[ErrorCode]()
            ctx.broker.markers.write(
                topic.name, index, end, now_ms=ctx.now_ms, callback=answer.resolve
            )
            answers.append(answer)
    return answers


def _response(request: WriteTxnMarkersRequest, codes: list[ErrorCode]) -> WriteTxnMarkersResponse:
    remaining_codes = iter(codes)
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, next(remaining_codes))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
