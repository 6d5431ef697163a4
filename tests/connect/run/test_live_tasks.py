"""Tasks in their processes, without Spark: what they go on with, and what they begin anew."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from connect_for_tests import NumbersTask
from planned_orders import Planner, planned

from ottla.client.protocol.fetching import Range
from ottla.client.record import TopicPartition
from ottla.connect.run import hosts, query, source_offsets
from ottla.connect.run.orders import Ask, Failure, Job, Order, Report, Rows
from ottla.connect.run.planner import SourceReader
from ottla.connect.run.rows import cell, unpacked
from ottla.connect.run.source_task import Poller
from ottla.connect.run.worker import Worker
from ottla.engine.hosts import called
from ottla.spark.sink.decisions import DeliveryError, Identity
from ottla.spark.sink.options import write_options
from ottla.spark.sink.writing import Turn, decisions_of, write_once
from ottla.testing import LocalCluster

HERE = "connect_for_tests"


@pytest.fixture
def job(broker: LocalCluster, worker: Worker, tmp_path: Path) -> Iterator[Job]:
    """A source with one task."""
    name = f"n-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions=1)
    config = {
        "topic": name,
        "id": "0",
        "numbers": "95",
        "pause.ms": "100",
        "notes": str(tmp_path / "notes"),
    }
    made = Job(
        name,
        uuid.uuid4().hex,
        True,
        f"{HERE}:NumbersTask",
        config,
        worker,
        [(0, config)],
        exactly_once=True,
    )
    query.make_offsets_topic(config, worker)
    yield made
    hosts.stop(made.run, [0])


def serve(order: Order) -> tuple[list[Rows], Report]:
    """The rows of a batch, in cells."""
    *rows, report = hosts.serve(order)
    assert isinstance(report, Report), report
    return [each for each in rows if isinstance(each, Rows)], report


def write(job: Job, order: Order, rows: list[Rows], *, decide: bool = True) -> None:
    """As the sink does in Spark's task, and then at the driver."""
    options = write_options(query.sink_options(job))
    number = job.first_batch + order.batch
    turn = Turn(Identity(job.query), number, job.run, order.place, order.attempt, owned=True)
    told = write_once(options, turn, map(cell, rows))
    if decide:
        decisions = decisions_of(options, Identity(job.query))
        decisions.decide(batch=number, run=job.run, written=[told.written])


def taken_over(job: Job) -> Job:
    return replace(job, first_batch=query.decided(job) + 1)


def values(broker: LocalCluster, topic: str, count: int) -> list[str | None]:
    with broker.consumer(topic, group=uuid.uuid4().hex, value=str) as consumer:
        return [each.value for each in consumer.take(count, 60.0) + consumer.take(1, 0.5)]


def starts(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "notes").read_text().splitlines()
    return [each for each in lines if each.startswith("start")]


def kill_host(job: Job) -> None:
    line = called(hosts.name_of(job.run, 0))
    assert line is not None
    with line:
        process = line.peer
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def wait_for_news(job: Job, batch: int) -> None:
    assert hosts.has_news(job.run, 0, Ask(batch, 60.0))


def test_a_source_task_goes_on_only_with_what_was_decided(
    broker: LocalCluster, job: Job, tmp_path: Path
) -> None:
    job = taken_over(job)
    written = 0
    for batch in range(100):
        (order,) = planned(job, batch)
        rows, report = serve(order)
        if batch == 2:  # Spark tries it again: the first try is never decided
            write(job, order, rows, decide=False)
            order = replace(order, attempt=1)
            rows, report = serve(order)
        write(job, order, rows)
        written += report.records
        if written == 95:
            break
        wait_for_news(job, batch + 1)  # so that each has something to lose
    assert values(broker, job.config["topic"], 95) == [f"0:{each}" for each in range(95)]
    first, again = starts(tmp_path)
    assert first == "start 0 0"
    assert 0 < int(again.split()[-1]) < 95
    assert not hosts.has_news(job.run, 0, Ask(order.batch + 1))


def test_a_poll_that_brought_nothing_ends_the_wait_for_more(job: Job) -> None:
    config = {**job.config, "numbers": "10", "pause.ms": "0"}
    order = Order(replace(job, config=config, tasks=[(0, config)]), 0, 0, 0)
    poller = Poller(NumbersTask(), order)
    try:
        assert poller.wait(240.0, unless_idle=True)
        polled = poller.take()
        assert polled is not None
        assert len(polled.rows) == 10
        assert polled.offsets == {'{"id":"0"}': {"next": 10}}
        began = time.monotonic()
        assert not poller.wait(240.0, unless_idle=True)
        assert time.monotonic() - began < 200.0
        assert poller.take() is None
    finally:
        poller.stop()


def test_a_host_that_was_prepared_serves_the_first_batch(job: Job, tmp_path: Path) -> None:
    job = taken_over(job)
    hosts.prepare(job, os.getpid()).join()
    line = called(hosts.name_of(job.run, 0))
    assert line is not None
    with line:
        prepared = line.peer
    serve(Order(job, 0, 0, 0))
    assert f"process 0 {prepared}" in (tmp_path / "notes").read_text().splitlines()


def test_a_task_whose_process_died_begins_with_what_is_committed(
    broker: LocalCluster, job: Job, tmp_path: Path
) -> None:
    job = taken_over(job)
    order = Order(job, 0, 0, 0)
    rows, _ = serve(order)
    wait_for_news(job, 1)
    write(job, order, rows)
    kill_host(job)
    for batch in range(1, 100):
        (order,) = planned(job, batch)
        rows, _ = serve(order)
        write(job, order, rows)
        if any(b"0:94" in unpacked(each).column("value").to_pylist() for each in rows):
            break
        wait_for_news(job, batch + 1)
    assert values(broker, job.config["topic"], 95) == [f"0:{each}" for each in range(95)]
    assert len(starts(tmp_path)) == 2


def test_a_task_that_starts_late_does_not_wait_for_others_of_its_batch(job: Job) -> None:
    """They are in a transaction that ends with the batch, and so with this task."""
    other = {**job.config, "id": "1"}
    job = taken_over(replace(job, tasks=[*job.tasks, (1, other)]))
    planner = Planner(SourceReader(job))
    orders = planner.orders(0)
    try:
        rows, report = serve(orders[0])
        assert report.records
        write(job, orders[0], rows, decide=False)
        assert planner.orders(0)[0].ranges != orders[0].ranges
        began = time.monotonic()
        _, report = serve(orders[1])
        assert report.records
        assert time.monotonic() - began < source_offsets.PATIENCE_MS / 1000
    finally:
        planner.close()
        hosts.stop(job.run, [1])
        taken_over(replace(job, run=uuid.uuid4().hex))  # ends the open transaction


def test_a_run_that_was_replaced_writes_nothing(job: Job) -> None:
    old = taken_over(job)
    for batch in range(100):
        (order,) = planned(old, batch)
        rows, report = serve(order)
        if report.records:
            break
        wait_for_news(old, batch + 1)
    new = taken_over(replace(job, run=uuid.uuid4().hex))
    assert new.first_batch == old.first_batch
    with pytest.raises(DeliveryError, match="has taken over"):
        write(old, order, rows)
    (failure,) = hosts.serve(replace(order, batch=order.batch + 1))
    assert isinstance(failure, Failure)
    assert failure.task is None
    assert "has taken over" in failure.trace


def test_a_connectors_error_is_its_tasks(job: Job) -> None:
    config = {**job.config, "fail.at.0": "0"}
    failing = replace(taken_over(job), config=config, tasks=[(0, config)])
    answers: list[object] = []
    for batch in range(100):
        answers = list(hosts.serve(Order(failing, 0, batch, 0)))
        if isinstance(answers[-1], Failure):
            break
        wait_for_news(failing, batch + 1)
    failure = answers[-1]
    assert isinstance(failure, Failure)
    assert failure.task == 0
    assert "does not like 0" in failure.trace
    hosts.stop(job.run, [0])
    unknown = {**job.config, "value.converter": "no.such.Converter"}
    (answer,) = hosts.serve(Order(replace(failing, config=unknown), 0, 0, 0))
    assert isinstance(answer, Failure)
    assert answer.task == 0
    assert "no.such.Converter" in answer.trace
    assert "connect_for_tests.py" in failure.trace


def test_a_sink_task_is_given_again_what_another_had_not_finished(
    broker: LocalCluster, worker: Worker, tmp_path: Path
) -> None:
    topic = f"s-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=2)
    with broker.producer(value=str) as producer:
        for each in range(20):
            producer.send(topic, str(each), partition=each % 2)
    out = tmp_path / "out"
    out.mkdir()
    config = {"topics": topic, "directory": str(out), "hold": "15", "notes": str(tmp_path / "n")}
    job = Job(
        topic,
        uuid.uuid4().hex,
        False,
        f"{HERE}:LinesTask",
        config,
        worker,
        [(0, config)],
    )
    here, there = TopicPartition(topic, 0), TopicPartition(topic, 1)
    try:
        ranges = [Range(topic, 0, 0, 6), Range(topic, 1, 0, 6)]
        _, report = serve(Order(job, 0, 0, 0, ranges))
        assert report.consumed == {here: 0, there: 0}  # twelve are held back
        kill_host(job)
        with broker.admin() as admin:
            admin.groups.alter_offsets(job.group, report.consumed)
        ranges = [Range(topic, 0, 6, 10), Range(topic, 1, 6, 10)]
        _, report = serve(Order(job, 0, 1, 0, ranges))
        assert report.consumed == {here: 10, there: 10}
        (file,) = out.iterdir()
        assert sorted(map(int, file.read_text().split())) == list(range(20))
        _, report = serve(Order(job, 0, 2, 0, [Range(topic, 0, 10, 10)]))
        assert report.consumed == {here: 10}
        assert (tmp_path / "n").read_text().split("\n")[:3] == ["open 2", "open 2", "close 1"]
    finally:
        (last,) = hosts.stop(job.run, [0])
    assert last.consumed == {here: 10}
