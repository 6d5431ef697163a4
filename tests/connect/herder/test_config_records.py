"""The config topic: Kafka's records, folded into what is written down."""

from __future__ import annotations

from ottla.connect.herder.configs import (
    Configs,
    Event,
    LoggerLevel,
    Pair,
    Restart,
    connector_pair,
    deletion,
    fold,
    logger_pair,
    restart_pair,
    target_pair,
    task_pairs,
)
from ottla.connect.run.states import Target


def folded(pairs: list[Pair], before: Configs | None = None) -> tuple[Configs, list[Event]]:
    configs, events = before or Configs(), []
    for key, value in pairs:
        configs, event = fold(configs, key, value, configs.position + 1)
        events.append(event)
    return configs, events


def test_records_have_the_keys_and_values_of_kafka() -> None:
    assert connector_pair("c", {"a": "1"}) == ("connector-c", {"properties": {"a": "1"}})
    assert target_pair("c", Target.STOPPED) == (
        "target-state-c",
        {"state": "PAUSED", "state.v2": "STOPPED"},
    )
    assert task_pairs("c", [{"t": "0"}]) == [
        ("task-c-0", {"properties": {"t": "0"}}),
        ("commit-c", {"tasks": 1}),
    ]
    assert restart_pair(Restart("c", True, False)) == (
        "restart-connector-c",
        {"include-tasks": True, "only-failed": False},
    )
    assert logger_pair("a.b", "DEBUG") == ("logger-cluster-a.b", {"level": "DEBUG"})


def test_a_connector_is_made_changed_and_deleted() -> None:
    configs, _ = folded([connector_pair("c", {"a": "1"}), connector_pair("c", {"a": "2"})])
    assert configs.connectors["c"].config == {"a": "2"}
    assert configs.connectors["c"].offset == 1
    assert configs.connectors["c"].target is Target.STARTED
    configs, _ = folded(deletion("c"), configs)
    assert configs.connectors == {}
    assert configs.targets == {}


def test_tasks_count_when_all_of_them_are_committed() -> None:
    start, _ = folded([connector_pair("a-b", {})])
    two = task_pairs("a-b", [{"n": "0"}, {"n": "1"}])
    waiting, _ = folded(two[:2], start)
    assert waiting.connectors["a-b"].tasks == ()
    done, _ = folded(two[2:], waiting)
    assert done.connectors["a-b"].tasks == ({"n": "0"}, {"n": "1"})
    half, _ = folded([two[0], two[2]], done)
    assert half.connectors["a-b"].tasks == ({"n": "0"}, {"n": "1"})
    none, _ = folded(task_pairs("a-b", []), done)
    assert none.connectors["a-b"].tasks == ()


def test_a_target_state_may_come_before_its_connector() -> None:
    configs, _ = folded([target_pair("c", Target.STOPPED), connector_pair("c", {})])
    assert configs.connectors["c"].target is Target.STOPPED
    changed, _ = folded([("target-state-c", {"state": "STARTED"})], configs)  # of an old worker
    assert changed.connectors["c"].target is Target.STARTED
    odd, _ = folded([("target-state-c", {"state": "FLYING"})], changed)
    assert odd.connectors["c"].target is Target.STARTED


def test_what_is_asked_once_is_an_event_and_others_records_are_passed_over() -> None:
    _, events = folded(
        [
            restart_pair(Restart("c", True, True)),
            logger_pair("root", "WARN"),
            ("session-key", {"key": "x"}),
            ("tasks-fencing-c", {"task-count": 1}),
        ]
    )
    assert events == [Restart("c", True, True), LoggerLevel("root", "WARN"), None, None]
