"""A coordinator's partition as it is loaded: the last valid value of each key.

Only these values are parsed afterwards; compaction would leave the same. Records of a transaction
become valid with its commit marker; those of an aborted transaction never do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.coordinator.open_transactions import OpenTransactions
from ottla.records.record import Record

NO_PRODUCER_ID = -1


class LatestRecords:
    """Takes all records and markers, in the order of the log."""

    __slots__ = ("_pending", "latest")

    def __init__(self) -> None:
        self.latest: dict[bytes, bytes | None] = {}
        self._pending: OpenTransactions[bytes, bytes] = OpenTransactions()

    def add(self, records: Iterable[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """Records of one batch or, outside of transactions, of several."""
        latest, pending = self.latest, self._pending
        if producer_id != NO_PRODUCER_ID:
            for record in records:
                if record.key is not None:
                    pending.put(producer_id, record.key, record.value)
            return
        for record in records:
            key = record.key
            if key is None:
                continue
            latest[key] = record.value
            if len(pending):
                if record.value is None:
                    pending.drop(key)
                else:
                    pending.supersede(key)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """The marker that ends this producer's transaction."""
        self.latest.update(self._pending.end(producer_id, commit=commit))

    def open(self) -> Iterator[tuple[bytes, int, bytes | None]]:
        """Key, producer id and value of what waits for a marker; None if a later write won."""
        for key in self._pending:
            for producer_id, value in self._pending.values_of(key).items():
                yield key, producer_id, value
