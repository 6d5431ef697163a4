"""What follows from an event of a transaction: records, then answers, then markers.

The order is fixed: append `records` to the shard's partition, as one batch; when they are
committed, send `replies`, and have `markers` written to the partitions of the transactions that are
decided. Whoever writes them tells `TransactionShard.marked` how it went. If nothing could be
appended, `TransactionShard.failed` goes back to what was before, and gives the replies that say so.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordinator.outcome import RecordBytes, Token
from ottla.coordinator.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Partition,
    Transaction,
)
from ottla.errors import ErrorCode


class Result(NamedTuple):
    """What every request of a transaction is told, whichever message it is told in."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class Markers(NamedTuple):
    """The end of one transaction, to be written to each of its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    partitions: tuple[Partition, ...]


Reply = tuple[Token, Result]


class Outcome:
    """`partition` of `__transaction_state` gets the records; it is -1 where there can be none."""

    __slots__ = ("before", "markers", "partition", "records", "replies")

    def __init__(self, partition: int = -1) -> None:
        self.partition = partition
        self.records: list[RecordBytes] = []
        self.replies: list[Reply] = []
        self.markers: list[Markers] = []
        # What this event has changed, as it was; None for an id that was new. For the shard only.
        self.before: dict[str, Transaction | None] = {}

    def __repr__(self) -> str:
        return (
            f"Outcome(records={self.records!r}, replies={self.replies!r}, markers={self.markers!r})"
        )


def answered(token: Token, result: Result) -> Outcome:
    outcome = Outcome()
    outcome.replies.append((token, result))
    return outcome
