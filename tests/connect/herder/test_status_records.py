"""The status topic: Kafka's records, folded into where things stand."""

from __future__ import annotations

from ottla.connect.herder.statuses import (
    Statuses,
    TaskId,
    Written,
    fold,
    forgotten,
    status_pair,
    topic_forgotten,
    topic_pair,
)
from ottla.connect.run.states import State

RUNNING = Written(State.RUNNING, "here:8083", 3)


def test_records_have_the_keys_and_values_of_kafka() -> None:
    told = {"trace": None, "worker_id": "here:8083", "generation": 3, "version": None}
    assert status_pair("c", RUNNING) == ("status-connector-c", {"state": "RUNNING", **told})
    assert status_pair(TaskId("c", 1), RUNNING)[0] == "status-task-c-1"
    assert topic_pair("c", "t", task=0, now_ms=5) == (
        "status-topic-t:connector-c",
        {"topic": {"name": "t", "connector": "c", "task": 0, "discoverTimestamp": 5}},
    )


def test_what_is_written_is_known_until_it_is_forgotten() -> None:
    statuses = Statuses()
    for pair in (
        status_pair("a-1", RUNNING),
        status_pair(TaskId("a-1", 1), RUNNING),
        status_pair(TaskId("a-1", 0), Written(State.FAILED, "x", 1, "why")),
        topic_pair("a-1", "t", task=0, now_ms=1),
        topic_pair("a-1", "t", task=0, now_ms=2),
        topic_pair("a-1", "u", task=0, now_ms=2),
    ):
        statuses = fold(statuses, *pair)
    assert statuses.get("a-1") == RUNNING
    assert statuses.tasks_of("a-1") == [TaskId("a-1", 0), TaskId("a-1", 1)]
    assert statuses.get(TaskId("a-1", 0)) == Written(State.FAILED, "x", 1, "why")
    assert statuses.topics == {"a-1": ("t", "u")}
    for pair in (
        forgotten("a-1"),
        forgotten(TaskId("a-1", 1)),
        topic_forgotten("a-1", "t"),
        topic_forgotten("a-1", "u"),
    ):
        statuses = fold(statuses, *pair)
    assert statuses.get("a-1") is None
    assert statuses.tasks_of("a-1") == [TaskId("a-1", 0)]
    assert statuses.topics == {}


def test_what_kafka_has_destroyed_and_what_nobody_knows_is_not_there() -> None:
    statuses = fold(Statuses(), *status_pair("c", RUNNING))
    statuses = fold(statuses, "status-connector-c", {"state": "DESTROYED", "worker_id": "x"})
    assert statuses == fold(Statuses(), "whatever", {"state": "RUNNING"})
