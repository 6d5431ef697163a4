"""DescribeTransactions (key 65), v0.

Returns the state of transactions by transactional id, and the partitions that are in them
(KIP-664).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    transactions = ctx.broker.transactions
    describe, kind = AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID
    ids = [
        transactional_id
        for transactional_id in request.transactional_ids
        if ctx.may(describe, kind, transactional_id)
    ]
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
        TransactionState(error_code=code, transactional_id=transactional_id)
        for transactional_id in request.transactional_ids
        if transactional_id not in known
    ]
    return transactions.read_committed(response, ids)
