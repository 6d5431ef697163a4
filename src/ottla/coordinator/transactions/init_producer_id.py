"""InitProducerId: the producer gets the next epoch, or a new id.

A new producer of a transactional id raises the epoch, which fences the one before. A producer that
continues after an error sends its id and epoch (KIP-360), and is fenced if there is a newer one.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.transactions.transaction import (
    NO_EPOCH,
    PREPARED,
    TransactionMetadata,
    is_exhausted,
)
from ottla.errors import ErrorCode, KafkaError

ExpectedProducer = tuple[int, int] | None  # producer id and epoch


def check_producer(transaction: TransactionMetadata, expected: ExpectedProducer) -> None:
    """PRODUCER_FENCED unless the producer sends the current id, or the previous one.

    The previous one only if its epochs were exhausted: the response with the new id may be lost.
    """
    if expected is None or expected[0] == transaction.producer_id:
        return
    if expected[0] != transaction.previous_producer_id or not is_exhausted(expected[1]):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def init_producer_id(
    transaction: TransactionMetadata | None,
    timeout_ms: int,
    expected: ExpectedProducer,
    *,
    ids: Callable[[], int],
    now_ms: int,
) -> TransactionMetadata:
    """The next state of the id; KafkaError if the producer has to retry or is fenced."""
    if transaction is None:
        new = TransactionMetadata(ids(), NO_EPOCH, timeout_ms)
        return new.resumed(0, NO_EPOCH, timeout_ms, now_ms)
    if transaction.state in PREPARED:
        # Checked before the producer, which may send the id that it gets with the end.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    check_producer(transaction, expected)
    if transaction.is_exhausted and (expected is None or expected[1] == transaction.epoch):
        last_epoch = NO_EPOCH if expected is None else transaction.epoch
        return transaction.rotated(ids(), timeout_ms, now_ms, last_epoch=last_epoch)
    if expected is None:
        return transaction.resumed(transaction.epoch + 1, NO_EPOCH, timeout_ms, now_ms)
    if expected[1] == transaction.epoch:
        return transaction.resumed(transaction.epoch + 1, transaction.epoch, timeout_ms, now_ms)
    if expected[1] == transaction.last_epoch:
        # A retry, because the response was lost. A newer producer would have unset last_epoch.
        return transaction.resumed(transaction.epoch, transaction.last_epoch, timeout_ms, now_ms)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)
