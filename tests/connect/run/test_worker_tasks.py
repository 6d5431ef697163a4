"""Tasks in their processes, without Spark: when they continue, and when they restart."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from connect_for_tests import NumbersTask
from planned_requests import Planner, planned

from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.client.record import TopicPartition
from ottla.connect.run import connector_query, remote_tasks, source_offsets
from ottla.connect.run.datasource import SourceStreamReader
from ottla.connect.run.row_packer import cell_batch, unpack_rows
from ottla.connect.run.task_requests import (
    ConnectorJob,
    PackedRows,
    TaskBatchRequest,
    TaskFailure,
    TaskReport,
    TaskWorkRequest,
)
from ottla.connect.run.worker_context import WorkerContext
from ottla.connect.run.worker_source_task import SourceTaskPoller
from ottla.engine.host_process import connect_if_running
from ottla.spark.sink.commit_log import DeliveryError, SinkIdentity
from ottla.spark.sink.options import write_options
from ottla.spark.sink.task_attempt import TaskAttempt, commit_log_of, write_exactly_once
from ottla.testing import LocalCluster

HERE = "connect_for_tests"


@pytest.fixture
def job(broker: LocalCluster, worker: WorkerContext, tmp_path: Path) -> Iterator[ConnectorJob]:
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
    made = ConnectorJob(
        name,
        uuid.uuid4().hex,
        True,
        f"{HERE}:NumbersTask",
        config,
        worker,
        [(0, config)],
        exactly_once=True,
    )
    connector_query.make_offsets_topic(config, worker)
    yield made
    remote_tasks.stop_tasks(made.run, [0])


def serve(order: TaskBatchRequest) -> tuple[list[PackedRows], TaskReport]:
    """The rows of a batch, packed into cells."""
    *rows, report = remote_tasks.run_batch(order)
    assert isinstance(report, TaskReport), report
    return [row for row in rows if isinstance(row, PackedRows)], report


def write(
    job: ConnectorJob, order: TaskBatchRequest, rows: list[PackedRows], *, decide: bool = True
) -> None:
    """As the sink does in Spark's task, and then at the driver."""
    options = write_options(connector_query.write_options(job))
    number = job.first_batch + order.batch
    turn = TaskAttempt(
        SinkIdentity(job.query), number, job.run, order.spark_partition, order.attempt, owned=True
    )
    result = write_exactly_once(options, turn, map(cell_batch, rows))
    if decide:
        decisions = commit_log_of(options, SinkIdentity(job.query))
        decisions.commit(batch=number, run=job.run, transactions=[result.transaction])


def taken_over(job: ConnectorJob) -> ConnectorJob:
    return replace(job, first_batch=connector_query.take_over(job) + 1)


def values(broker: LocalCluster, topic: str, count: int) -> list[str | None]:
    with broker.consumer(topic, group=uuid.uuid4().hex, value=str) as consumer:
        return [record.value for record in consumer.take(count, 60.0) + consumer.take(1, 0.5)]


def starts(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "notes").read_text().splitlines()
    return [line for line in lines if line.startswith("start")]


def kill_host(job: ConnectorJob) -> None:
    line = connect_if_running(remote_tasks.remote_task_name(job.run, 0))
    assert line is not None
    with line:
        process = line.peer
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def wait_for_news(job: ConnectorJob, batch: int) -> None:
    assert remote_tasks.has_work(job.run, 0, TaskWorkRequest(batch, 60.0))


def test_a_source_task_continues_only_if_its_batch_was_committed(
    broker: LocalCluster, job: ConnectorJob, tmp_path: Path
) -> None:
    job = taken_over(job)
    written = 0
    for batch in range(100):
        (order,) = planned(job, batch)
        rows, report = serve(order)
        if batch == 2:  # Spark retries it: the first attempt is never decided
            write(job, order, rows, decide=False)
            order = replace(order, attempt=1)
            rows, report = serve(order)
        write(job, order, rows)
        written += report.records
        if written == 95:
            break
        wait_for_news(job, batch + 1)  # so that each has uncommitted records
    assert values(broker, job.config["topic"], 95) == [f"0:{number}" for number in range(95)]
    first, again = starts(tmp_path)
    assert first == "start 0 0"
    assert 0 < int(again.split()[-1]) < 95
    assert not remote_tasks.has_work(job.run, 0, TaskWorkRequest(order.batch + 1))


def test_an_empty_poll_ends_the_wait_for_more(job: ConnectorJob) -> None:
    config = {**job.config, "numbers": "10", "pause.ms": "0"}
    order = TaskBatchRequest(replace(job, config=config, tasks=[(0, config)]), 0, 0, 0)
    poller = SourceTaskPoller(NumbersTask(), order)
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


def test_a_prepared_process_serves_the_first_batch(job: ConnectorJob, tmp_path: Path) -> None:
    job = taken_over(job)
    remote_tasks.prepare_processes(job, os.getpid()).join()
    line = connect_if_running(remote_tasks.remote_task_name(job.run, 0))
    assert line is not None
    with line:
        prepared = line.peer
    serve(TaskBatchRequest(job, 0, 0, 0))
    assert f"process 0 {prepared}" in (tmp_path / "notes").read_text().splitlines()


def test_a_task_whose_process_died_restarts_from_committed_offsets(
    broker: LocalCluster, job: ConnectorJob, tmp_path: Path
) -> None:
    job = taken_over(job)
    order = TaskBatchRequest(job, 0, 0, 0)
    rows, _ = serve(order)
    wait_for_news(job, 1)
    write(job, order, rows)
    kill_host(job)
    for batch in range(1, 100):
        (order,) = planned(job, batch)
        rows, _ = serve(order)
        write(job, order, rows)
        if any(b"0:94" in unpack_rows(row).column("value").to_pylist() for row in rows):
            break
        wait_for_news(job, batch + 1)
    assert values(broker, job.config["topic"], 95) == [f"0:{number}" for number in range(95)]
    assert len(starts(tmp_path)) == 2


def test_a_task_that_starts_late_does_not_wait_for_others_of_its_batch(job: ConnectorJob) -> None:
    """They are in a transaction that ends with the batch, and so with this task."""
    other = {**job.config, "id": "1"}
    job = taken_over(replace(job, tasks=[*job.tasks, (1, other)]))
    planner = Planner(SourceStreamReader(job))
    orders = planner.orders(0)
    try:
        rows, report = serve(orders[0])
        assert report.records
        write(job, orders[0], rows, decide=False)
        assert planner.orders(0)[0].ranges != orders[0].ranges
        began = time.monotonic()
        _, report = serve(orders[1])
        assert report.records
        assert time.monotonic() - began < source_offsets.READ_TIMEOUT_MS / 1000
    finally:
        planner.close()
        remote_tasks.stop_tasks(job.run, [1])
        taken_over(replace(job, run=uuid.uuid4().hex))  # ends the open transaction


def test_a_fenced_run_writes_nothing(job: ConnectorJob) -> None:
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
    (failure,) = remote_tasks.run_batch(replace(order, batch=order.batch + 1))
    assert isinstance(failure, TaskFailure)
    assert failure.task is None
    assert "has taken over" in failure.trace


def test_an_error_of_the_connector_fails_the_task(job: ConnectorJob) -> None:
    config = {**job.config, "fail.at.0": "0"}
    failing = replace(taken_over(job), config=config, tasks=[(0, config)])
    answers: list[object] = []
    for batch in range(100):
        answers = list(remote_tasks.run_batch(TaskBatchRequest(failing, 0, batch, 0)))
        if isinstance(answers[-1], TaskFailure):
            break
        wait_for_news(failing, batch + 1)
    failure = answers[-1]
    assert isinstance(failure, TaskFailure)
    assert failure.task == 0
    assert "does not like 0" in failure.trace
    remote_tasks.stop_tasks(job.run, [0])
    unknown = {**job.config, "value.converter": "no.such.Converter"}
    (answer,) = remote_tasks.run_batch(TaskBatchRequest(replace(failing, config=unknown), 0, 0, 0))
    assert isinstance(answer, TaskFailure)
    assert answer.task == 0
    assert "no.such.Converter" in answer.trace
    assert "connect_for_tests.py" in failure.trace


def test_uncommitted_records_are_delivered_to_the_next_sink_task(
    broker: LocalCluster, worker: WorkerContext, tmp_path: Path
) -> None:
    topic = f"s-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=2)
    with broker.producer(value=str) as producer:
        for number in range(20):
            producer.send(topic, str(number), partition=number % 2)
    out = tmp_path / "out"
    out.mkdir()
    config = {"topics": topic, "directory": str(out), "hold": "15", "notes": str(tmp_path / "n")}
    job = ConnectorJob(
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
        ranges = [OffsetRange(topic, 0, 0, 6), OffsetRange(topic, 1, 0, 6)]
        _, report = serve(TaskBatchRequest(job, 0, 0, 0, ranges))
        assert report.consumed == {here: 0, there: 0}  # twelve are held back
        kill_host(job)
        with broker.admin() as admin:
            admin.groups.alter_offsets(job.group, report.consumed)
        ranges = [OffsetRange(topic, 0, 6, 10), OffsetRange(topic, 1, 6, 10)]
        _, report = serve(TaskBatchRequest(job, 0, 1, 0, ranges))
        assert report.consumed == {here: 10, there: 10}
        (file,) = out.iterdir()
        assert sorted(map(int, file.read_text().split())) == list(range(20))
        _, report = serve(TaskBatchRequest(job, 0, 2, 0, [OffsetRange(topic, 0, 10, 10)]))
        assert report.consumed == {here: 10}
        assert (tmp_path / "n").read_text().split("\n")[:3] == ["open 2", "open 2", "close 1"]
    finally:
        (last,) = remote_tasks.stop_tasks(job.run, [0])
    assert last.consumed == {here: 10}


@pytest.fixture
def errant(broker: LocalCluster, worker: WorkerContext, tmp_path: Path) -> Iterator[ConnectorJob]:
    """A sink with one task and more records than one `put` takes, of which one is errant."""
    topic = f"e-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    with broker.producer(value=str) as producer:
        for number in range(1_000):
            producer.send(topic, str(number), partition=0)
    config = {
        "topics": topic,
        "directory": str(tmp_path),
        "errant": "3",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
    }
    kind = f"{HERE}:LinesTask"
    made = ConnectorJob(topic, uuid.uuid4().hex, False, kind, config, worker, [(0, config)])
    yield made
    remote_tasks.stop_tasks(made.run, [0])


def request_of(job: ConnectorJob, batch: int, start: int, end: int) -> TaskBatchRequest:
    return TaskBatchRequest(job, 0, batch, 0, [OffsetRange(job.name, 0, start, end)])


def committed_at_the_end(job: ConnectorJob) -> list[int]:
    """The offset that a stop of the task reports; empty if it reports none."""
    return [at for last in remote_tasks.stop_tasks(job.run, [0]) for at in last.consumed.values()]


def test_a_cancelled_batch_with_dead_letters_commits_nothing(errant: ConnectorJob) -> None:
    answers = remote_tasks.run_batch(request_of(errant, 0, 0, 1_000))
    assert isinstance(answers, Generator)
    dead = next(answers)
    assert isinstance(dead, PackedRows)
    assert unpack_rows(dead).column("value").to_pylist() == [b"3"]
    answers.close()  # as when Spark cancels the batch: nobody writes this row
    assert committed_at_the_end(errant) == []


def test_a_failed_batch_with_dead_letters_commits_nothing(errant: ConnectorJob) -> None:
    config = {**errant.config, "poison": "700"}
    failing = replace(errant, config=config, tasks=[(0, config)])
    dead, failure = remote_tasks.run_batch(request_of(failing, 0, 0, 1_000))
    assert isinstance(dead, PackedRows)
    assert isinstance(failure, TaskFailure)
    assert committed_at_the_end(failing) == []


@pytest.mark.parametrize("by", ["question", "batch"])
def test_dead_letters_of_a_committed_batch_hold_nothing_back(errant: ConnectorJob, by: str) -> None:
    rows, report = serve(request_of(errant, 0, 0, 500))
    assert len(rows) == 1
    assert list(report.consumed.values()) == [500]
    if by == "question":  # that comes before the next batch
        remote_tasks.has_work(errant.run, 0, TaskWorkRequest(1))
        assert committed_at_the_end(errant) == [500]
        return
    rows, _ = serve(request_of(errant, 1, 500, 1_000))
    assert rows == []
    assert committed_at_the_end(errant) == [1_000]


def test_a_batch_that_may_not_be_committed_yet_holds_its_offsets_back(errant: ConnectorJob) -> None:
    serve(request_of(errant, 0, 0, 500))
    assert committed_at_the_end(errant) == []
