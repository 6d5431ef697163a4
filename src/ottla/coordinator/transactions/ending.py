"""Which EndTxn ends a transaction, and the error codes of the others: one table for each version.

A prepared transaction waits for its markers. In Kafka its next transition (to Complete) is pending
all that time, and the answer to every EndTxn is CONCURRENT_TRANSACTIONS: the producer asks again.

Version 1 (EndTxn up to v4). The producer's epoch stays, so a second EndTxn of the same transaction
looks like the first, and the answer is NONE again. Producer id and epoch are checked first.

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

A producer asks again for what it asked for before. A commit that finds its transaction aborted was
overtaken by the coordinator, which aborted for a timeout or for a new producer of this id: it is
fenced, which Kafka Streams can recover from (KAFKA-20785; INVALID_TXN_STATE up to Kafka 4.3).

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
    State,
    Transaction,
)
from ottla.errors import ErrorCode


def check_end(
    transaction: Transaction,
    *,
    producer_id: int,
    epoch: int,
    commit: bool,
    client_version: int,
) -> ErrorCode | None:
    """None if the transaction is to be ended so; else the code of the answer, maybe NONE."""
    if client_version >= EPOCH_BUMP_FROM:
        return _check_v2(transaction, producer_id, epoch, commit)
    return _check_v1(transaction, producer_id, epoch, commit)


def _check_v1(
    transaction: Transaction, producer_id: int, epoch: int, commit: bool
) -> ErrorCode | None:
    if producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if epoch != transaction.epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is State.ONGOING:
        return None
    if transaction.state is State.EMPTY or transaction.commits != commit:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE


def _check_v2(
    transaction: Transaction, producer_id: int, epoch: int, commit: bool
) -> ErrorCode | None:
    state = transaction.state
    if state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    # The transaction before may have used up the epochs: the producer is to go on with another id
    # and epoch 0, and has not heard of it.
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
    if state is State.ONGOING:
        return None
    if not again:
        return ErrorCode.INVALID_TXN_STATE if commit else None
    if transaction.commits == commit:
        return ErrorCode.NONE
    return ErrorCode.PRODUCER_FENCED if commit else ErrorCode.INVALID_TXN_STATE


def _may_be_again(state: State) -> bool:
    return state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


def _may_be_now(state: State) -> bool:
    return state is State.ONGOING or state in AT_REST
