"""AddPartitionsToTxn (key 24), v0 to v5.

A transaction will write to these partitions; each of them gets a marker when it ends. If one does
not exist none is added, and those that do are told OPERATION_NOT_ATTEMPTED.

v2  PRODUCER_FENCED        v4  from brokers: several transactions, or only a look (KIP-890)
v5  TRANSACTION_ABORTABLE
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.coordinator.transactions.outcome import Result
from ottla.coordinator.transactions.transaction import Partition
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

Codes = dict[Partition, ErrorCode]


def handle(
    ctx: Context, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    asked = request.transactions
    if ctx.version < BATCHED_FROM:
        asked = [
            AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                request.v3_and_below_topics,
            )
        ]
    answers = [_add(ctx, transaction) for transaction in asked]
    if any(isinstance(answer, asyncio.Future) for answer in answers):
        return _respond_later(ctx, asked, answers)
    return _response(ctx, asked, [answer for answer in answers if isinstance(answer, dict)])


async def _respond_later(
    ctx: Context,
    asked: list[AddPartitionsToTxnTransaction],
    answers: list[Codes | asyncio.Future[Result]],
) -> AddPartitionsToTxnResponse:
    """Once every transaction's partitions are stored."""
    codes: list[Codes] = []
    for transaction, answer in zip(asked, answers, strict=True):
        if isinstance(answer, asyncio.Future):
            result = await answer
            answer = dict.fromkeys(_partitions(transaction), result.code)
        codes.append(answer)
    return _response(ctx, asked, codes)


def _add(
    ctx: Context, transaction: AddPartitionsToTxnTransaction
) -> Codes | asyncio.Future[Result]:
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
    answer = Answer[Result]()
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
    return dict.fromkeys(partitions, result.code) if isinstance(result, Result) else result


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[Partition]:
    return [(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _missing(ctx: Context, partitions: list[Partition]) -> Codes:
    """What each is told if one of them does not exist; else nothing."""
    topics = ctx.broker.image.topics

    def exists(topic: str, index: int) -> bool:
        known = topics.get(topic)
        return known is not None and 0 <= index < len(known.partitions)

    codes = {
        each: ErrorCode.OPERATION_NOT_ATTEMPTED
        if exists(*each)
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for each in partitions
    }
    return codes if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes.values() else {}


def _response(
    ctx: Context, asked: list[AddPartitionsToTxnTransaction], codes: list[Codes]
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transaction.transactional_id, [_topic(ctx, topic, each) for topic in transaction.topics]
        )
        for transaction, each in zip(asked, codes, strict=True)
    ]
    if ctx.version < BATCHED_FROM:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _topic(
    ctx: Context, topic: AddPartitionsToTxnTopic, codes: Codes
) -> AddPartitionsToTxnTopicResult:
    results = []
    for index in topic.partitions:
        code = codes[topic.name, index]
        if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        results.append(AddPartitionsToTxnPartitionResult(index, code))
    return AddPartitionsToTxnTopicResult(topic.name, results)
