"""The status topic: Kafka's records, folded into the cluster's status."""

from __future__ import annotations

from ottla.connect.herder.cluster_status import (
    ClusterStatus,
    ConnectorTaskId,
    StoredStatus,
    fold_status_record,
    status_record,
    status_tombstone,
    topic_status_record,
    topic_status_tombstone,
)
from ottla.connect.run.connector_status import ConnectorState

RUNNING = StoredStatus(ConnectorState.RUNNING, "here:8083", 3)


def test_records_have_the_keys_and_values_of_kafka() -> None:
    fields = {"trace": None, "worker_id": "here:8083", "generation": 3, "version": None}
    assert status_record("c", RUNNING) == ("status-connector-c", {"state": "RUNNING", **fields})
    assert status_record(ConnectorTaskId("c", 1), RUNNING)[0] == "status-task-c-1"
    assert topic_status_record("c", "t", task=0, now_ms=5) == (
        "status-topic-t:connector-c",
        {"topic": {"name": "t", "connector": "c", "task": 0, "discoverTimestamp": 5}},
    )


def test_a_status_is_known_until_its_tombstone() -> None:
    statuses = ClusterStatus()
    for pair in (
        status_record("a-1", RUNNING),
        status_record(ConnectorTaskId("a-1", 1), RUNNING),
        status_record(
            ConnectorTaskId("a-1", 0), StoredStatus(ConnectorState.FAILED, "x", 1, "why")
        ),
        topic_status_record("a-1", "t", task=0, now_ms=1),
        topic_status_record("a-1", "t", task=0, now_ms=2),
        topic_status_record("a-1", "u", task=0, now_ms=2),
    ):
        statuses = fold_status_record(statuses, *pair)
    assert statuses.get("a-1") == RUNNING
    assert statuses.tasks_of("a-1") == [ConnectorTaskId("a-1", 0), ConnectorTaskId("a-1", 1)]
    assert statuses.get(ConnectorTaskId("a-1", 0)) == StoredStatus(
        ConnectorState.FAILED, "x", 1, "why"
    )
    assert statuses.topics == {"a-1": ("t", "u")}
    for pair in (
        status_tombstone("a-1"),
        status_tombstone(ConnectorTaskId("a-1", 1)),
        topic_status_tombstone("a-1", "t"),
        topic_status_tombstone("a-1", "u"),
    ):
        statuses = fold_status_record(statuses, *pair)
    assert statuses.get("a-1") is None
    assert statuses.tasks_of("a-1") == [ConnectorTaskId("a-1", 0)]
    assert statuses.topics == {}


def test_destroyed_and_unknown_states_are_ignored() -> None:
    statuses = fold_status_record(ClusterStatus(), *status_record("c", RUNNING))
    statuses = fold_status_record(
        statuses, "status-connector-c", {"state": "DESTROYED", "worker_id": "x"}
    )
    assert statuses == fold_status_record(ClusterStatus(), "whatever", {"state": "RUNNING"})
