"""Who a producer is once it has said InitProducerId: an epoch more, or a new id.

A new producer for a transactional id raises the epoch, which fences the one before. A producer that
goes on after an error says who it was (KIP-360), and is fenced itself if another came meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.transactions.transaction import (
    NO_EPOCH,
    PREPARED,
    Transaction,
    is_exhausted,
)
from ottla.errors import ErrorCode, KafkaError

Expected = tuple[int, int] | None  # producer id and epoch


def check_known(transaction: Transaction, expected: Expected) -> None:
    """Whether this can be the producer that it says it was: the id of now, or the one before.

    The one before only if its epochs were used up: the answer with the new id may have been lost.
    """
    if expected is None or expected[0] == transaction.producer_id:
        return
    if expected[0] != transaction.previous_producer_id or not is_exhausted(expected[1]):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def initialize(
    found: Transaction | None,
    timeout_ms: int,
    expected: Expected,
    *,
    ids: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """What the transactional id becomes; KafkaError if the producer has to wait or is fenced."""
    if found is None:
        unborn = Transaction(ids(), NO_EPOCH, timeout_ms)
        return unborn.resumed(0, NO_EPOCH, timeout_ms, now_ms)
    if found.state in PREPARED:
        # Before the producer is checked: the id that it says it was may be the one to come.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    check_known(found, expected)
    if found.is_exhausted and (expected is None or expected[1] == found.epoch):
        last_epoch = NO_EPOCH if expected is None else found.epoch
        return found.rotated(ids(), timeout_ms, now_ms, last_epoch=last_epoch)
    if expected is None:
        return found.resumed(found.epoch + 1, NO_EPOCH, timeout_ms, now_ms)
    if expected[1] == found.epoch:
        return found.resumed(found.epoch + 1, found.epoch, timeout_ms, now_ms)
    if expected[1] == found.last_epoch:
        # Asked again because the answer was lost. Had another producer come, this would be unset.
        return found.resumed(found.epoch, found.last_epoch, timeout_ms, now_ms)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)
