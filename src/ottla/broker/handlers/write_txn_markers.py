"""WriteTxnMarkers (key 27), v1 to v2.

A transaction's coordinator has decided: its marker is appended to each partition that this broker
leads. Each partition has an answer of its own, and the coordinator tries again where it has to.

v2  transaction version (KIP-1228): markers of version 2 raise the producer's epoch (KIP-890)
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.broker.markers import write_marker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(ctx: Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[_write(ctx, marker) for marker in request.markers])


def _write(ctx: Context, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    result = WritableTxnMarkerResult(producer_id=marker.producer_id)
    for topic in marker.topics:
        told = WritableTxnMarkerTopicResult(name=topic.name)
        for index in topic.partition_indexes:
            code = write_marker(
                ctx.broker,
                topic.name,
                index,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                commit=marker.transaction_result,
                transaction_version=marker.transaction_version,
                now_ms=ctx.now_ms,
            )
            told.partitions.append(WritableTxnMarkerPartitionResult(index, code))
        result.topics.append(told)
    return result
