"""Herders share the connectors of a cluster: each runs once, and a lost worker's go to others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from herders import Stage, herder, until, vanish

from ottla.client import Consumer, TopicPartition
from ottla.connect.herder import configs as records
from ottla.connect.herder.configs import Restart
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.refusals import Elsewhere
from ottla.connect.run.states import State, Target
from ottla.testing import LocalCluster

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalCluster]:
    """Groups do not wait for members that may still come."""
    with LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        yield cluster


@pytest.fixture
def cluster(broker: LocalCluster) -> Iterator[LocalCluster]:
    yield broker
    with broker.admin() as admin:
        admin.topics.delete("connect-configs", "connect-status")


@contextmanager
def started(cluster: LocalCluster, stage: Stage, *ids: str) -> Iterator[list[Herder]]:
    herders = [herder(cluster.bootstrap_servers, stage, each) for each in ids]
    try:
        for each in herders:
            each.start()
        yield herders
    finally:
        for each in herders:
            each.close()


def settled(*herders: Herder) -> bool:
    """All know the same group, and nobody is about to join again."""
    views = [each.view for each in herders]
    return (
        all(view.settled and view.assignment is not None for view in views)
        and len({view.generation for view in views}) == 1
        and sum(view.leads for view in views) == 1
    )


def leader(*herders: Herder) -> Herder:
    until(lambda: settled(*herders))
    return next(each for each in herders if each.view.leads)


def make(herder: Herder, *names: str) -> None:
    herder.write_configs([records.connector_pair(each, {"name": each}) for each in names])


def workers_of(herder: Herder) -> dict[str, str]:
    return {
        name: each.worker_id
        for name, each in herder.statuses.connectors.items()
        if each.state is State.RUNNING
    }


def test_two_share_a_third_joins_and_one_that_vanishes_is_replaced(cluster: LocalCluster) -> None:
    stage, names = Stage(), {f"c{each}" for each in range(6)}
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


def test_a_connector_lives_through_all_its_states(cluster: LocalCluster) -> None:
    stage = Stage()
    with started(cluster, stage, "one:1") as (one,):
        leader(one)
        config = {"name": "c", "tasks.max": "2", "topics": "t"}
        one.write_configs([records.connector_pair("c", config)])
        until(lambda: len(one.configs.connectors["c"].tasks) == 2)
        until(lambda: [each.state for each in one.statuses.tasks.values()] == [State.RUNNING] * 2)
        assert one.statuses.topics == {"c": ("t",)}

        one.write_configs([records.target_pair("c", Target.PAUSED)])
        until(lambda: one.statuses.connectors["c"].state is State.PAUSED)
        one.write_configs([records.restart_pair(Restart("c", True, True))])
        until(lambda: stage.running["c"].restarts == [(True, True)])
        one.write_configs([records.target_pair("c", Target.STARTED)])
        until(lambda: one.statuses.connectors["c"].state is State.RUNNING)

        stopped = [*records.task_pairs("c", []), records.target_pair("c", Target.STOPPED)]
        one.write_configs(stopped)
        until(lambda: one.statuses.connectors["c"].state is State.STOPPED)
        until(lambda: one.statuses.tasks == {})
        assert stage.running == {}

        one.write_configs(
            [
                records.connector_pair("c", {**config, "refuse": "true"}),
                records.target_pair("c", Target.STARTED),
            ]
        )
        until(lambda: one.statuses.connectors["c"].state is State.FAILED)
        assert "this one does not start" in (one.statuses.connectors["c"].trace or "")
        one.write_configs(records.deletion("c"))
        until(lambda: (one.statuses.connectors, one.statuses.topics) == ({}, {}))
        until(lambda: not one.owned())


def test_what_was_written_is_there_for_the_next_worker(cluster: LocalCluster) -> None:
    stage = Stage()
    with started(cluster, stage, "one:1") as (one,):
        leader(one)
        make(one, "kept", "deleted")
        one.write_configs(records.deletion("deleted"))
        until(lambda: set(stage.running) == {"kept"})
    assert stage.running == {}
    last: dict[bytes | None, bytes | None] = {}
    with Consumer[bytes, bytes](cluster.bootstrap_servers) as reader:
        reader.assign({TopicPartition("connect-status", each): 0 for each in range(5)})

        def unassigned() -> bool:
            last.update((each.key, each.value) for each in reader.take(1, 0.2))
            return b"UNASSIGNED" in (last.get(b"status-connector-kept") or b"")

        until(unassigned)
    with started(cluster, stage, "two:2") as (two,):
        until(lambda: workers_of(two) == {"kept": "two:2"})
        assert two.configs.connectors["kept"].config == {"name": "kept"}


def test_who_does_not_lead_says_who_does(cluster: LocalCluster) -> None:
    stage = Stage()
    with started(cluster, stage, "one:1", "two:2") as herders:
        first = leader(*herders)
        other = next(each for each in herders if each is not first)
        first.check_leads()
        with pytest.raises(Elsewhere) as elsewhere:
            other.check_leads()
        assert elsewhere.value.url == f"http://{first.worker_id}"
        make(first, "a", "b")
        until(lambda: len(set(workers_of(first).values())) == 2 and settled(*herders))
        theirs = next(iter(other.owned()))
        with pytest.raises(Elsewhere) as elsewhere:
            first.check_owns(theirs)
        assert elsewhere.value.url == f"http://{other.worker_id}"
        other.check_owns(theirs)
