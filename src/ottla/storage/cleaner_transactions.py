"""Which transactional batches and which markers a cleaning may drop (KIP-98).

    a batch of an aborted transaction    goes at once
    a marker                             stays while a batch of its transaction is left in the log;
                                         when there is none it gets a delete horizon, as a tombstone
                                         does, and goes when that has passed (KIP-534)

The transaction index of the cleaned segment lists an aborted transaction for as long as a batch of
it was seen on the way to its marker. Nothing beyond the last stable offset is ever cleaned, so that
the fate of every transaction which begins here is known, even if its marker stands further on.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.records.batch import TRANSACTIONAL_BIT, BatchHeader
from ottla.records.checksum import Buffer
from ottla.records.control import read_marker
from ottla.storage.aborted import AbortedTransaction, TransactionIndex


class Transactions:
    """One walk over the batches of a log, in the order of their offsets."""

    __slots__ = ("_aborted", "_committing", "_next", "_ongoing", "_seen")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda each: each.first_offset)
        self._next = 0  # the first of them that has not begun
        self._ongoing: dict[int, AbortedTransaction] = {}  # by producer id
        self._seen: set[int] = set()  # producers of aborted ones of which a batch was seen
        self._committing: set[int] = set()  # the same of those that will commit

    def is_aborted(self, header: BatchHeader) -> bool:
        """For each batch that is no marker."""
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
        """For each marker: whether nothing is left for it to decide.

        One that aborts what is left is entered into `index`.
        """
        self._begin(header.last_offset)
        marker = read_marker(data, header)
        if marker is None:  # the header alone, which was kept for its producer's epoch
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
            if aborted.last_offset >= offset:  # else it has ended before this walk began
                self._ongoing[aborted.producer_id] = aborted
            self._next += 1
