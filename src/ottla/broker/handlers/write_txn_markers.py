"""WriteTxnMarkers (key 27), v1 to v2.

A transaction's coordinator has decided: its marker is appended to each partition that this broker
leads. Answered when the markers are committed; each partition has an answer of its own, and the
coordinator tries again where it has to.

v2  transaction version (KIP-1228): markers of version 2 raise the producer's epoch (KIP-890)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of, then
from ottla.broker.markers import End, write_marker
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
    ctx: Context, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    answers = [answer for marker in request.markers for answer in _write(ctx, marker)]
    return then(all_of(answers).result(), lambda codes: _response(request, codes))


def _write(ctx: Context, marker: WritableTxnMarker) -> list[Answer[ErrorCode]]:
    """An answer for each partition, there when its marker is committed."""
    end = End(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    answers = []
    for topic in marker.topics:
        for index in topic.partition_indexes:
            answer = Answer[ErrorCode]()
            write_marker(ctx.broker, topic.name, index, end, now_ms=ctx.now_ms, tell=answer.give)
            answers.append(answer)
    return answers


def _response(request: WriteTxnMarkersRequest, codes: list[ErrorCode]) -> WriteTxnMarkersResponse:
    told = iter(codes)
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, next(told))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
