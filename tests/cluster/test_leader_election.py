"""Leader election and ISR changes, as plain functions."""

from __future__ import annotations

import json

import pytest
from model_store import ModelStore

from ottla.cluster import layout
from ottla.cluster.image import NO_LEADER
from ottla.cluster.leader_election import (
    REBALANCE_AT_ONCE_MAX,
    LeaderElectionType,
    alter_isr,
    broker_failed,
    broker_shutting_down,
    elect,
    never_unclean,
    rebalance,
    reconcile,
    unclean_by_config,
)
from ottla.cluster.store import Check, Put
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError

UNCLEAN_EVERYWHERE = unclean_by_config(ServerConfig({"unclean.leader.election.enable": "true"}))
UNCLEAN_NOWHERE = unclean_by_config(ServerConfig({}))


def test_the_next_in_sync_replica_replaces_a_dead_leader() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    world.die(1)
    world.commit(reconcile(world.image))
    assert world.state_of("t", 0) == (2, 1, (2, 3))
    assert world.state_of("t", 1) == (2, 0, (2, 3))  # another leader: only the ISR is smaller
    assert world.state_of("t", 2) == (3, 0, (3, 2))
    assert reconcile(world.image) == []


def test_leaders_are_elected_in_the_order_of_replicas_not_of_the_isr() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=1, isr=(3, 2, 1))
    world.die(1)
    world.commit(reconcile(world.image))
    assert world.state_of() == (2, 1, (3, 2))


def test_a_state_has_the_epoch_of_its_controller() -> None:
    world = ModelStore()
    world.topic("t", (1, 2))
    world.die(1)
    (write,) = reconcile(world.image)
    assert isinstance(write, Put)
    assert write.key == "/brokers/topics/t/partitions/0/state"
    assert json.loads(write.value) == {
        "version": 1,
        "controller_epoch": 7,
        "leader": 2,
        "leader_epoch": 1,
        "isr": [2],
    }


def test_the_last_in_sync_replica_stays_in_the_isr_without_a_leader() -> None:
    world = ModelStore()
    world.topic("t", (1, 2))
    world.state("t", 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(reconcile(world.image))
    assert world.state_of() == (NO_LEADER, 1, (1,))
    assert reconcile(world.image) == []
    world.register(1)
    world.commit(reconcile(world.image))
    assert world.state_of() == (1, 2, (1,))


def test_when_all_in_sync_replicas_die_at_once_the_isr_stays() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=1, isr=(1, 2))
    world.die(1, 2)
    world.commit(reconcile(world.image))
    assert world.state_of() == (NO_LEADER, 1, (1, 2))
    world.register(2)
    world.commit(reconcile(world.image))
    assert world.state_of() == (2, 2, (2,))


def test_a_partition_with_one_replica_is_left_alone() -> None:
    world = ModelStore()
    world.topic("t", (1,))
    world.die(1)
    assert reconcile(world.image, UNCLEAN_EVERYWHERE) == []
    assert broker_failed(world.image, 1) == []
    world.state("t", 0, leader=NO_LEADER, isr=(1,))
    world.register(1)
    world.commit(reconcile(world.image))
    assert world.state_of() == (1, 1, (1,))


def test_unclean_elections_elect_any_live_replica_if_allowed() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3))
    world.topic("u", (1, 2, 3))
    world.configure("u", unclean_leader_election_enable="true")
    for name in "tu":
        world.state(name, 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(reconcile(world.image, UNCLEAN_NOWHERE))
    assert world.state_of("t") == (NO_LEADER, 1, (1,))
    assert world.state_of("u") == (2, 1, (2,))
    world.commit(reconcile(world.image, UNCLEAN_EVERYWHERE))
    assert world.state_of("t") == (2, 2, (2,))
    assert reconcile(world.image, UNCLEAN_EVERYWHERE) == []


def test_the_topic_config_overrides_the_broker_config() -> None:
    world = ModelStore()
    world.topic("t", (1, 2))
    world.configure("t", unclean_leader_election_enable="false")
    world.state("t", 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(reconcile(world.image, UNCLEAN_EVERYWHERE))
    assert world.state_of() == (NO_LEADER, 1, (1,))


def test_unclean_elections_need_a_live_replica() -> None:
    world = ModelStore(2)
    world.topic("t", (1, 2))
    world.die(1, 2)
    world.commit(reconcile(world.image, UNCLEAN_EVERYWHERE))
    assert world.state_of() == (NO_LEADER, 1, (1, 2))


def test_a_restarted_broker_leaves_every_isr_of_which_it_is_not_the_only_member() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3), (2, 1, 3), (1, 2), (1,))
    world.state("t", 2, leader=1, isr=(1,))
    world.commit(
        broker_failed(world.image, 1)
    )  # still registered: it restarted before its session expired
    assert world.state_of("t", 0) == (2, 1, (2, 3))
    assert world.state_of("t", 1) == (2, 0, (2, 3))
    assert world.state_of("t", 2) == (NO_LEADER, 1, (1,))
    assert world.state_of("t", 3) == (1, 0, (1,))
    assert broker_failed(world.image, 1) == []
    world.commit(reconcile(world.image))
    assert world.state_of("t", 2) == (1, 2, (1,))


def test_a_restarted_broker_leaves_the_isr_even_if_the_others_are_dead() -> None:
    """It may have lost its last records; the other members are known to have all of them."""
    world = ModelStore()
    world.topic("t", (1, 2))
    world.die(1, 2)
    world.commit(reconcile(world.image))
    assert world.state_of() == (NO_LEADER, 1, (1, 2))
    world.count_up(1)
    world.commit(broker_failed(world.image, 1))
    world.register(1)
    world.commit(reconcile(world.image))
    assert world.state_of() == (NO_LEADER, 1, (2,))
    world.count_up(2)
    assert broker_failed(world.image, 2) == []
    world.register(2)
    world.commit(reconcile(world.image))
    assert world.state_of() == (2, 2, (2,))


def test_controlled_shutdown_moves_leadership_where_possible() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3), (2, 1), (1, 2), (1,))
    world.state("t", 2, leader=1, isr=(1,))
    world.commit(broker_shutting_down(world.image, 1))
    assert world.state_of("t", 0) == (2, 1, (2, 3))
    assert world.state_of("t", 1) == (2, 0, (2,))  # its leader no longer waits for it
    assert world.state_of("t", 2) == (1, 0, (1,))
    assert world.state_of("t", 3) == (1, 0, (1,))
    assert broker_shutting_down(world.image, 1) == []


def test_preferred_leaders_are_elected_on_request() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=2, isr=(2, 1))
    world.commit(elect(world.image, "t", 0, LeaderElectionType.PREFERRED))
    assert world.state_of() == (1, 1, (2, 1))
    assert refusal(world, LeaderElectionType.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED


def test_preferred_leaders_must_be_alive_and_in_sync() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=2, isr=(2, 3))
    assert refusal(world, LeaderElectionType.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    world.state("t", 0, leader=2, isr=(1, 2, 3))
    world.die(1)
    assert refusal(world, LeaderElectionType.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_unclean_elections_by_request_need_no_config() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3))
    assert refusal(world, LeaderElectionType.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    world.state("t", 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(elect(world.image, "t", 0, LeaderElectionType.UNCLEAN))
    assert world.state_of() == (2, 1, (2,))


def test_unclean_elections_by_request_prefer_the_isr() -> None:
    world = ModelStore()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=1, isr=(1, 3))
    world.die(1)
    world.commit(elect(world.image, "t", 0, LeaderElectionType.UNCLEAN))
    assert world.state_of() == (3, 1, (3,))


def test_unclean_elections_fail_without_a_live_replica() -> None:
    world = ModelStore()
    world.topic("t", (1, 2), (1,))
    world.die(1, 2)
    assert refusal(world, LeaderElectionType.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert refusal(world, LeaderElectionType.UNCLEAN, 1) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def refusal(world: ModelStore, election: LeaderElectionType, index: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        elect(world.image, "t", index, election)
    return caught.value.code


def test_elections_of_unknown_partitions_fail() -> None:
    world = ModelStore()
    world.topic("t", (1, 2))
    for name, index, words in [
        ("x", 0, "No such topic as x"),
        ("t", 1, "No such partition as t-1"),
    ]:
        with pytest.raises(KafkaError, match=words) as caught:
            elect(world.image, name, index, LeaderElectionType.PREFERRED)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_rebalance_elects_preferred_leaders_above_the_imbalance_limit() -> None:
    world = ModelStore()
    world.topic("t", *[(1, 2, 3)] * 10)
    world.state("t", 4, leader=2, isr=(1, 2, 3))
    assert rebalance(world.image, 10) == []  # exactly a tenth
    world.state("t", 5, leader=3, isr=(1, 2, 3))
    world.state("t", 6, leader=3, isr=(2, 3))  # the preferred one is behind
    world.commit(rebalance(world.image, 10))
    assert [world.state_of("t", index)[0] for index in (4, 5, 6)] == [1, 1, 3]
    assert rebalance(world.image, 10) == []


def test_rebalance_elects_no_dead_brokers() -> None:
    world = ModelStore()
    world.topic("t", (1, 2), (1, 2))
    world.die(1)
    world.commit(reconcile(world.image))
    assert rebalance(world.image, 0) == []


def test_a_round_of_rebalance_is_bounded() -> None:
    world = ModelStore()
    world.topic("t", *[(1, 2)] * (REBALANCE_AT_ONCE_MAX + 5))
    for index in range(REBALANCE_AT_ONCE_MAX + 5):
        world.state("t", index, leader=2, isr=(1, 2))
    assert len(rebalance(world.image, 10)) == REBALANCE_AT_ONCE_MAX


def test_a_leader_adds_only_the_broker_epoch_that_caught_up() -> None:
    world = ModelStore()
    world.topic("t", (1, 2))
    world.state("t", 0, leader=1, isr=(1,))
    epoch = world.image.brokers[2].epoch
    writes = alter_isr(world.image, "t", world.partition(), (1, 2), {2: epoch})
    assert writes[:2] == [
        Check(layout.broker_epoch_key(2), 0),
        Check(layout.broker_key(2), layout.EPHEMERAL_VERSION),
    ]
    world.count_up(2)  # it died and restarts
    with pytest.raises(AssertionError, match="Check"):
        world.commit(writes)
    world.register(2)
    epoch = world.image.brokers[2].epoch
    world.commit(alter_isr(world.image, "t", world.partition(), (1, 2), {2: epoch}))
    assert world.state_of() == (1, 0, (1, 2))


def test_only_the_named_topics_are_reconciled() -> None:
    world = ModelStore()
    world.topic("t", (1, 2))
    world.topic("u", (1, 2))
    world.die(1)
    world.commit(reconcile(world.image, never_unclean, [world.image.topics["u"]]))
    assert world.state_of("t") == (1, 0, (1, 2))
    assert world.state_of("u") == (2, 1, (2,))
