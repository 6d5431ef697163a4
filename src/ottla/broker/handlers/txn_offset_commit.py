"""TxnOffsetCommit (key 28), v0 to v6.

Stores how far a group has come as part of a producer's transaction: it holds from the commit marker
on. Partitions that do not exist are refused one by one; the others are stored together, in the
group's partition of `__consumer_offsets`, which has to be in the transaction.

v2  leader epoch (KIP-320)                v3  member of the group (KIP-447)
v4  TRANSACTION_ABORTABLE (KIP-890)       v5  adds the partition to the transaction (KIP-890)
v6  topic ids, GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.broker.commit_topics import existing, merge
from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.broker.verification import Writer
from ottla.coordinator.keys import OFFSETS_TOPIC
from ottla.coordinator.outcome import coordinator_code
from ottla.coordinator.replies import txn_commit_error
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_FROM: Final = 2  # an older client gives up at COORDINATOR_LOAD_IN_PROGRESS
ABORTABLE_FROM: Final = 4
ADDS_FROM: Final = 5
TOPIC_IDS_FROM: Final = 6


def handle(
    ctx: Context, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    refused = [_take_out_unknown(ctx, topic) for topic in request.topics]
    topics = request.topics
    request.topics = [topic for topic in topics if topic.partitions]
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    answer = Answer[TxnOffsetCommitResponse]()
    try:
        checked = _check(ctx, request)
    except KafkaError as error:
        answer.give(_refused(ctx, request, coordinator_code(error.code)))
    else:
        checked.when(lambda code: _commit(ctx, request, code, answer))
    return then(answer.result(), lambda response: _merge(refused, topics, response))


def _check(ctx: Context, request: TxnOffsetCommitRequest) -> Answer[ErrorCode]:
    """Whether the transaction may write to the group's partition; KafkaError if it is not here."""
    broker = ctx.broker
    index = broker.groups.coordinator.member_shard_of(request.group_id).partition
    partition = broker.partitions.leading(OFFSETS_TOPIC, index)
    writer = Writer(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        adds=ctx.version >= ADDS_FROM,
        knows_abortable=ctx.version >= ABORTABLE_FROM,
    )
    checked = Answer[ErrorCode]()
    verified = broker.verification.verify(writer, [partition], ctx.now_ms)
    verified.when(lambda codes: checked.give(codes.get((OFFSETS_TOPIC, index), ErrorCode.NONE)))
    return checked


def _commit(
    ctx: Context,
    request: TxnOffsetCommitRequest,
    code: ErrorCode,
    answer: Answer[TxnOffsetCommitResponse],
) -> None:
    if code is not ErrorCode.NONE:
        if code is ErrorCode.NETWORK_EXCEPTION:  # of our own, between brokers
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        answer.give(_refused(ctx, request, code))
        return
    groups = ctx.broker.groups
    outcome = groups.coordinator.txn_offset_commit(
        request, version=ctx.version, token=answer, now_ms=ctx.now_ms
    )
    groups.carry_out(outcome, ctx.now_ms)


def _refused(
    ctx: Context, request: TxnOffsetCommitRequest, code: ErrorCode
) -> TxnOffsetCommitResponse:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.version < LOADING_FROM:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return txn_commit_error(request.topics, code)


def _take_out_unknown(
    ctx: Context, topic: TxnOffsetCommitRequestTopic
) -> TxnOffsetCommitResponseTopic:
    """Leave in a topic of the request only what exists; it gets its name and its id."""
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
    topic.partitions, others = existing(topic.partitions, count)
    refused.partitions = [TxnOffsetCommitResponsePartition(index, unknown) for index in others]
    return refused


def _merge(
    refused: list[TxnOffsetCommitResponseTopic],
    topics: list[TxnOffsetCommitRequestTopic],
    response: TxnOffsetCommitResponse,
) -> TxnOffsetCommitResponse:
    merge(refused, topics, response.topics)
    return TxnOffsetCommitResponse(topics=refused)
