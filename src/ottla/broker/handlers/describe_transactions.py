"""DescribeTransactions (key 65), v0.

The state of transactions by their ids, and the partitions that still wait for their ends (KIP-664).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(
    ctx: Context, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    transactions = ctx.broker.transactions
    describe, kind = AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID
    ids = [each for each in request.transactional_ids if ctx.may(describe, kind, each)]
    response = transactions.coordinator.describe(ids)
    if ctx.rights is not None:
        for state in response.transaction_states:
            state.topics = [
                topic
                for topic in state.topics
                if ctx.may(describe, AclResource.TOPIC, topic.topic, quiet=True)
            ]
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    known = set(ids)
    response.transaction_states += [
        TransactionState(error_code=code, transactional_id=each)
        for each in request.transactional_ids
        if each not in known
    ]
    return transactions.read(response, ids)
