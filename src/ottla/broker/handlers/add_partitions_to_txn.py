"""AddPartitionsToTxn (key 24), v0 to v5.

Adds partitions to a transaction; each of them gets a marker when the transaction ends. If one of
them does not exist, none is added, and the others are answered with OPERATION_NOT_ATTEMPTED.

v2  PRODUCER_FENCED        v4  from brokers: several transactions, or verify only (KIP-890)
v5  TRANSACTION_ABORTABLE
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.coordinator.transactions.result import TransactionResult
from ottla.coordinator.transactions.transaction import TopicPartition
from ottla.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_FROM: Final = 2
BATCHED_FROM: Final = 4

ErrorsByPartition = dict[TopicPartition, ErrorCode]


def handle(
    ctx: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    requested = request.transactions
    if ctx.version < BATCHED_FROM:
        requested = [
            AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                request.v3_and_below_topics,
            )
        ]
    answers = [_add(ctx, transaction) for transaction in requested]
    if any(isinstance(answer, asyncio.Future) for answer in answers):
        return _respond_later(ctx, requested, answers)
    return _response(ctx, requested, [answer for answer in answers if isinstance(answer, dict)])


async def _respond_later(
    ctx: RequestContext,
    requested: list[AddPartitionsToTxnTransaction],
    answers: list[ErrorsByPartition | asyncio.Future[TransactionResult]],
) -> AddPartitionsToTxnResponse:
    """Answer once the partitions of every transaction are stored."""
    codes: list[ErrorsByPartition] = []
    for transaction, answer in zip(requested, answers, strict=True):
        if isinstance(answer, asyncio.Future):
            result = await answer
            answer = dict.fromkeys(_partitions(transaction), result.code)
        codes.append(answer)
    return _response(ctx, requested, codes)


def _add(
    ctx: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> ErrorsByPartition | asyncio.Future[TransactionResult]:
    partitions = _partitions(transaction)
    refused = _missing(ctx, partitions)
    if refused:
        return refused
    transactions = ctx.broker.transactions
    if transaction.verify_only:
        return transactions.coordinator.verify(
            transaction.transactional_id,
            partitions,
            producer_id=transaction.producer_id,
            epoch=transaction.producer_epoch,
        )
    answer = Promise[TransactionResult]()
    outcome = transactions.coordinator.add_partitions(
        transaction.transactional_id,
        partitions,
        producer_id=transaction.producer_id,
        epoch=transaction.producer_epoch,
        client_version=2 if ctx.version >= BATCHED_FROM else 0,
        token=answer,
        now_ms=ctx.now_ms,
    )
    transactions.carry_out(outcome, ctx.now_ms)
    result = answer.result()
    return (
        dict.fromkeys(partitions, result.code) if isinstance(result, TransactionResult) else result
    )


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _missing(ctx: RequestContext, partitions: list[TopicPartition]) -> ErrorsByPartition:
    """The error of each partition if one of them does not exist; else empty."""
    topics = ctx.broker.image.topics

    def exists(topic: str, index: int) -> bool:
        known = topics.get(topic)
        return known is not None and 0 <= index < len(known.partitions)

    codes = {
        partition: ErrorCode.OPERATION_NOT_ATTEMPTED
        if exists(*partition)
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions
    }
    return codes if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes.values() else {}


def _response(
    ctx: RequestContext,
    requested: list[AddPartitionsToTxnTransaction],
    codes: list[ErrorsByPartition],
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transaction.transactional_id,
            [_topic(ctx, topic, errors) for topic in transaction.topics],
        )
        for transaction, errors in zip(requested, codes, strict=True)
    ]
    if ctx.version < BATCHED_FROM:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _topic(
    ctx: RequestContext, topic: AddPartitionsToTxnTopic, codes: ErrorsByPartition
) -> AddPartitionsToTxnTopicResult:
    results = []
    for index in topic.partitions:
        code = codes[topic.name, index]
        if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        results.append(AddPartitionsToTxnPartitionResult(index, code))
    return AddPartitionsToTxnTopicResult(topic.name, results)
