"""Connectors on Spark, from beginning to end: what they write, where they go on, how they are."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.connect.run import offsets, runner
from ottla.connect.run.states import State, Status, Target
from ottla.connect.run.worker import Worker
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
    """So many committed records, or one more if there are more."""
    with broker.admin() as admin:
        wait_until(lambda: topic in admin.topics.names(), f"there is no topic {topic}")
    with broker.consumer(topic, group=f"reader-{time.monotonic_ns()}", value=str) as consumer:
        found = consumer.take(count, WAIT_S_MAX) + consumer.take(1, 0.5)
    return [str(each.value) for each in found]


def states(running: runner.Runner) -> tuple[State, list[State]]:
    status = running.status
    return status.state, [each.state for each in status.tasks]


def expected(tasks: int, numbers: int) -> Counter[str]:
    return Counter(f"{task}:{each}" for task in range(tasks) for each in range(numbers))


def test_a_source_goes_on_where_it_was_whatever_happens(
    spark: SparkSession, broker: LocalCluster, worker: Worker, tmp_path: Path
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
    seen: list[State] = []
    running = runner.start(
        "numbers",
        config,
        spark=lambda: spark,
        worker=worker,
        on_state=lambda status: seen.append(status.state),
    )
    try:
        assert Counter(read(broker, "numbers", 6000)) == expected(2, 3000)
        assert states(running) == (State.RUNNING, [State.RUNNING, State.RUNNING])
        wait_until(lambda: "numbers" in running.status.topics, "the topic is not known")
        with broker.admin() as admin:
            (described,) = admin.topics.describe("numbers").values()
            assert len(described.partitions) == 3  # type: ignore[union-attr]
        wait_until(lambda: "commit 0" in notes.read_text(), "no commit")

        running.pause()
        wait_until(lambda: states(running) == (State.PAUSED, [State.PAUSED] * 2), "not paused")
        assert notes.read_text().count("stop ") >= 2
    finally:
        running.stop()
    assert seen[0] is State.RUNNING
    assert seen[-1] is State.UNASSIGNED

    places = offsets.of("numbers", config, worker)
    assert sorted(map(str, places.read())) == [
        f"{{'partition': {{'id': '{each}'}}, 'offset': {{'next': 3000}}}}" for each in (0, 1)
    ]
    told = places.alter(
        [
            {"partition": {"id": "0"}, "offset": {"next": 2990}},
            {"partition": {"id": "1"}, "offset": None},
        ]
    )
    assert told == "The offsets for this connector have been altered successfully"
    assert places.read() == [{"partition": {"id": "0"}, "offset": {"next": 2990}}]

    running = runner.start("numbers", config, spark=lambda: spark, worker=worker)
    try:
        again = Counter(f"0:{each}" for each in range(2990, 3000))
        again += Counter(f"1:{each}" for each in range(3000))
        assert Counter(read(broker, "numbers", 9010)) == expected(2, 3000) + again
    finally:
        running.stop()
    places.reset()
    assert places.read() == []


def test_a_task_that_dies_or_fails_writes_nothing_twice(
    spark: SparkSession, broker: LocalCluster, worker: Worker, tmp_path: Path
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
    running = runner.start("hurt", config, spark=lambda: spark, worker=worker)
    try:
        wait_until(lambda: len(running.status.topics) == 1, "nothing is written")
        kill_task(notes, "0")
        good = [f"0:{each}" for each in range(2000)] + [f"1:{each}" for each in range(1000)]
        assert Counter(read(broker, "hurt", 3000)) == Counter(good)
        wait_until(
            lambda: states(running) == (State.RUNNING, [State.RUNNING, State.FAILED]),
            "the task has not failed",
        )
        trace = running.status.tasks[1].trace or ""
        assert "ConnectException: task 1 does not like 1000" in trace
        wait_until(lambda: notes.read_text().count("start 0 ") >= 2, "it was not killed")
    finally:
        running.stop()

    whole = {key: value for key, value in config.items() if key != "fail.at.1"}
    running = runner.start("hurt", whole, spark=lambda: spark, worker=worker)
    try:
        assert Counter(read(broker, "hurt", 4000)) == expected(2, 2000)
    finally:
        running.stop()


def test_a_sink_commits_what_it_has_written(
    spark: SparkSession, broker: LocalCluster, worker: Worker, tmp_path: Path
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
    running = runner.start("lines", config, spark=lambda: spark, worker=worker)
    try:
        good = {str(each) for each in range(500) if each != 13}
        wait_until(lambda: written(tmp_path) == good, "not all is written")
        assert set(read(broker, "dead", 1)) == {"13"}
        wait_until(lambda: committed(broker, "connect-lines", "lines") == 500, "not committed")
        broker.create_topic("later", partitions=1)
        fill(broker, "later", range(500, 600))
        good |= {str(each) for each in range(500, 600)}
        wait_until(lambda: written(tmp_path) == good, "the new topic is not read")
        wait_until(lambda: running.status.topics == {"lines", "later"}, "topics")
    finally:
        running.stop()

    places = offsets.of("lines", config, worker)
    assert sum(each["offset"]["kafka_offset"] for each in places.read()) == 600
    places.alter([{"partition": {"kafka_topic": "later", "kafka_partition": 0}, "offset": None}])
    poisoned = {**config, "poison": "599", "hold": "50"}
    seen: list[Status] = []
    running = runner.start(
        "lines", poisoned, spark=lambda: spark, worker=worker, on_state=seen.append
    )
    try:
        wait_until(
            lambda: states(running)[1].count(State.FAILED) == 2, "poison fails whoever takes it"
        )
        assert "599 is poison" in (running.status.tasks[0].trace or "")
        before = len(seen)
        running.restart(include_tasks=True, only_failed=True)
        wait_until(
            lambda: any(each.tasks[0].state is State.RUNNING for each in seen[before:]),
            "not restarted",
        )
        wait_until(lambda: states(running)[1].count(State.FAILED) == 2, "and again")
    finally:
        running.stop()


def test_connectors_that_do_not_run(spark: SparkSession, worker: Worker) -> None:
    refusing = {"connector.class": NUMBERS, "topic": "t", "numbers": "1", "refuse": "1"}
    running = runner.start("refusing", refusing, spark=lambda: spark, worker=worker)
    stopped = runner.start(
        "stopped", refusing, spark=lambda: spark, worker=worker, target=Target.STOPPED
    )
    try:
        wait_until(lambda: running.status.state is State.FAILED, "it started")
        assert "this connector does not start" in (running.status.trace or "")
        wait_until(lambda: stopped.status.state is State.STOPPED, "not stopped")
        assert stopped.status.tasks == ()
    finally:
        running.stop()
        stopped.stop()


def test_without_exactly_once_offsets_follow_the_records(
    spark: SparkSession, broker: LocalCluster, worker: Worker, tmp_path: Path
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
            running = runner.start(name, config, spark=lambda: spark, worker=plain)
            try:
                wait_for_offset(offsets.of(name, config, plain), numbers)
            finally:
                running.stop()
            assert set(read(broker, name, numbers)) == set(expected(1, numbers))


def wait_for_offset(places: offsets.ConnectorOffsets, numbers: int) -> None:
    reached = [{"partition": {"id": "0"}, "offset": {"next": numbers}}]
    wait_until(lambda: places.read() == reached, "offsets are not stored")


def fill(broker: LocalCluster, topic: str, numbers: range) -> None:
    with broker.producer(value=str) as producer:
        for each in numbers:
            producer.send(topic, str(each), key=str(each).encode())


def kill_task(notes: Path, number: str) -> None:
    """The process of the task that was started last."""
    words = [each.split() for each in notes.read_text().splitlines()]
    processes = [each[2] for each in words if each[:2] == ["process", number]]
    os.kill(int(processes[-1]), signal.SIGKILL)


def written(directory: Path) -> set[str]:
    return {line for each in directory.glob("*-*") for line in each.read_text().splitlines()}


def committed(broker: LocalCluster, group: str, topic: str) -> int:
    with broker.admin() as admin:
        found = admin.groups.offsets(group)
    return sum(at.offset for each, at in found.items() if each.topic == topic)
