"""DescribeTransactions (key 65), v0.

The state of transactions by their ids, and the partitions that still wait for their ends (KIP-664).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


def handle(
    ctx: Context, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    transactions, ids = ctx.broker.transactions, request.transactional_ids
    return transactions.read(transactions.coordinator.describe(ids), ids)
