"""Where the transactions of a source task end (KIP-618): `transaction.boundary`.

A Spark batch is one transaction. With `poll` it holds whole polls; with `interval` it holds
everything that was polled during the interval; with `connector` it holds whole transactions as the
task defines them. Records of such a transaction stay in memory here until the task commits or
aborts it, because rows that were handed to Spark cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConnectException
from ottla.connect.run.task_requests import ConnectorJob
from ottla.connect.transformation_chain import ProducedRow

TRANSACTION_BOUNDARY: Final = "transaction.boundary"
TRANSACTION_BOUNDARY_INTERVAL: Final = "transaction.boundary.interval.ms"
FLUSH_INTERVAL: Final = "offset.flush.interval.ms"
FLUSH_INTERVAL_MS: Final = "60000"
TIMEOUT_MS: Final = 60_000  # transaction.timeout.ms of a task's producer, as in Kafka Connect
OPEN_S_MAX: Final = 600.0
"""How long one transaction stays open at most; transaction.max.timeout.ms is 15 minutes."""
OPEN_RECORDS_MAX: Final = 500_000


@dataclass(slots=True)
class PolledBatch:
    """Rows that are written together, with the source offsets behind them."""

    records: list[SourceRecord] = field(default_factory=list)
    """What `commit_record` is called with."""
    rows: list[ProducedRow] = field(default_factory=list)
    offsets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    count: int = 0
    """All records that were polled, including those that are not written."""


def defined_by_connector(job: ConnectorJob) -> bool:
    return job.exactly_once and _boundary(job.config) == "connector"


def interval_s(job: ConnectorJob) -> float | None:
    """None: a batch runs as soon as there are records."""
    if not job.exactly_once or _boundary(job.config) != "interval":
        return None
    default = job.worker.properties.get(FLUSH_INTERVAL, FLUSH_INTERVAL_MS)
    return int(job.config.get(TRANSACTION_BOUNDARY_INTERVAL) or default) / 1000


def timeout_ms(job: ConnectorJob) -> int:
    """transaction.timeout.ms: longer than the interval for which the transaction stays open."""
    return TIMEOUT_MS + int(min(interval_s(job) or 0.0, OPEN_S_MAX) * 1000)


def _boundary(config: Mapping[str, str]) -> str:
    return config.get(TRANSACTION_BOUNDARY, "poll").strip().lower()


class WorkerTransactionContext:
    """The TransactionContext of a task, and the records of its open transaction."""

    def __init__(self) -> None:
        self._open = PolledBatch()
        self._commit_on: set[int] = set()
        self._abort_on: set[int] = set()
        self._commit_poll = False
        self._abort_poll = False

    # Called by the task, within `poll`.

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

    # Called by the framework, after `poll`.

    def completed(
        self, records: Sequence[SourceRecord], polled: Sequence[PolledBatch]
    ) -> Iterator[PolledBatch]:
        """The transactions that this poll completed; `polled` has one batch for each record."""
        last = len(records) - 1
        for number, (record, batch) in enumerate(zip(records, polled, strict=True)):
            self._add(batch)
            done = self._complete(id(record) in self._commit_on, id(record) in self._abort_on)
            if number == last and done is None:
                done = self._complete(self._commit_poll, self._abort_poll)
            if done is not None:
                yield done
        self._commit_on.clear()
        self._abort_on.clear()
        self._commit_poll = self._abort_poll = False

    def _add(self, polled: PolledBatch) -> None:
        transaction = self._open
        transaction.records += polled.records
        transaction.rows += polled.rows
        transaction.offsets |= polled.offsets
        transaction.count += polled.count
        if transaction.count > OPEN_RECORDS_MAX:
            raise ConnectException(
                f"A transaction that the connector defines has more than {OPEN_RECORDS_MAX}"
                " records, which are kept in memory until it ends. Commit earlier, or set"
                " transaction.boundary to poll or interval."
            )

    def _complete(self, commits: bool, aborts: bool) -> PolledBatch | None:
        """An aborted transaction keeps its offsets, so that its records are not polled again."""
        if commits and aborts:
            raise ConnectException("Connector requested both commit and abort of same transaction")
        if not (commits or aborts) or not self._open.count:
            return None
        done, self._open = self._open, PolledBatch()
        if aborts:
            done.records, done.rows = [], []
        return done
