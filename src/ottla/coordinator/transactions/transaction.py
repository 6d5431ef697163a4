"""One transactional id: its producer, the state of its transaction, and the steps between states.

    Empty  --partition added-->  Ongoing  --EndTxn, timeout, fenced-->  PrepareCommit, PrepareAbort
      ^                             ^                                          |
      |                             +--partition added--+                all markers written
      |                                                 |                      v
      +---------------InitProducerId---------------- CompleteCommit, CompleteAbort

TransactionMetadata is a value: a step returns a new one, and to undo a step is to keep the old one.
Transaction version 2 (KIP-890) raises the producer's epoch with each end, so that a late write of
one transaction cannot become part of the next; when the epochs are exhausted, the producer gets a
new id with the next end.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 0x7FFF
NEVER_MS: Final = -1
EPOCH_BUMP_FROM: Final = 2  # the transaction version whose EndTxn raises the epoch
TWO_PHASE_TIMEOUT_MS: Final = 0x7FFFFFFF  # a transaction that is never timed out (KIP-939)

TopicPartition = tuple[str, int]  # topic, index


class TransactionState(Enum):
    """Kafka's states; the numbers are those in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As in DescribeTransactions and ListTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
AT_REST: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)


class TransactionMetadata(NamedTuple):
    """The state of a transactional id. `last_epoch` is not stored, as in Kafka."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NEVER_MS
    update_ms: int = NEVER_MS
    previous_producer_id: int = NO_PRODUCER_ID  # that of the previous state
    next_producer_id: int = NO_PRODUCER_ID  # if the end of the transaction has exhausted the epochs
    client_version: int = 0  # the transaction version of the client that made the last step
    last_epoch: int = NO_EPOCH  # that a producer which retries (KIP-360) may still send

    @property
    def is_exhausted(self) -> bool:
        """Clients get all epochs but the last, which is needed to fence them."""
        return is_exhausted(self.epoch)

    @property
    def commits(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    # Steps

    def resumed(
        self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        """InitProducerId: no transaction is open, and the producer has this epoch."""
        return self._replace(
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NEVER_MS,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
        )

    def rotated(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, last_epoch: int
    ) -> TransactionMetadata:
        """InitProducerId when the epochs are exhausted: a new id, with epoch 0."""
        resumed = self.resumed(0, last_epoch, timeout_ms, now_ms)
        return resumed._replace(producer_id=producer_id)

    def with_partitions(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> TransactionMetadata:
        return self._replace(
            state=TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            client_version=client_version,
        )

    def prepared(
        self, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> TransactionMetadata:
        """EndTxn. Version 2 may abort when nothing is open; such a transaction begins now."""
        assert self.state not in PREPARED  # a decision never changes
        assert not commit or self.state is TransactionState.ONGOING  # there is something to commit
        epoch, last_epoch = self.epoch, self.last_epoch
        if client_version >= EPOCH_BUMP_FROM:
            # The markers carry the next epoch, so partitions refuse late records of this one.
            epoch, last_epoch = min(self.epoch + 1, EPOCH_MAX), self.epoch
        return self._replace(
            epoch=epoch,
            last_epoch=last_epoch,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> TransactionMetadata:
        """Every partition has its marker."""
        assert self.state in PREPARED
        assert not self.partitions
        producer_id, epoch = self.producer_after, self.epoch_after
        return self._replace(
            producer_id=producer_id,
            epoch=epoch,
            state=TransactionState.COMPLETE_COMMIT
            if self.commits
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    @property
    def producer_after(self) -> int:
        """The producer's id once the prepared transaction is complete."""
        return self.next_producer_id if self._moves_on else self.producer_id

    @property
    def epoch_after(self) -> int:
        return 0 if self._moves_on else self.epoch

    @property
    def _moves_on(self) -> bool:
        has_next = self.next_producer_id != NO_PRODUCER_ID
        return has_next and self.client_version >= EPOCH_BUMP_FROM

    def without(self, partitions: frozenset[TopicPartition]) -> TransactionMetadata:
        """These have their markers. Not stored: after a load all markers are written again."""
        assert self.state in PREPARED
        return self._replace(partitions=self.partitions - partitions)


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1
