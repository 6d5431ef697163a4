"""Which EndTxn ends a transaction, and the error codes of the others: one table for each version.

A prepared transaction waits for its markers. In Kafka its next transition (to Complete) is pending
meanwhile, and every EndTxn gets CONCURRENT_TRANSACTIONS: the producer retries.

Version 1 (EndTxn up to v4). The producer's epoch stays, so a second EndTxn of the same transaction
looks like the first, and gets NONE again. Producer id and epoch are checked first.

                                    commit                      abort
    Ongoing                         goes                        goes
    PrepareCommit, PrepareAbort     CONCURRENT_TRANSACTIONS     CONCURRENT_TRANSACTIONS
    CompleteCommit                  NONE                        INVALID_TXN_STATE
    CompleteAbort                   INVALID_TXN_STATE           NONE
    Empty                           INVALID_TXN_STATE           INVALID_TXN_STATE

Version 2 (EndTxn v5, KIP-890). Each end raises the epoch, so the epoch tells a retry, which comes
with the epoch before, from the end of the next transaction. Producers no longer add partitions
themselves, and may not know if anything was written: abort goes even where nothing is open.

                      commit, again   commit, now         abort, again   abort, now
    Ongoing           FENCED          goes                FENCED         goes
    Prepare...        CONCURRENT      CONCURRENT          CONCURRENT     CONCURRENT
    CompleteCommit    NONE            ITS                 ITS            goes
    CompleteAbort     FENCED          ITS                 NONE           goes
    Empty             FENCED          ITS                 FENCED         goes

A producer retries the same request. If a commit finds its transaction aborted, the coordinator has
aborted it, for a timeout or for a new producer of this id: the producer is fenced, from which Kafka
Streams can recover (KAFKA-20785; INVALID_TXN_STATE up to Kafka 4.3).

"Commit, now" of nothing is ITS, and stays so. KafkaProducer sends it, rarely, before the records of
its transaction (docs/compatibility.md); Kafka gives the same answer, and nothing tells this from
an empty transaction.

Here the prepared state comes before producer id and epoch. The answer to an EndTxn carries the
epoch, and if epochs ran out the id, of the next transaction, while the markers of this one are
still on their way to other brokers. A producer that ends the next one at once is not fenced by
that: it has to wait.
"""

from __future__ import annotations

from ottla.coordinator.transactions.transaction import (
    AT_REST,
    EPOCH_BUMP_FROM,
    EPOCH_MAX,
    PREPARED,
    TransactionMetadata,
    TransactionState,
)
from ottla.errors import ErrorCode


def check_end_txn(
    transaction: TransactionMetadata,
    *,
    producer_id: int,
    epoch: int,
    commit: bool,
    client_version: int,
) -> ErrorCode | None:
    """None if the transaction is to be ended; else the code of the response, which may be NONE."""
    if client_version >= EPOCH_BUMP_FROM:
        return _check_v2(transaction, producer_id, epoch, commit)
    return _check_v1(transaction, producer_id, epoch, commit)


def _check_v1(
    transaction: TransactionMetadata, producer_id: int, epoch: int, commit: bool
) -> ErrorCode | None:
    if producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if epoch != transaction.epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING:
        return None
    if transaction.state is TransactionState.EMPTY or transaction.commits != commit:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE


def _check_v2(
    transaction: TransactionMetadata, producer_id: int, epoch: int, commit: bool
) -> ErrorCode | None:
    state = transaction.state
    if state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    # The previous transaction may have exhausted the epochs: the producer has to continue with
    # another id and epoch 0, and has not received them.
    overflowed = (
        producer_id == transaction.previous_producer_id
        and epoch == EPOCH_MAX - 1
        and transaction.epoch == 0
    )
    again = overflowed or epoch + 1 == transaction.epoch
    if producer_id != transaction.producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not (_may_be_again(state) if again else _may_be_now(state) and epoch == transaction.epoch):
        return ErrorCode.PRODUCER_FENCED
    if state is TransactionState.ONGOING:
        return None
    if not again:
        return ErrorCode.INVALID_TXN_STATE if commit else None
    if transaction.commits == commit:
        return ErrorCode.NONE
    return ErrorCode.PRODUCER_FENCED if commit else ErrorCode.INVALID_TXN_STATE


def _may_be_again(state: TransactionState) -> bool:
    return state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def _may_be_now(state: TransactionState) -> bool:
    return state is TransactionState.ONGOING or state in AT_REST
