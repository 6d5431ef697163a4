"""Which transactional batches and markers a cleaning may remove (KIP-98).

    a batch of an aborted transaction    is removed at once
    a marker                             stays while the log has a batch of its transaction; then it
                                         gets a delete horizon, as a tombstone does, and is removed
                                         when that has passed (KIP-534)

The cleaned segment's transaction index lists an aborted transaction as long as the walk saw a batch
of it before its marker. Nothing beyond the last stable offset is ever cleaned, so the outcome of
every transaction that begins here is known, even if its marker is in a later segment.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.records.batch import TRANSACTIONAL_BIT, BatchHeader
from ottla.records.checksum import Buffer
from ottla.records.control import read_marker
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex


class CleanedTransactionMetadata:
    """The transactions on one walk over the batches of a log, in the order of their offsets."""

    __slots__ = ("_aborted", "_committing", "_next", "_ongoing", "_seen")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset)
        self._next = 0  # the first of them that the walk has not reached
        self._ongoing: dict[int, AbortedTransaction] = {}  # by producer id
        self._seen: set[int] = set()  # producers of ongoing ones that have a batch in the log
        self._committing: set[int] = set()  # the same for transactions that will commit

    def is_aborted(self, header: BatchHeader) -> bool:
        """True for a batch, not a marker, of an aborted transaction."""
        if not header.attributes & TRANSACTIONAL_BIT:
            return False
        self._begin(header.last_offset)
        producer_id = header.producer_id
        if producer_id in self._ongoing:
            self._seen.add(producer_id)
            return True
        self._committing.add(producer_id)
        return False

    def is_spent(self, data: Buffer, header: BatchHeader, index: TransactionIndex | None) -> bool:
        """True for a marker whose transaction has no batch left in the log.

        A marker that aborts a batch which is left enters its transaction into `index`.
        """
        self._begin(header.last_offset)
        marker = read_marker(data, header)
        if marker is None:  # only its header is left, which keeps the producer's epoch
            return True
        producer_id = header.producer_id
        if marker.commit:
            if producer_id in self._committing:
                self._committing.discard(producer_id)
                return False
            return True
        aborted = self._ongoing.pop(producer_id, None)
        if aborted is None or producer_id not in self._seen:
            return True
        self._seen.discard(producer_id)
        if index is not None:
            index.append(aborted)
        return False

    def _begin(self, offset: int) -> None:
        while self._next < len(self._aborted):
            aborted = self._aborted[self._next]
            if aborted.first_offset > offset:
                break
            if aborted.last_offset >= offset:  # else it ended before the walk began
                self._ongoing[aborted.producer_id] = aborted
            self._next += 1
