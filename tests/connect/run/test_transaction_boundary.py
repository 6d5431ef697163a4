"""Transactions of a source: by the connector, by interval, or by poll (KIP-618)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from planned_requests import planned

from ottla.connect.api import SourceTask, SourceTaskContext, TransactionContext
from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConnectException
from ottla.connect.run import connector_query, worker_source_task
from ottla.connect.run import transaction_boundary as boundaries
from ottla.connect.run.row_packer import cell_batch, unpack_rows
from ottla.connect.run.task_requests import (
    ConnectorJob,
    PackedRows,
    TaskBatchRequest,
    TaskReport,
    TaskWorkRequest,
)
from ottla.connect.run.transaction_boundary import PolledBatch, WorkerTransactionContext
from ottla.connect.run.worker_context import WorkerContext
from ottla.connect.run.worker_source_task import WorkerSourceTask
from ottla.connect.run.worker_task import TaskError
from ottla.spark.sink.commit_log import SinkIdentity
from ottla.spark.sink.options import write_options
from ottla.spark.sink.task_attempt import TaskAttempt, commit_log_of, write_exactly_once

WAIT_S_MAX = 240.0


class Bundles(SourceTask):
    """0 to 39 in polls of 4. Nines commit a transaction, 25 aborts one, the last poll commits."""

    given: list[TransactionContext | None] = []  # noqa: RUF012

    def start(self, props: Any, context: SourceTaskContext) -> None:
        self._context = context.transaction_context
        self.given.append(self._context)
        offset = context.offset({"id": "0"})
        self._next = int(offset["next"]) if offset else 0
        self._topic = props["topic"]
        self._wrong = "wrong" in props

    def poll(self) -> list[SourceRecord] | None:
        numbers = range(self._next, min(self._next + 4, 40))
        self._next = numbers.stop
        records = [
            SourceRecord({"id": "0"}, {"next": number + 1}, self._topic, value=str(number))
            for number in numbers
        ]
        if self._context is not None:
            for number, record in zip(numbers, records, strict=True):
                if number % 10 == 9 and number < 39:
                    self._context.commit_transaction(record)
                if number == 25 or (number == 9 and self._wrong):
                    self._context.abort_transaction(record)
            if 39 in numbers:
                self._context.commit_transaction()
        return records or None


class FakeCaller:
    """A connected caller that stores what it receives."""

    def has_message(self, within_s: float = 0.0) -> bool:
        return False

    def __init__(self) -> None:
        self.batches: list[PackedRows] = []

    def send(self, rows: PackedRows) -> None:
        self.batches.append(rows)


@pytest.fixture
def job_of(broker: Any, worker: WorkerContext) -> Callable[..., ConnectorJob]:
    def made(**settings: str) -> ConnectorJob:
        name = f"b-{uuid.uuid4().hex[:8]}"
        broker.create_topic(name, partitions=1)
        config = {"topic": name, **{key.replace("_", "."): v for key, v in settings.items()}}
        job = ConnectorJob(name, uuid.uuid4().hex, True, "", config, worker, [(0, config)], True)
        connector_query.make_offsets_topic(config, worker)
        taken = connector_query.take_over(job) + 1
        return ConnectorJob(
            name, job.run, True, "", config, worker, [(0, config)], True, first_batch=taken
        )

    return made


def batches(job: ConnectorJob, live: WorkerSourceTask) -> Iterator[list[str]]:
    """The records of consecutive batches, each written and decided."""
    for batch in range(1000):
        deadline = time.monotonic() + WAIT_S_MAX
        while batch and not live.has_work(TaskWorkRequest(batch, 0.1)):
            assert time.monotonic() < deadline
        (order,), line = planned(job, batch), FakeCaller()
        report = live.serve(order, line)  # type: ignore[arg-type]
        assert isinstance(report, TaskReport)
        options = write_options(connector_query.write_options(job))
        number = job.first_batch + batch
        turn = TaskAttempt(SinkIdentity(job.query), number, job.run, 0, 0, owned=True)
        result = write_exactly_once(options, turn, map(cell_batch, line.batches))
        written = [result.transaction]
        commit_log_of(options, SinkIdentity(job.query)).commit(
            batch=number, run=job.run, transactions=written
        )
        rows = [row for some in line.batches for row in unpack_rows(some).to_pylist()]
        yield [row["value"].decode() for row in rows if row["topic"] == job.config["topic"]]


def taken(job: ConnectorJob, live: WorkerSourceTask, last: str) -> list[list[str]]:
    found: list[list[str]] = []
    try:
        for batch in batches(job, live):
            found.append(batch)
            if last in batch:
                return found
    finally:
        live.stop()
    raise AssertionError(f"{last} never came")


def test_a_connectors_transactions_are_whole_and_aborted_ones_are_dropped(
    job_of: Callable[..., ConnectorJob],
) -> None:
    job = job_of(transaction_boundary="Connector")
    found = taken(job, WorkerSourceTask(Bundles, TaskBatchRequest(job, 0, 0, 0)), "39")
    flat = [row for some in found for row in some]
    assert flat == [str(number) for number in range(40) if not 20 <= number <= 25]
    assert all(some[-1] in ("9", "19", "29", "39") for some in found if some)


def test_other_boundaries_have_no_transaction_context(job_of: Callable[..., ConnectorJob]) -> None:
    job = job_of(transaction_boundary="poll")
    Bundles.given.clear()
    found = taken(job, WorkerSourceTask(Bundles, TaskBatchRequest(job, 0, 0, 0)), "39")
    assert [row for some in found for row in some] == [str(number) for number in range(40)]
    assert Bundles.given == [None]


def test_a_transaction_cannot_commit_and_abort(job_of: Callable[..., ConnectorJob]) -> None:
    job = job_of(transaction_boundary="connector", wrong="1")
    live = WorkerSourceTask(Bundles, TaskBatchRequest(job, 0, 0, 0))
    with pytest.raises(TaskError, match="both commit and abort of same transaction"):
        taken(job, live, "39")


def test_a_transaction_must_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries, "OPEN_RECORDS_MAX", 2)
    record = SourceRecord({}, {}, "t", value="v")
    with pytest.raises(ConnectException, match="more than 2 records"):
        list(WorkerTransactionContext().completed([record] * 3, [PolledBatch(count=1)] * 3))


@pytest.mark.parametrize("full", [False, True], ids=["in one piece", "as they come"])
def test_transactions_by_time(
    full: bool, job_of: Callable[..., ConnectorJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    if full:  # no more can wait: the batch begins before it is due, and lasts until then
        monkeypatch.setattr(worker_source_task, "WAITING_RECORDS_MAX", 4)
    job = job_of(transaction_boundary="interval", transaction_boundary_interval_ms="1500")
    assert boundaries.timeout_ms(job) == 61_500
    began = time.monotonic()
    found = taken(job, WorkerSourceTask(Bundles, TaskBatchRequest(job, 0, 0, 0)), "39")
    assert time.monotonic() - began >= 1.5
    assert [row for some in found for row in some] == [str(number) for number in range(40)]


def test_the_interval_is_the_workers_unless_it_is_given(worker: WorkerContext) -> None:
    def interval(config: dict[str, str], **properties: str) -> float | None:
        of = WorkerContext({name.replace("_", "."): value for name, value in properties.items()})
        return boundaries.interval_s(
            ConnectorJob("n", "r", True, "", config, of, [], exactly_once=True)
        )

    timed = {"transaction.boundary": "INTERVAL"}
    assert interval(timed) == 60.0
    assert interval(timed, offset_flush_interval_ms="5000") == 5.0
    assert interval({**timed, "transaction.boundary.interval.ms": "100"}) == 0.1
    assert interval({"transaction.boundary.interval.ms": "100"}) is None
