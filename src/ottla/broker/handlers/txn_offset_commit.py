"""TxnOffsetCommit (key 28), v0 to v6.

Commits a group's offsets as part of a producer's transaction: they take effect with the commit
marker. Partitions that do not exist get an error each; the others are stored together, in the
group's partition of `__consumer_offsets`, which must be part of the transaction.

v2  leader epoch (KIP-320)                v3  member of the group (KIP-447)
v4  TRANSACTION_ABORTABLE (KIP-890)       v5  adds the partition to the transaction (KIP-890)
v6  topic ids, GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.broker.commit_topics import merge_responses, split_by_existence
from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.verification import TransactionProducer
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.coordinator.responses import txn_commit_error
from ottla.coordinator.result import coordinator_code
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_FROM: Final = 2  # older clients do not retry COORDINATOR_LOAD_IN_PROGRESS
ABORTABLE_FROM: Final = 4
ADDS_FROM: Final = 5
TOPIC_IDS_FROM: Final = 6


def handle(
    ctx: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    refused = [_remove_unknown(ctx, topic) for topic in request.topics]
    topics = request.topics
    request.topics = [topic for topic in topics if topic.partitions]
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    answer = Promise[TxnOffsetCommitResponse]()
    try:
        checked = _check(ctx, request)
    except KafkaError as error:
        answer.resolve(_refused(ctx, request, coordinator_code(error.code)))
    else:
        checked.then(lambda code: _commit(ctx, request, code, answer))
    return answer.then(lambda response: _merge(refused, topics, response)).result()


def _check(ctx: RequestContext, request: TxnOffsetCommitRequest) -> Promise[ErrorCode]:
    """Whether the transaction may write to the group's partition; KafkaError if it isn't here."""
    broker = ctx.broker
    index = broker.groups.coordinator.member_shard_of(request.group_id).partition
    partition = broker.partitions.leading(OFFSETS_TOPIC, index)
    writer = TransactionProducer(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        adds=ctx.version >= ADDS_FROM,
        knows_abortable=ctx.version >= ABORTABLE_FROM,
    )
    checked = Promise[ErrorCode]()
    verified = broker.verification.verify(writer, [partition], ctx.now_ms)
    verified.then(lambda codes: checked.resolve(codes.get((OFFSETS_TOPIC, index), ErrorCode.NONE)))
    return checked


def _commit(
    ctx: RequestContext,
    request: TxnOffsetCommitRequest,
    code: ErrorCode,
    answer: Promise[TxnOffsetCommitResponse],
) -> None:
    if code is not ErrorCode.NONE:
        if code is ErrorCode.NETWORK_EXCEPTION:  # of a connection between brokers
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        answer.resolve(_refused(ctx, request, code))
        return
    groups = ctx.broker.groups
    outcome = groups.coordinator.txn_offset_commit(
        request, version=ctx.version, token=answer, now_ms=ctx.now_ms
    )
    groups.carry_out(outcome, ctx.now_ms)


def _refused(
    ctx: RequestContext, request: TxnOffsetCommitRequest, code: ErrorCode
) -> TxnOffsetCommitResponse:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.version < LOADING_FROM:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return txn_commit_error(request.topics, code)


def _remove_unknown(
    ctx: RequestContext, topic: TxnOffsetCommitRequestTopic
) -> TxnOffsetCommitResponseTopic:
    """Keep only existing partitions in a topic of the request, and fill in its name and id."""
    image = ctx.broker.image
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if ctx.version >= TOPIC_IDS_FROM:
        topic.name = image.topic_name(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.name else ErrorCode.UNKNOWN_TOPIC_ID
    known = image.topics.get(topic.name)
    count = 0
    if known is not None:
        topic.topic_id = known.id
        count = len(known.partitions)
    refused = TxnOffsetCommitResponseTopic(topic.name, topic.topic_id)
    topic.partitions, others = split_by_existence(topic.partitions, count)
    refused.partitions = [TxnOffsetCommitResponsePartition(index, unknown) for index in others]
    return refused


def _merge(
    refused: list[TxnOffsetCommitResponseTopic],
    topics: list[TxnOffsetCommitRequestTopic],
    response: TxnOffsetCommitResponse,
) -> TxnOffsetCommitResponse:
    merge_responses(refused, topics, response.topics)
    return TxnOffsetCommitResponse(topics=refused)
