"""Where the transactions of a source task end (KIP-618): with polls, by time, or as it says.

A batch of Spark's is the transaction. It holds whole polls (`poll`), or whatever came since the
last one, an interval ago (`interval`), or whole transactions of the connector's (`connector`): one
of these is kept here until its end is known, as rows that Spark has can't be taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConnectException
from ottla.connect.run.orders import Job
from ottla.connect.tolerance import ProducedRow

BOUNDARY: Final = "transaction.boundary"
INTERVAL: Final = "transaction.boundary.interval.ms"
FLUSH_INTERVAL: Final = "offset.flush.interval.ms"
FLUSH_INTERVAL_MS: Final = "60000"
TIMEOUT_MS: Final = 60_000  # of a producer's transaction; Connect's own
OPEN_S_MAX: Final = 600.0
"""A batch that takes more than can wait is open for so long; brokers allow 15 minutes."""
OPEN_RECORDS_MAX: Final = 500_000


@dataclass(slots=True)
class Polled:
    """What is written together: rows, and how far the task has come with them."""

    records: list[SourceRecord] = field(default_factory=list)
    """To be told of when they are committed."""
    rows: list[ProducedRow] = field(default_factory=list)
    offsets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    count: int = 0
    """Of all records that were polled, also of those that are not written."""


def defined_by_connector(job: Job) -> bool:
    return job.exactly_once and _boundary(job.config) == "connector"


def interval_s(job: Job) -> float | None:
    """None: batches come as there are records."""
    if not job.exactly_once or _boundary(job.config) != "interval":
        return None
    default = job.worker.properties.get(FLUSH_INTERVAL, FLUSH_INTERVAL_MS)
    return int(job.config.get(INTERVAL) or default) / 1000


def timeout_ms(job: Job) -> int:
    """The transaction of a task may be open for an interval, and some."""
    return TIMEOUT_MS + int(min(interval_s(job) or 0.0, OPEN_S_MAX) * 1000)


def _boundary(config: Mapping[str, str]) -> str:
    return config.get(BOUNDARY, "poll").strip().lower()


class Transactions:
    """The TransactionContext of a task, and what it has polled since the last end."""

    def __init__(self) -> None:
        self._open = Polled()
        self._commit_on: set[int] = set()
        self._abort_on: set[int] = set()
        self._commit_poll = False
        self._abort_poll = False

    # What the task asks for.

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        if record is None:
            self._commit_poll = True
        else:
            self._commit_on.add(id(record))

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        if record is None:
            self._abort_poll = True
        else:
            self._abort_on.add(id(record))

    # What the runner does.

    def ended(self, records: Sequence[SourceRecord], polled: Sequence[Polled]) -> Iterator[Polled]:
        """Those that a poll ended, one for each record of it; the rest waits for its end."""
        last = len(records) - 1
        for number, (record, each) in enumerate(zip(records, polled, strict=True)):
            self._add(each)
            ends = self._ends(id(record) in self._commit_on, id(record) in self._abort_on)
            if number == last and ends is None:
                ends = self._ends(self._commit_poll, self._abort_poll)
            if ends is not None:
                yield ends
        self._commit_on.clear()
        self._abort_on.clear()
        self._commit_poll = self._abort_poll = False

    def _add(self, polled: Polled) -> None:
        found = self._open
        found.records += polled.records
        found.rows += polled.rows
        found.offsets |= polled.offsets
        found.count += polled.count
        if found.count > OPEN_RECORDS_MAX:
            raise ConnectException(
                f"A transaction of the connector's has more than {OPEN_RECORDS_MAX} records: it is"
                " kept in memory until its end. Let it end sooner, or set transaction.boundary to"
                " poll or interval."
            )

    def _ends(self, commits: bool, aborts: bool) -> Polled | None:
        """What was aborted is not written, and not polled again: its offsets are committed."""
        if commits and aborts:
            raise ConnectException("Connector requested both commit and abort of same transaction")
        if not (commits or aborts) or not self._open.count:
            return None
        done, self._open = self._open, Polled()
        if aborts:
            done.records, done.rows = [], []
        return done
