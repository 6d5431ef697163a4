"""Connectors on Spark, end to end: what they write, where they resume, their status."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.connect.run import connector_offsets, connector_runner
from ottla.connect.run.connector_status import ConnectorState, ConnectorStatus, TargetState
from ottla.connect.run.worker_context import WorkerContext
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WAIT_S_MAX = 240.0
NUMBERS = "connect_for_tests:Numbers"
LINES = "connect_for_tests:Lines"


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def read(broker: LocalCluster, topic: str, count: int) -> list[str]:
    """This many committed records, or one more if there are more."""
    with broker.admin() as admin:
        wait_until(lambda: topic in admin.topics.names(), f"there is no topic {topic}")
    with broker.consumer(topic, group=f"reader-{time.monotonic_ns()}", value=str) as consumer:
        found = consumer.take(count, WAIT_S_MAX) + consumer.take(1, 0.5)
    return [str(item.value) for item in found]


def states(
    running: connector_runner.ConnectorRunner,
) -> tuple[ConnectorState, list[ConnectorState]]:
    status = running.status
    return status.state, [task.state for task in status.tasks]


def expected(tasks: int, numbers: int) -> Counter[str]:
    return Counter(f"{task}:{number}" for task in range(tasks) for number in range(numbers))


def test_a_source_resumes_where_it_was_whatever_happens(
    spark: SparkSession, broker: LocalCluster, worker: WorkerContext, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    config = {
        "connector.class": NUMBERS,
        "tasks.max": "2",
        "topic": "numbers",
        "numbers": "3000",
        "at.once": "100",
        "notes": str(notes),
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "3",
    }
    seen: list[ConnectorState] = []
    running = connector_runner.start_connector(
        "numbers",
        config,
        spark=lambda: spark,
        worker=worker,
        on_state=lambda status: seen.append(status.state),
    )
    try:
        assert Counter(read(broker, "numbers", 6000)) == expected(2, 3000)
        assert states(running) == (
            ConnectorState.RUNNING,
            [ConnectorState.RUNNING, ConnectorState.RUNNING],
        )
        wait_until(lambda: "numbers" in running.status.topics, "the topic is not known")
        with broker.admin() as admin:
            (described,) = admin.topics.describe("numbers").values()
            assert len(described.partitions) == 3  # type: ignore[union-attr]
        wait_until(lambda: "commit 0" in notes.read_text(), "no commit")

        running.pause()
        wait_until(
            lambda: states(running) == (ConnectorState.PAUSED, [ConnectorState.PAUSED] * 2),
            "not paused",
        )
        assert notes.read_text().count("stop ") >= 2
    finally:
        running.stop()
    assert seen[0] is ConnectorState.RUNNING
    assert seen[-1] is ConnectorState.UNASSIGNED

    places = connector_offsets.connector_offsets("numbers", config, worker)
    assert sorted(map(str, places.read())) == [
        f"{{'partition': {{'id': '{number}'}}, 'offset': {{'next': 3000}}}}" for number in (0, 1)
    ]
    message = places.alter(
        [
            {"partition": {"id": "0"}, "offset": {"next": 2990}},
            {"partition": {"id": "1"}, "offset": None},
        ]
    )
    assert message == "The offsets for this connector have been altered successfully"
    assert places.read() == [{"partition": {"id": "0"}, "offset": {"next": 2990}}]

    running = connector_runner.start_connector(
        "numbers", config, spark=lambda: spark, worker=worker
    )
    try:
        again = Counter(f"0:{number}" for number in range(2990, 3000))
        again += Counter(f"1:{number}" for number in range(3000))
        assert Counter(read(broker, "numbers", 9010)) == expected(2, 3000) + again
    finally:
        running.stop()
    places.reset()
    assert places.read() == []


def test_a_task_that_dies_or_fails_writes_nothing_twice(
    spark: SparkSession, broker: LocalCluster, worker: WorkerContext, tmp_path: Path
) -> None:
    broker.create_topic("hurt", partitions=1)
    notes = tmp_path / "notes"
    config = {
        "connector.class": NUMBERS,
        "tasks.max": "2",
        "topic": "hurt",
        "numbers": "2000",
        "at.once": "10",
        "pause.ms": "5",
        "fail.at.1": "1000",
        "notes": str(notes),
    }
    running = connector_runner.start_connector("hurt", config, spark=lambda: spark, worker=worker)
    try:
        wait_until(lambda: len(running.status.topics) == 1, "nothing is written")
        killed = kill_task(notes, "0")
        good = [f"0:{number}" for number in range(2000)] + [f"1:{number}" for number in range(1000)]
        assert Counter(read(broker, "hurt", 3000)) == Counter(good)
        wait_until(
            lambda: (
                states(running)
                == (ConnectorState.RUNNING, [ConnectorState.RUNNING, ConnectorState.FAILED])
            ),
            "the task has not failed",
        )
        trace = running.status.tasks[1].trace or ""
        assert "ConnectException: task 1 does not like 1000" in trace
        wait_until(lambda: processes(notes, "0")[-1] != killed, "no process took over")
    finally:
        running.stop()

    whole = {key: value for key, value in config.items() if key != "fail.at.1"}
    running = connector_runner.start_connector("hurt", whole, spark=lambda: spark, worker=worker)
    try:
        assert Counter(read(broker, "hurt", 4000)) == expected(2, 2000)
    finally:
        running.stop()


def test_a_sink_commits_what_it_has_written(
    spark: SparkSession, broker: LocalCluster, worker: WorkerContext, tmp_path: Path
) -> None:
    broker.create_topic("lines", partitions=3)
    broker.create_topic("dead", partitions=1)
    config = {
        "connector.class": LINES,
        "tasks.max": "2",
        "topics": "lines,later",
        "directory": str(tmp_path),
        "retry": "1",
        "errant": "13",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    fill(broker, "lines", range(500))
    running = connector_runner.start_connector("lines", config, spark=lambda: spark, worker=worker)
    try:
        good = {str(number) for number in range(500) if number != 13}
        wait_until(lambda: written(tmp_path) == good, "not all is written")
        assert set(read(broker, "dead", 1)) == {"13"}
        wait_until(lambda: committed(broker, "connect-lines", "lines") == 500, "not committed")
        broker.create_topic("later", partitions=1)
        fill(broker, "later", range(500, 600))
        good |= {str(number) for number in range(500, 600)}
        wait_until(lambda: written(tmp_path) == good, "the new topic is not read")
        wait_until(lambda: running.status.topics == {"lines", "later"}, "topics")
    finally:
        running.stop()

    places = connector_offsets.connector_offsets("lines", config, worker)
    assert sum(entry["offset"]["kafka_offset"] for entry in places.read()) == 600
    places.alter([{"partition": {"kafka_topic": "later", "kafka_partition": 0}, "offset": None}])
    poisoned = {**config, "poison": "599", "hold": "50"}
    seen: list[ConnectorStatus] = []
    running = connector_runner.start_connector(
        "lines", poisoned, spark=lambda: spark, worker=worker, on_state=seen.append
    )
    try:
        wait_until(
            lambda: states(running)[1].count(ConnectorState.FAILED) == 2,
            "poison fails whoever takes it",
        )
        assert "599 is poison" in (running.status.tasks[0].trace or "")
        before = len(seen)
        running.restart(include_tasks=True, only_failed=True)
        wait_until(
            lambda: any(
                request.tasks[0].state is ConnectorState.RUNNING for request in seen[before:]
            ),
            "not restarted",
        )
        wait_until(lambda: states(running)[1].count(ConnectorState.FAILED) == 2, "and again")
    finally:
        running.stop()


def test_a_failed_start_is_reported_and_a_stopped_connector_does_not_start(
    spark: SparkSession, worker: WorkerContext
) -> None:
    refusing = {"connector.class": NUMBERS, "topic": "t", "numbers": "1", "refuse": "1"}
    running = connector_runner.start_connector(
        "refusing", refusing, spark=lambda: spark, worker=worker
    )
    stopped = connector_runner.start_connector(
        "stopped", refusing, spark=lambda: spark, worker=worker, target=TargetState.STOPPED
    )
    try:
        wait_until(lambda: running.status.state is ConnectorState.FAILED, "it started")
        assert "this connector does not start" in (running.status.trace or "")
        wait_until(lambda: stopped.status.state is ConnectorState.STOPPED, "not stopped")
        assert stopped.status.tasks == ()
    finally:
        running.stop()
        stopped.stop()


def test_without_exactly_once_offsets_follow_the_records(
    spark: SparkSession, broker: LocalCluster, worker: WorkerContext, tmp_path: Path
) -> None:
    """In the file of a standalone worker, or in the offsets topic."""
    places = {
        "file": {"offset.storage.file.filename": str(tmp_path / "offsets")},
        "topic": {"exactly.once.source.support": "disabled"},
    }
    for name, place in places.items():
        broker.create_topic(name, partitions=1)
        plain = replace(worker, properties={**worker.properties, **place})
        for numbers in (100, 250):
            config = {"connector.class": NUMBERS, "topic": name, "numbers": str(numbers)}
            running = connector_runner.start_connector(
                name, config, spark=lambda: spark, worker=plain
            )
            try:
                wait_for_offset(connector_offsets.connector_offsets(name, config, plain), numbers)
            finally:
                running.stop()
            assert set(read(broker, name, numbers)) == set(expected(1, numbers))


def wait_for_offset(places: connector_offsets.ConnectorOffsets, numbers: int) -> None:
    reached = [{"partition": {"id": "0"}, "offset": {"next": numbers}}]
    wait_until(lambda: places.read() == reached, "offsets are not stored")


def fill(broker: LocalCluster, topic: str, numbers: range) -> None:
    with broker.producer(value=str) as producer:
        for number in numbers:
            producer.send(topic, str(number), key=str(number).encode())


def processes(notes: Path, number: str) -> list[int]:
    """Those that the task has had, in order."""
    words = [line.split() for line in notes.read_text().splitlines()]
    return [int(word[2]) for word in words if word[:2] == ["process", number]]


def kill_task(notes: Path, number: str) -> int:
    """Kill the task's process. When another task fails, the runner stops all processes and starts
    them again: the last one that is noted may have ended, so this waits for one that lives."""
    killed: list[int] = []

    def kill() -> bool:
        for process in processes(notes, number)[-1:]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                killed.append(process)
        return bool(killed)

    wait_until(kill, "the task has no process")
    return killed[-1]


def written(directory: Path) -> set[str]:
    return {line for path in directory.glob("*-*") for line in path.read_text().splitlines()}


def committed(broker: LocalCluster, group: str, topic: str) -> int:
    with broker.admin() as admin:
        found = admin.groups.offsets(group)
    return sum(at.offset for item, at in found.items() if item.topic == topic)
