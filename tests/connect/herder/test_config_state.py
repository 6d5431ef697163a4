"""The config topic: Kafka's records, folded into the cluster's config state."""

from __future__ import annotations

from ottla.connect.herder.config_state import (
    ClusterConfigState,
    Event,
    KeyedRecord,
    LoggerLevel,
    RestartRequest,
    connector_record,
    deletion_records,
    fold_config_record,
    logger_level_record,
    restart_record,
    target_state_record,
    task_config_records,
)
from ottla.connect.run.connector_status import TargetState


def folded(
    pairs: list[KeyedRecord], before: ClusterConfigState | None = None
) -> tuple[ClusterConfigState, list[Event]]:
    configs, events = before or ClusterConfigState(), []
    for key, value in pairs:
        configs, event = fold_config_record(configs, key, value, configs.position + 1)
        events.append(event)
    return configs, events


def test_records_have_the_keys_and_values_of_kafka() -> None:
    assert connector_record("c", {"a": "1"}) == ("connector-c", {"properties": {"a": "1"}})
    assert target_state_record("c", TargetState.STOPPED) == (
        "target-state-c",
        {"state": "PAUSED", "state.v2": "STOPPED"},
    )
    assert task_config_records("c", [{"t": "0"}]) == [
        ("task-c-0", {"properties": {"t": "0"}}),
        ("commit-c", {"tasks": 1}),
    ]
    assert restart_record(RestartRequest("c", True, False)) == (
        "restart-connector-c",
        {"include-tasks": True, "only-failed": False},
    )
    assert logger_level_record("a.b", "DEBUG") == ("logger-cluster-a.b", {"level": "DEBUG"})


def test_a_connector_is_created_changed_and_deleted() -> None:
    configs, _ = folded([connector_record("c", {"a": "1"}), connector_record("c", {"a": "2"})])
    assert configs.connectors["c"].config == {"a": "2"}
    assert configs.connectors["c"].offset == 1
    assert configs.connectors["c"].target is TargetState.STARTED
    configs, _ = folded(deletion_records("c"), configs)
    assert configs.connectors == {}
    assert configs.targets == {}


def test_task_configs_apply_when_all_are_committed() -> None:
    start, _ = folded([connector_record("a-b", {})])
    two = task_config_records("a-b", [{"n": "0"}, {"n": "1"}])
    waiting, _ = folded(two[:2], start)
    assert waiting.connectors["a-b"].tasks == ()
    done, _ = folded(two[2:], waiting)
    assert done.connectors["a-b"].tasks == ({"n": "0"}, {"n": "1"})
    half, _ = folded([two[0], two[2]], done)
    assert half.connectors["a-b"].tasks == ({"n": "0"}, {"n": "1"})
    none, _ = folded(task_config_records("a-b", []), done)
    assert none.connectors["a-b"].tasks == ()


def test_a_target_state_may_come_before_its_connector() -> None:
    configs, _ = folded([target_state_record("c", TargetState.STOPPED), connector_record("c", {})])
    assert configs.connectors["c"].target is TargetState.STOPPED
    changed, _ = folded([("target-state-c", {"state": "STARTED"})], configs)  # of an old worker
    assert changed.connectors["c"].target is TargetState.STARTED
    odd, _ = folded([("target-state-c", {"state": "FLYING"})], changed)
    assert odd.connectors["c"].target is TargetState.STARTED


def test_restarts_are_events_and_unknown_records_are_ignored() -> None:
    _, events = folded(
        [
            restart_record(RestartRequest("c", True, True)),
            logger_level_record("root", "WARN"),
            ("session-key", {"key": "x"}),
            ("tasks-fencing-c", {"task-count": 1}),
        ]
    )
    assert events == [RestartRequest("c", True, True), LoggerLevel("root", "WARN"), None, None]
