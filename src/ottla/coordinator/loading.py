"""A coordinator's partition as it is read back: of each key the last value that holds.

Only that is parsed afterwards, which is what compaction would leave. Records of a transaction hold
from its marker on, and those of one that was aborted never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.coordinator.pending import Pending
from ottla.records.record import Record

NO_PRODUCER_ID = -1


class Loading:
    """Is given everything in the order of the log."""

    __slots__ = ("_pending", "latest")

    def __init__(self) -> None:
        self.latest: dict[bytes, bytes | None] = {}
        self._pending: Pending[bytes, bytes] = Pending()

    def add(self, records: Iterable[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """The records of one batch or, outside of transactions, of several."""
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
                    pending.overtake(key)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """A marker."""
        self.latest.update(self._pending.end(producer_id, commit=commit))

    def open(self) -> Iterator[tuple[bytes, int, bytes | None]]:
        """Key, producer id and value of what waits for a marker; None: a later one holds."""
        for key in self._pending:
            for producer_id, value in self._pending.of(key).items():
                yield key, producer_id, value
