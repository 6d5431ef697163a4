"""One transactional id: its producer, its transaction's state, and each step from state to state.

    Empty  --partition added-->  Ongoing  --EndTxn, timeout, fenced-->  PrepareCommit, PrepareAbort
      ^                             ^                                          |
      |                             +--partition added--+                all markers written
      |                                                 |                      v
      +---------------InitProducerId---------------- CompleteCommit, CompleteAbort

A transaction is a value: a step gives a new one, and whoever took the step can go back by keeping
the old one. Transaction version 2 (KIP-890) raises the producer's epoch with each end, so that what
comes late from one transaction cannot pass for the next; when epochs run out, the producer gets a
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

Partition = tuple[str, int]  # topic, index


class State(Enum):
    """Kafka's states, by the number that they have in `__transaction_state`."""

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
        """As DescribeTransactions and ListTransactions say it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Transaction(NamedTuple):
    """What is known of a transactional id. `last_epoch` is not stored, as in Kafka."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[Partition] = frozenset()
    start_ms: int = NEVER_MS
    update_ms: int = NEVER_MS
    previous_producer_id: int = NO_PRODUCER_ID  # that of the state before
    next_producer_id: int = NO_PRODUCER_ID  # given with the transaction's end, if epochs ran out
    client_version: int = 0  # the transaction version of the client that made the last step
    last_epoch: int = NO_EPOCH  # that a producer which resumes (KIP-360) may still come with

    @property
    def is_exhausted(self) -> bool:
        """The last epoch but one is the last for clients: one more is needed to fence them."""
        return is_exhausted(self.epoch)

    @property
    def commits(self) -> bool:
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    # Steps

    def resumed(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """InitProducerId: nothing is open, and the producer has this epoch."""
        return self._replace(
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=State.EMPTY,
            partitions=frozenset(),
            start_ms=NEVER_MS,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
        )

    def rotated(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, last_epoch: int
    ) -> Transaction:
        """InitProducerId when no epoch is left: a new id, which begins with epoch 0."""
        resumed = self.resumed(0, last_epoch, timeout_ms, now_ms)
        return resumed._replace(producer_id=producer_id)

    def with_partitions(
        self, partitions: frozenset[Partition], client_version: int, now_ms: int
    ) -> Transaction:
        return self._replace(
            state=State.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            client_version=client_version,
        )

    def prepared(
        self, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """Decided. Version 2 may abort where nothing is open, which counts as begun now."""
        epoch, last_epoch = self.epoch, self.last_epoch
        if client_version >= EPOCH_BUMP_FROM:
            epoch, last_epoch = min(self.epoch + 1, EPOCH_MAX), self.epoch
        return self._replace(
            epoch=epoch,
            last_epoch=last_epoch,
            state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        producer_id, epoch = self.producer_after, self.epoch_after
        return self._replace(
            producer_id=producer_id,
            epoch=epoch,
            state=State.COMPLETE_COMMIT if self.commits else State.COMPLETE_ABORT,
            partitions=frozenset(),
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    @property
    def producer_after(self) -> int:
        """Under which id the producer goes on once what is prepared is complete."""
        return self.next_producer_id if self._moves_on else self.producer_id

    @property
    def epoch_after(self) -> int:
        return 0 if self._moves_on else self.epoch

    @property
    def _moves_on(self) -> bool:
        has_next = self.next_producer_id != NO_PRODUCER_ID
        return has_next and self.client_version >= EPOCH_BUMP_FROM

    def without(self, partitions: frozenset[Partition]) -> Transaction:
        """These have their markers. Known in memory only: who loads a transaction writes anew."""
        assert self.state in PREPARED
        return self._replace(partitions=self.partitions - partitions)


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1
