"""Herders share connectors: each runs on one worker, and a lost worker's are reassigned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from herders import Stage, herder, until, vanish

from ottla.client import Consumer, TopicPartition
from ottla.connect.herder import config_state
from ottla.connect.herder.config_state import RestartRequest
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.rest_exceptions import RequestTargetException
from ottla.connect.run.connector_status import ConnectorState, TargetState
from ottla.testing import LocalCluster

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalCluster]:
    """Without the initial rebalance delay."""
    with LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        yield cluster


@pytest.fixture
def cluster(broker: LocalCluster) -> Iterator[LocalCluster]:
    yield broker
    with broker.admin() as admin:
        admin.topics.delete("connect-configs", "connect-status")


@contextmanager
def started(cluster: LocalCluster, stage: Stage, *ids: str) -> Iterator[list[Herder]]:
    herders = [herder(cluster.bootstrap_servers, stage, worker_id) for worker_id in ids]
    try:
        for started_herder in herders:
            started_herder.start()
        yield herders
    finally:
        for started_herder in herders:
            started_herder.close()


def settled(*herders: Herder) -> bool:
    """All are in the same generation, and no rebalance is in progress."""
    views = [herder.view for herder in herders]
    return (
        all(view.stable and view.assignment is not None for view in views)
        and len({view.generation for view in views}) == 1
        and sum(view.is_leader for view in views) == 1
    )


def leader(*herders: Herder) -> Herder:
    until(lambda: settled(*herders))
    return next(herder for herder in herders if herder.view.is_leader)


def make(herder: Herder, *names: str) -> None:
    herder.write_configs([config_state.connector_record(name, {"name": name}) for name in names])


def workers_of(herder: Herder) -> dict[str, str]:
    return {
        name: status.worker_id
        for name, status in herder.statuses.connectors.items()
        if status.state is ConnectorState.RUNNING
    }


def test_two_workers_share_a_third_joins_and_a_lost_one_is_replaced(cluster: LocalCluster) -> None:
    stage, names = Stage(), {f"c{number}" for number in range(6)}
    with started(cluster, stage, "one:1", "two:2") as (one, two):
        make(leader(one, two), *sorted(names))
        until(lambda: sorted(workers_of(one).values()) == ["one:1"] * 3 + ["two:2"] * 3)
        with started(cluster, stage, "three:3") as (three,):
            until(lambda: list(workers_of(one).values()).count("three:3") == 2)
            until(lambda: settled(one, two, three))
            until(lambda: set(stage.running) == names)
        until(lambda: set(workers_of(two).values()) == {"one:1", "two:2"})
        until(lambda: set(stage.running) == names)
        assert stage.overlaps == []
        vanish(two, stage)
        until(lambda: list(workers_of(one).values()) == ["one:1"] * 6)
        until(lambda: set(stage.running) == names)


def test_a_connector_passes_through_all_its_states(cluster: LocalCluster) -> None:
    stage = Stage()
    with started(cluster, stage, "one:1") as (one,):
        leader(one)
        config = {"name": "c", "tasks.max": "2", "topics": "t"}
        one.write_configs([config_state.connector_record("c", config)])
        until(lambda: len(one.configs.connectors["c"].tasks) == 2)
        until(
            lambda: (
                [task.state for task in one.statuses.tasks.values()] == [ConnectorState.RUNNING] * 2
            )
        )
        assert one.statuses.topics == {"c": ("t",)}

        one.write_configs([config_state.target_state_record("c", TargetState.PAUSED)])
        until(lambda: one.statuses.connectors["c"].state is ConnectorState.PAUSED)
        one.write_configs([config_state.restart_record(RestartRequest("c", True, True))])
        until(lambda: stage.running["c"].restarts == [(True, True)])
        one.write_configs([config_state.target_state_record("c", TargetState.STARTED)])
        until(lambda: one.statuses.connectors["c"].state is ConnectorState.RUNNING)

        stopped = [
            *config_state.task_config_records("c", []),
            config_state.target_state_record("c", TargetState.STOPPED),
        ]
        one.write_configs(stopped)
        until(lambda: one.statuses.connectors["c"].state is ConnectorState.STOPPED)
        until(lambda: one.statuses.tasks == {})
        assert stage.running == {}

        one.write_configs(
            [
                config_state.connector_record("c", {**config, "refuse": "true"}),
                config_state.target_state_record("c", TargetState.STARTED),
            ]
        )
        until(lambda: one.statuses.connectors["c"].state is ConnectorState.FAILED)
        assert "this one does not start" in (one.statuses.connectors["c"].trace or "")
        one.write_configs(config_state.deletion_records("c"))
        until(lambda: (one.statuses.connectors, one.statuses.topics) == ({}, {}))
        until(lambda: not one.owned())


def test_the_next_worker_reads_configs_and_statuses(cluster: LocalCluster) -> None:
    stage = Stage()
    with started(cluster, stage, "one:1") as (one,):
        leader(one)
        make(one, "kept", "deleted")
        one.write_configs(config_state.deletion_records("deleted"))
        until(lambda: set(stage.running) == {"kept"})
    assert stage.running == {}
    last: dict[bytes | None, bytes | None] = {}
    with Consumer[bytes, bytes](cluster.bootstrap_servers) as reader:
        reader.assign({TopicPartition("connect-status", number): 0 for number in range(5)})

        def unassigned() -> bool:
            last.update((record.key, record.value) for record in reader.take(1, 0.2))
            return b"UNASSIGNED" in (last.get(b"status-connector-kept") or b"")

        until(unassigned)
    with started(cluster, stage, "two:2") as (two,):
        until(lambda: workers_of(two) == {"kept": "two:2"})
        assert two.configs.connectors["kept"].config == {"name": "kept"}


def test_a_follower_names_the_leader(cluster: LocalCluster) -> None:
    stage = Stage()
    with started(cluster, stage, "one:1", "two:2") as herders:
        first = leader(*herders)
        other = next(herder for herder in herders if herder is not first)
        first.check_is_leader()
        with pytest.raises(RequestTargetException) as elsewhere:
            other.check_is_leader()
        assert elsewhere.value.url == f"http://{first.worker_id}"
        make(first, "a", "b")
        until(lambda: len(set(workers_of(first).values())) == 2 and settled(*herders))
        theirs = next(iter(other.owned()))
        with pytest.raises(RequestTargetException) as elsewhere:
            first.check_is_owner(theirs)
        assert elsewhere.value.url == f"http://{other.worker_id}"
        other.check_is_owner(theirs)
