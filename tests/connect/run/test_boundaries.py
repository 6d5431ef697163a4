"""Transactions of a source: as the connector says, by time, or poll by poll (KIP-618)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from planned_orders import planned

from ottla.connect.api import SourceTask, SourceTaskContext, TransactionContext
from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConnectException
from ottla.connect.run import boundaries, query, source_task
from ottla.connect.run.boundaries import Polled, Transactions
from ottla.connect.run.live import TaskError
from ottla.connect.run.orders import Ask, Job, Order, Report, Rows
from ottla.connect.run.rows import cell, unpacked
from ottla.connect.run.source_task import LiveSource
from ottla.connect.run.worker import Worker
from ottla.spark.sink.decisions import Identity
from ottla.spark.sink.options import write_options
from ottla.spark.sink.writing import Turn, decisions_of, write_once

WAIT_S_MAX = 240.0


class Bundles(SourceTask):
    """0 to 39 in polls of 4. Nines end a transaction, 25 aborts one, the last poll ends all."""

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
            SourceRecord({"id": "0"}, {"next": each + 1}, self._topic, value=str(each))
            for each in numbers
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


class Line:
    """Somebody waits at the other end; what was sent is kept."""

    def says_something(self, within_s: float = 0.0) -> bool:
        return False

    def __init__(self) -> None:
        self.batches: list[Rows] = []

    def send(self, rows: Rows) -> None:
        self.batches.append(rows)


@pytest.fixture
def job_of(broker: Any, worker: Worker) -> Callable[..., Job]:
    def made(**settings: str) -> Job:
        name = f"b-{uuid.uuid4().hex[:8]}"
        broker.create_topic(name, partitions=1)
        config = {"topic": name, **{key.replace("_", "."): v for key, v in settings.items()}}
        job = Job(name, uuid.uuid4().hex, True, "", config, worker, [(0, config)], True)
        query.make_offsets_topic(config, worker)
        taken = query.decided(job) + 1
        return Job(name, job.run, True, "", config, worker, [(0, config)], True, first_batch=taken)

    return made


def batches(job: Job, live: LiveSource) -> Iterator[list[str]]:
    """The records of one batch after the other, each written and decided."""
    for batch in range(1000):
        deadline = time.monotonic() + WAIT_S_MAX
        while batch and not live.has_news(Ask(batch, 0.1)):
            assert time.monotonic() < deadline
        (order,), line = planned(job, batch), Line()
        report = live.serve(order, line)  # type: ignore[arg-type]
        assert isinstance(report, Report)
        options = write_options(query.sink_options(job))
        number = job.first_batch + batch
        turn = Turn(Identity(job.query), number, job.run, 0, 0, owned=True)
        told = write_once(options, turn, map(cell, line.batches))
        written = [told.written]
        decisions_of(options, Identity(job.query)).decide(
            batch=number, run=job.run, written=written
        )
        rows = [each for some in line.batches for each in unpacked(some).to_pylist()]
        yield [each["value"].decode() for each in rows if each["topic"] == job.config["topic"]]


def taken(job: Job, live: LiveSource, last: str) -> list[list[str]]:
    found: list[list[str]] = []
    try:
        for each in batches(job, live):
            found.append(each)
            if last in each:
                return found
    finally:
        live.stop()
    raise AssertionError(f"{last} never came")


def test_a_connectors_transactions_are_whole_and_aborted_ones_are_left_out(
    job_of: Callable[..., Job],
) -> None:
    job = job_of(transaction_boundary="Connector")
    found = taken(job, LiveSource(Bundles, Order(job, 0, 0, 0)), "39")
    flat = [each for some in found for each in some]
    assert flat == [str(each) for each in range(40) if not 20 <= each <= 25]
    assert all(some[-1] in ("9", "19", "29", "39") for some in found if some)


def test_elsewhere_there_is_no_transaction_context(job_of: Callable[..., Job]) -> None:
    job = job_of(transaction_boundary="poll")
    Bundles.given.clear()
    found = taken(job, LiveSource(Bundles, Order(job, 0, 0, 0)), "39")
    assert [each for some in found for each in some] == [str(each) for each in range(40)]
    assert Bundles.given == [None]


def test_a_transaction_can_not_be_both(job_of: Callable[..., Job]) -> None:
    job = job_of(transaction_boundary="connector", wrong="1")
    live = LiveSource(Bundles, Order(job, 0, 0, 0))
    with pytest.raises(TaskError, match="both commit and abort of same transaction"):
        taken(job, live, "39")


def test_a_transaction_must_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries, "OPEN_RECORDS_MAX", 2)
    record = SourceRecord({}, {}, "t", value="v")
    with pytest.raises(ConnectException, match="more than 2 records"):
        list(Transactions().ended([record] * 3, [Polled(count=1)] * 3))


@pytest.mark.parametrize("full", [False, True], ids=["in one piece", "as they come"])
def test_transactions_by_time(
    full: bool, job_of: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    if full:  # no more can wait: the batch begins before it is due, and lasts until then
        monkeypatch.setattr(source_task, "WAITING_RECORDS_MAX", 4)
    job = job_of(transaction_boundary="interval", transaction_boundary_interval_ms="1500")
    assert boundaries.timeout_ms(job) == 61_500
    began = time.monotonic()
    found = taken(job, LiveSource(Bundles, Order(job, 0, 0, 0)), "39")
    assert time.monotonic() - began >= 1.5
    assert [each for some in found for each in some] == [str(each) for each in range(40)]


def test_the_interval_is_the_workers_unless_it_is_given(worker: Worker) -> None:
    def interval(config: dict[str, str], **properties: str) -> float | None:
        of = Worker({name.replace("_", "."): value for name, value in properties.items()})
        return boundaries.interval_s(Job("n", "r", True, "", config, of, [], exactly_once=True))

    timed = {"transaction.boundary": "INTERVAL"}
    assert interval(timed) == 60.0
    assert interval(timed, offset_flush_interval_ms="5000") == 5.0
    assert interval({**timed, "transaction.boundary.interval.ms": "100"}) == 0.1
    assert interval({"transaction.boundary.interval.ms": "100"}) is None
