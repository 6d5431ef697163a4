"""Transactions as DescribeTransactions and ListTransactions show them (KIP-664)."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from typing import Final

from ottla.coordinator.consumer.regex import RegexPattern
from ottla.coordinator.transactions.transaction import TransactionMetadata, TransactionState
from ottla.errors import KafkaError
from ottla.wire.messages import describe_transactions, list_transactions
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

PRINTABLE: Final = frozenset(string.printable)
_STATES: Final = {state.title: state for state in TransactionState}


def describe_transaction(
    transactional_id: str, transaction: TransactionMetadata
) -> describe_transactions.TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout=transaction.timeout_ms,
        transaction_start_time=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[describe_transactions.TopicData(*item) for item in topics.items()],
    )


def transaction_listings(
    transactions: Iterable[tuple[str, TransactionMetadata]],
    request: ListTransactionsRequest,
    *,
    now_ms: int,
    visible: Callable[[str], bool] = lambda transactional_id: True,
) -> ListTransactionsResponse:
    """v1 filters by how long a transaction has been open (KIP-994), v2 by id (KIP-1152)."""
    known = list(transactions)
    names = request.state_filters
    states = {_STATES[name] for name in names if name in _STATES}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter

    def wanted(transactional_id: str, transaction: TransactionMetadata) -> bool:
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        if names and transaction.state not in states:
            return False
        if duration_ms >= 0 and now_ms - transaction.start_ms <= duration_ms:
            return False
        # The pattern comes last, so that its time reveals nothing of ids hidden from the client.
        return visible(transactional_id) and matches(transactional_id)

    try:
        matches = _pattern(request.transactional_id_pattern, (name for name, _ in known))
        states_wanted = [
            list_transactions.TransactionState(id_, found.producer_id, found.state.title)
            for id_, found in known
            if wanted(id_, found)
        ]
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in names if name not in _STATES],
        transaction_states=states_wanted,
    )


def _pattern(text: str | None, ids: Iterable[str]) -> Callable[[str], bool]:
    """A predicate: the whole id matches. No pattern, or an empty one, matches all."""
    if not text:
        return lambda transactional_id: True
    return RegexPattern(text, PRINTABLE.union(*ids)).matches
