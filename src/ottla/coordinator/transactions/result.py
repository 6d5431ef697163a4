"""What a request of a transaction gets back, and the markers that follow from a decision.

The order is fixed (see `ottla.coordinator.result`): a decision is stored; then its request gets a
TransactionResult, and TransactionMarkers are written to the partitions of the transaction. How that
went comes back as another event, `TransactionCoordinatorShard.marked`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.coordinator.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, TopicPartition
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)


class TransactionResult(NamedTuple):
    """The result of any request about a transaction; handlers put it into their message."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class TransactionMarkers(NamedTuple):
    """The end of one transaction, to be written to each of its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


def error_response(response: Any, code: ErrorCode) -> Any:
    """What to send instead of this response when the records before it are not stored."""
    if isinstance(response, DescribeTransactionsResponse):
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(error_code=code, transactional_id=state.transactional_id)
                for state in response.transaction_states
            ]
        )
    return TransactionResult(code)
