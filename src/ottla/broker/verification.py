"""KIP-890: the first write of a transaction to a partition is checked with its coordinator.

Else a record that comes late, after its transaction has ended, would open another one that nobody
ends, and hold up all readers of committed records. Once the log has the transaction open there is
no need to ask: its marker has not come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Writer(NamedTuple):
    """Who writes in a transaction, and what its version of the request can do."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool  # transaction version 2: a partition is added by being written to
    knows_abortable: bool  # TRANSACTION_ABORTABLE, which came before that

    def is_known_to(self, partition: Partition) -> bool:
        """Whether the transaction is open in the partition's log."""
        producer = partition.log.producer(self.producer_id)
        return producer is not None and producer.in_transaction(self.producer_epoch)


def verify(
    broker: Broker, writer: Writer, partitions: Iterable[Partition], now_ms: int
) -> dict[tuple[str, int], ErrorCode]:
    """Partitions that may not be written to, by the code that says why."""
    if not writer.adds and not broker.config.transaction_partition_verification_enable:
        return {}
    unknown = [(each.topic, each.index) for each in partitions if not writer.is_known_to(each)]
    if not unknown:
        return {}
    codes = broker.transactions.verify(
        writer.transactional_id,
        writer.producer_id,
        writer.producer_epoch,
        unknown,
        add=writer.adds,
        now_ms=now_ms,
    )
    return {
        place: _told(code, writer) for place, code in codes.items() if code is not ErrorCode.NONE
    }


def _told(code: ErrorCode, writer: Writer) -> ErrorCode:
    """Two codes of the coordinator are not for all who write to partitions."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not writer.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
