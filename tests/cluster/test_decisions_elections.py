"""Who leads, and who is in sync: decisions on partitions."""

from __future__ import annotations

import json

import pytest
from world import World

from ottla.cluster import layout
from ottla.cluster.decisions_elections import (
    REBALANCE_AT_ONCE_MAX,
    Election,
    alter_isr,
    broker_gone,
    broker_leaving,
    by_config,
    elect,
    never,
    rebalance,
    settle,
)
from ottla.cluster.image import NO_LEADER
from ottla.cluster.store import Check, Put
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError

UNCLEAN_EVERYWHERE = by_config(ServerConfig({"unclean.leader.election.enable": "true"}))
UNCLEAN_NOWHERE = by_config(ServerConfig({}))


def test_a_dead_leader_is_followed_by_the_next_in_sync_replica() -> None:
    world = World()
    world.topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    world.die(1)
    world.commit(settle(world.image))
    assert world.told("t", 0) == (2, 1, (2, 3))
    assert world.told("t", 1) == (2, 0, (2, 3))  # led by another: only its set is smaller
    assert world.told("t", 2) == (3, 0, (3, 2))
    assert settle(world.image) == []


def test_leaders_are_taken_in_the_order_of_replicas_not_of_the_set() -> None:
    world = World()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=1, isr=(3, 2, 1))
    world.die(1)
    world.commit(settle(world.image))
    assert world.told() == (2, 1, (3, 2))


def test_a_state_says_which_controller_wrote_it() -> None:
    world = World()
    world.topic("t", (1, 2))
    world.die(1)
    (write,) = settle(world.image)
    assert isinstance(write, Put)
    assert write.key == "/brokers/topics/t/partitions/0/state"
    assert json.loads(write.value) == {
        "version": 1,
        "controller_epoch": 7,
        "leader": 2,
        "leader_epoch": 1,
        "isr": [2],
    }


def test_the_last_in_sync_replica_stays_in_the_set_and_nobody_leads() -> None:
    world = World()
    world.topic("t", (1, 2))
    world.state("t", 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(settle(world.image))
    assert world.told() == (NO_LEADER, 1, (1,))
    assert settle(world.image) == []
    world.register(1)
    world.commit(settle(world.image))
    assert world.told() == (1, 2, (1,))


def test_when_all_in_sync_replicas_die_at_once_none_is_taken_out() -> None:
    world = World()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=1, isr=(1, 2))
    world.die(1, 2)
    world.commit(settle(world.image))
    assert world.told() == (NO_LEADER, 1, (1, 2))
    world.register(2)
    world.commit(settle(world.image))
    assert world.told() == (2, 2, (2,))


def test_a_partition_of_one_replica_is_left_to_its_broker() -> None:
    world = World()
    world.topic("t", (1,))
    world.die(1)
    assert settle(world.image, UNCLEAN_EVERYWHERE) == []
    assert broker_gone(world.image, 1) == []
    world.state("t", 0, leader=NO_LEADER, isr=(1,))
    world.register(1)
    world.commit(settle(world.image))
    assert world.told() == (1, 1, (1,))


def test_unclean_elections_take_any_live_replica_where_they_are_allowed() -> None:
    world = World()
    world.topic("t", (1, 2, 3))
    world.topic("u", (1, 2, 3))
    world.configure("u", unclean_leader_election_enable="true")
    for name in "tu":
        world.state(name, 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(settle(world.image, UNCLEAN_NOWHERE))
    assert world.told("t") == (NO_LEADER, 1, (1,))
    assert world.told("u") == (2, 1, (2,))
    world.commit(settle(world.image, UNCLEAN_EVERYWHERE))
    assert world.told("t") == (2, 2, (2,))
    assert settle(world.image, UNCLEAN_EVERYWHERE) == []


def test_a_topic_may_forbid_what_brokers_allow() -> None:
    world = World()
    world.topic("t", (1, 2))
    world.configure("t", unclean_leader_election_enable="false")
    world.state("t", 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(settle(world.image, UNCLEAN_EVERYWHERE))
    assert world.told() == (NO_LEADER, 1, (1,))


def test_unclean_elections_need_somebody_alive() -> None:
    world = World(2)
    world.topic("t", (1, 2))
    world.die(1, 2)
    world.commit(settle(world.image, UNCLEAN_EVERYWHERE))
    assert world.told() == (NO_LEADER, 1, (1, 2))


def test_a_broker_that_comes_back_leaves_every_set_but_its_own() -> None:
    world = World()
    world.topic("t", (1, 2, 3), (2, 1, 3), (1, 2), (1,))
    world.state("t", 2, leader=1, isr=(1,))
    world.commit(broker_gone(world.image, 1))  # still registered: it restarted so fast
    assert world.told("t", 0) == (2, 1, (2, 3))
    assert world.told("t", 1) == (2, 0, (2, 3))
    assert world.told("t", 2) == (NO_LEADER, 1, (1,))
    assert world.told("t", 3) == (1, 0, (1,))
    assert broker_gone(world.image, 1) == []
    world.commit(settle(world.image))
    assert world.told("t", 2) == (1, 2, (1,))


def test_a_broker_that_comes_back_leaves_the_set_even_if_the_others_are_dead() -> None:
    """It may have lost its tail; what is left of the set is known to have everything."""
    world = World()
    world.topic("t", (1, 2))
    world.die(1, 2)
    world.commit(settle(world.image))
    assert world.told() == (NO_LEADER, 1, (1, 2))
    world.count_up(1)
    world.commit(broker_gone(world.image, 1))
    world.register(1)
    world.commit(settle(world.image))
    assert world.told() == (NO_LEADER, 1, (2,))
    world.count_up(2)
    assert broker_gone(world.image, 2) == []
    world.register(2)
    world.commit(settle(world.image))
    assert world.told() == (2, 2, (2,))


def test_a_leaving_broker_hands_over_what_others_can_lead() -> None:
    world = World()
    world.topic("t", (1, 2, 3), (2, 1), (1, 2), (1,))
    world.state("t", 2, leader=1, isr=(1,))
    world.commit(broker_leaving(world.image, 1))
    assert world.told("t", 0) == (2, 1, (2, 3))
    assert world.told("t", 1) == (2, 0, (2,))  # its leader no longer waits for it
    assert world.told("t", 2) == (1, 0, (1,))
    assert world.told("t", 3) == (1, 0, (1,))
    assert broker_leaving(world.image, 1) == []


def test_preferred_leaders_are_elected_when_somebody_asks() -> None:
    world = World()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=2, isr=(2, 1))
    world.commit(elect(world.image, "t", 0, Election.PREFERRED))
    assert world.told() == (1, 1, (2, 1))
    assert refusal(world, Election.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED


def test_preferred_leaders_must_live_and_be_in_sync() -> None:
    world = World()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=2, isr=(2, 3))
    assert refusal(world, Election.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    world.state("t", 0, leader=2, isr=(1, 2, 3))
    world.die(1)
    assert refusal(world, Election.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_unclean_elections_by_request_need_no_config() -> None:
    world = World()
    world.topic("t", (1, 2, 3))
    assert refusal(world, Election.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    world.state("t", 0, leader=1, isr=(1,))
    world.die(1)
    world.commit(elect(world.image, "t", 0, Election.UNCLEAN))
    assert world.told() == (2, 1, (2,))


def test_unclean_elections_by_request_prefer_the_in_sync_set() -> None:
    world = World()
    world.topic("t", (1, 2, 3))
    world.state("t", 0, leader=1, isr=(1, 3))
    world.die(1)
    world.commit(elect(world.image, "t", 0, Election.UNCLEAN))
    assert world.told() == (3, 1, (3,))


def test_unclean_elections_fail_when_no_replica_lives() -> None:
    world = World()
    world.topic("t", (1, 2), (1,))
    world.die(1, 2)
    assert refusal(world, Election.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert refusal(world, Election.UNCLEAN, 1) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def refusal(world: World, election: Election, index: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        elect(world.image, "t", index, election)
    return caught.value.code


def test_elections_of_what_does_not_exist() -> None:
    world = World()
    world.topic("t", (1, 2))
    for name, index, words in [
        ("x", 0, "No such topic as x"),
        ("t", 1, "No such partition as t-1"),
    ]:
        with pytest.raises(KafkaError, match=words) as caught:
            elect(world.image, name, index, Election.PREFERRED)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leaders_move_back_where_a_broker_lacks_more_than_its_share() -> None:
    world = World()
    world.topic("t", *[(1, 2, 3)] * 10)
    world.state("t", 4, leader=2, isr=(1, 2, 3))
    assert rebalance(world.image, 10) == []  # a tenth, and not more
    world.state("t", 5, leader=3, isr=(1, 2, 3))
    world.state("t", 6, leader=3, isr=(2, 3))  # the preferred one is behind
    world.commit(rebalance(world.image, 10))
    assert [world.told("t", index)[0] for index in (4, 5, 6)] == [1, 1, 3]
    assert rebalance(world.image, 10) == []


def test_leaders_do_not_move_back_to_the_dead() -> None:
    world = World()
    world.topic("t", (1, 2), (1, 2))
    world.die(1)
    world.commit(settle(world.image))
    assert rebalance(world.image, 0) == []


def test_a_round_of_rebalance_is_bounded() -> None:
    world = World()
    world.topic("t", *[(1, 2)] * (REBALANCE_AT_ONCE_MAX + 5))
    for index in range(REBALANCE_AT_ONCE_MAX + 5):
        world.state("t", index, leader=2, isr=(1, 2))
    assert len(rebalance(world.image, 10)) == REBALANCE_AT_ONCE_MAX


def test_a_leader_adds_only_the_life_of_a_broker_that_caught_up() -> None:
    world = World()
    world.topic("t", (1, 2))
    world.state("t", 0, leader=1, isr=(1,))
    epoch = world.image.brokers[2].epoch
    writes = alter_isr(world.image, "t", world.partition(), (1, 2), {2: epoch})
    assert writes[:2] == [
        Check(layout.broker_epoch_key(2), 0),
        Check(layout.broker_key(2), layout.HELD_VERSION),
    ]
    world.count_up(2)  # it has died and comes back
    with pytest.raises(AssertionError, match="Check"):
        world.commit(writes)
    world.register(2)
    epoch = world.image.brokers[2].epoch
    world.commit(alter_isr(world.image, "t", world.partition(), (1, 2), {2: epoch}))
    assert world.told() == (1, 0, (1, 2))


def test_settling_only_some_topics() -> None:
    world = World()
    world.topic("t", (1, 2))
    world.topic("u", (1, 2))
    world.die(1)
    world.commit(settle(world.image, never, [world.image.topics["u"]]))
    assert world.told("t") == (1, 0, (1, 2))
    assert world.told("u") == (2, 1, (2,))
