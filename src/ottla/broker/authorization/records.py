"""Authorization of reading and writing records, and of transactions."""

from __future__ import annotations

from typing import Any

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.authorization.authorization_steps import (
    DENIED_CODES,
    ApiAuthorization,
    ItemStep,
    map_response,
    topic_name,
)
from ottla.broker.handlers.produce import (
    ATTRIBUTES_POSITION,
    MAGIC_POSITION,
)
from ottla.broker.request_context import Handler, RequestContext
from ottla.coordinator.responses import txn_commit_error
from ottla.errors import ErrorCode
from ottla.records.batch import MAGIC, TRANSACTIONAL_BIT
from ottla.wire.connection import ProtocolError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from ottla.wire.messages.describe_producers import PartitionResponse, TopicRequest, TopicResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

O, R = AclOperation, AclResource  # noqa: E741
TXN_DENIED = DENIED_CODES[R.TRANSACTIONAL_ID]
BATCHED_FROM = 4  # AddPartitionsToTxn of brokers


def produce(handle: Handler, ctx: RequestContext, request: ProduceRequest) -> Any:
    """HOT. WRITE on the transactional id if a batch is transactional; WRITE on each topic."""
    rights = ctx.rights
    if rights is None:
        return handle(ctx, request)
    if _transactional(request) and (
        request.transactional_id is None
        or not ctx.may(O.WRITE, R.TRANSACTIONAL_ID, request.transactional_id)
    ):
        return _produce_denied(request, request.topic_data, TXN_DENIED)
    writable = rights.writable
    for topic in request.topic_data:
        if (topic.name or topic_name(ctx, topic)) not in writable:
            break
    else:
        return handle(ctx, request)
    allowed: list[TopicProduceData] = []
    denied: list[TopicProduceData] = []
    for topic in request.topic_data:
        (allowed if _may_write(ctx, topic) else denied).append(topic)
    if not denied:
        return handle(ctx, request)
    refused = _produce_denied(request, denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not allowed:
        return refused
    request.topic_data = allowed

    def merged(response: ProduceResponse) -> ProduceResponse:
        response.responses += refused.responses
        return response

    return map_response(handle(ctx, request), merged)


def _may_write(ctx: RequestContext, topic: TopicProduceData) -> bool:
    name = topic.name or topic_name(ctx, topic)
    if name is None:
        return True
    allowed = ctx.may(O.WRITE, R.TOPIC, name)
    if allowed and ctx.rights is not None and not ctx.logs_allowed:
        ctx.rights.writable.add(name)
    return allowed


def _transactional(request: ProduceRequest) -> bool:
    """True if any batch is transactional, even if the request names no id (CVE-2018-17196)."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            data: Any = partition.records
            if (
                data is not None
                and len(data) > ATTRIBUTES_POSITION
                and data[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT
                and data[MAGIC_POSITION] == MAGIC
            ):
                return True
    return False


def _produce_denied(
    request: ProduceRequest, topics: list[TopicProduceData], code: ErrorCode
) -> ProduceResponse:
    if request.acks == 0:  # there is no response: only a closed connection can show the error
        raise ProtocolError(f"a produce with acks=0 failed: {code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=partition.index, error_code=code, base_offset=-1)
                    for partition in topic.partition_data
                ],
            )
            for topic in topics
        ]
    )


def list_offsets(handle: Handler, ctx: RequestContext, request: ListOffsetsRequest) -> Any:
    """DESCRIBE on each topic; for a follower CLUSTER_ACTION is enough."""
    if request.replica_id >= 0 and ctx.may(O.CLUSTER_ACTION, R.CLUSTER, quiet=True):
        return handle(ctx, request)
    return _LIST_OFFSETS(handle, ctx, request)


def list_offsets_denied(topic: ListOffsetsTopic, code: ErrorCode) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        topic.name,
        [
            ListOffsetsPartitionResponse(
                partition_index=partition.partition_index, error_code=code, timestamp=-1, offset=-1
            )
            for partition in topic.partitions
        ],
    )


_LIST_OFFSETS = ApiAuthorization(ItemStep(O.DESCRIBE, R.TOPIC, list_offsets_denied))


def delete_records_denied(topic: DeleteRecordsTopic, code: ErrorCode) -> DeleteRecordsTopicResult:
    partitions = topic.partitions
    return DeleteRecordsTopicResult(
        topic.name,
        [
            DeleteRecordsPartitionResult(partition.partition_index, -1, code)
            for partition in partitions
        ],
    )


def epochs_denied(topic: OffsetForLeaderTopic, code: ErrorCode) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic.topic,
        [EpochEndOffset(code, partition.partition, -1, -1) for partition in topic.partitions],
    )


def producers_denied(topic: TopicRequest, code: ErrorCode) -> TopicResponse:
    return TopicResponse(
        topic.name, [PartitionResponse(index, code, None, []) for index in topic.partition_indexes]
    )


def init_producer_id(handle: Handler, ctx: RequestContext, request: InitProducerIdRequest) -> Any:
    """WRITE on the transactional id; without an id IDEMPOTENT_WRITE, or WRITE on any topic."""
    if request.transactional_id is not None:
        if ctx.may(O.WRITE, R.TRANSACTIONAL_ID, request.transactional_id):
            return handle(ctx, request)
        code = TXN_DENIED
    else:
        if ctx.may(O.IDEMPOTENT_WRITE, R.CLUSTER, quiet=True) or ctx.may_any(O.WRITE, R.TOPIC):
            return handle(ctx, request)
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def add_partitions_to_txn(
    handle: Handler, ctx: RequestContext, request: AddPartitionsToTxnRequest
) -> Any:
    """WRITE on the transactional id and on each topic; if one is denied, nothing is added."""
    if ctx.version >= BATCHED_FROM:
        if ctx.may(O.CLUSTER_ACTION, R.CLUSTER):
            return handle(ctx, request)
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not ctx.may(O.WRITE, R.TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return _not_added(topics, {topic.name: TXN_DENIED for topic in topics})
    denied = {topic.name for topic in topics if not ctx.may(O.WRITE, R.TOPIC, topic.name)}
    if not denied:
        return handle(ctx, request)
    codes = {topic.name: ErrorCode.OPERATION_NOT_ATTEMPTED for topic in topics}
    codes |= dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return _not_added(topics, codes)


def _not_added(
    topics: list[AddPartitionsToTxnTopic], codes: dict[str, ErrorCode]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnPartitionResult(index, codes[topic.name])
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def markers_denied(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def txn_commit_refused(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return txn_commit_error(request.topics, code)


def txn_commit_denied(
    topic: TxnOffsetCommitRequestTopic, code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        topic.name,
        topic.topic_id,
        [
            TxnOffsetCommitResponsePartition(partition.partition_index, code)
            for partition in topic.partitions
        ],
    )
