"""Partition reassignment (KIP-455)."""

from __future__ import annotations

import json

import pytest
from model_store import ModelStore

from ottla.cluster.leader_election import reconcile
from ottla.cluster.reassignments import TargetReplicas, complete_reassignments, reassign
from ottla.errors import ErrorCode, KafkaError


def ask(
    world: ModelStore, target: TargetReplicas, *, index: int = 0, keep_factor: bool = False
) -> ErrorCode:
    """Commit the reassignment, and return the error code."""
    writes, results = reassign(
        world.image, "t", {index: target}, allow_replication_factor_change=not keep_factor
    )
    world.commit(writes)
    error = results[index]
    return ErrorCode.NONE if error is None else error.code


def catch_up(world: ModelStore, *isr: int) -> None:
    world.state("t", 0, leader=world.partition().leader, isr=isr)
    world.commit(complete_reassignments(world.image, world.image.topics["t"]))


def test_new_replicas_are_added_first_and_old_ones_dropped_when_all_are_in_sync() -> None:
    world = ModelStore(5)
    world.topic("t", (1, 2, 3))
    assert ask(world, (3, 4, 5)) is ErrorCode.NONE
    partition = world.partition()
    assert partition.replicas == (3, 4, 5, 1, 2)
    assert (partition.adding, partition.removing) == ((4, 5), (1, 2))
    assert (partition.origin, partition.target) == ((3, 1, 2), (3, 4, 5))
    assert world.state_of() == (1, 0, (1, 2, 3))
    catch_up(world, 1, 2, 3, 4)
    assert world.partition().reassigning
    catch_up(world, 1, 2, 3, 4, 5)
    assert not world.partition().reassigning
    assert world.partition().replicas == (3, 4, 5)
    assert world.state_of() == (3, 1, (3, 4, 5))
    assert complete_reassignments(world.image, world.image.topics["t"]) == []


def test_a_reassignment_is_stored_with_the_topic_as_in_kafka() -> None:
    world = ModelStore(3)
    world.topic("t", (1, 2), (2, 1))
    ask(world, (2, 3), index=1)
    value = json.loads(world.entries["/brokers/topics/t"].value)
    assert value["partitions"] == {"0": [1, 2], "1": [2, 3, 1]}
    assert value["adding_replicas"] == {"1": [3]}
    assert value["removing_replicas"] == {"1": [1]}


def test_a_leader_that_stays_keeps_its_leader_epoch() -> None:
    world = ModelStore(4)
    world.topic("t", (1, 2))
    ask(world, (4, 1))
    catch_up(world, 1, 2, 4)
    assert world.partition().replicas == (4, 1)
    assert world.state_of() == (1, 0, (1, 4))


def test_a_smaller_or_reordered_target_is_complete_at_once() -> None:
    world = ModelStore(3)
    world.topic("t", (1, 2, 3))
    assert ask(world, (3, 2, 1)) is ErrorCode.NONE
    assert world.partition().replicas == (3, 2, 1)
    assert not world.partition().reassigning
    assert ask(world, (2,)) is ErrorCode.NONE
    assert world.partition().replicas == (2,)
    assert world.state_of() == (2, 1, (2,))


def test_the_same_replicas_again_change_nothing() -> None:
    world = ModelStore(3)
    world.topic("t", (1, 2, 3))
    writes, results = reassign(world.image, "t", {0: (1, 2, 3)})
    assert writes == []
    assert results == {0: None}


def test_a_dead_target_replica_keeps_the_old_replicas() -> None:
    world = ModelStore(4)
    world.topic("t", (1, 2))
    ask(world, (1, 4))
    world.die(4)
    world.commit(complete_reassignments(world.image, world.image.topics["t"]))
    assert world.partition().reassigning
    assert world.state_of() == (1, 0, (1, 2))


def test_another_target_replaces_the_first() -> None:
    world = ModelStore(5)
    world.topic("t", (1, 2))
    ask(world, (3, 4))
    catch_up(world, 1, 2, 3)
    ask(world, (4, 5))
    partition = world.partition()
    assert partition.replicas == (4, 5, 1, 2)  # 3 was added only for the first target
    assert (partition.adding, partition.removing) == ((4, 5), (1, 2))
    assert world.state_of() == (1, 0, (1, 2))


def test_another_target_does_not_drop_the_only_in_sync_replica() -> None:
    world = ModelStore(4)
    world.topic("t", (1, 2))
    ask(world, (3, 4))
    world.state("t", 0, leader=3, isr=(3,))
    assert ask(world, (1, 4)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert ask(world, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert world.partition().target == (3, 4)


def test_cancelling_restores_the_original_replicas() -> None:
    world = ModelStore(4)
    world.topic("t", (1, 2))
    ask(world, (3, 4))
    world.state("t", 0, leader=3, isr=(3, 1))
    assert ask(world, None) is ErrorCode.NONE
    assert world.partition().replicas == (1, 2)
    assert world.state_of() == (1, 1, (1,))
    assert ask(world, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ((), "includes an empty replica list."),
        ((1, 9), "includes broker 9, but no such broker is registered."),
        ((1, 1), "includes the broker 1 more than once."),
    ],
)
def test_invalid_targets_are_refused(target: tuple[int, ...], words: str) -> None:
    world = ModelStore(2)
    world.topic("t", (1, 2))
    writes, results = reassign(world.image, "t", {0: target})
    assert writes == []
    error = results[0]
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert words in error.message


def test_the_replication_factor_is_kept_if_the_client_requires_it() -> None:
    world = ModelStore(3)
    world.topic("t", (1, 2))
    assert ask(world, (1, 2, 3), keep_factor=True) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert ask(world, (2, 3), keep_factor=True) is ErrorCode.NONE
    assert ask(world, (3,), keep_factor=True) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert ask(world, (3, 1), keep_factor=True) is ErrorCode.NONE


def test_each_partition_succeeds_or_fails_by_itself_in_one_write_of_the_topic() -> None:
    world = ModelStore(3)
    world.topic("t", (1, 2), (1, 2), (1, 2))
    writes, results = reassign(world.image, "t", {0: (2, 3), 1: (9,), 2: (3, 1), 7: (1,)})
    assert [write.key for write in writes] == [
        "/brokers/topics/t",
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/2/state",
    ]
    assert {index: error and error.code for index, error in results.items()} == {
        0: None,
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        2: None,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    _, results = reassign(world.image, "nobody", {0: (1,)})
    assert results[0] is not None
    assert results[0].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_with_a_stale_image_cannot_add_a_dropped_replica() -> None:
    """Broker 1 is not in sync when it is dropped: the state stays the same, but gets a version."""
    world = ModelStore(3)
    world.topic("t", (1, 2))
    world.state("t", 0, leader=2, isr=(2,))
    ask(world, (2, 3))
    before = world.partition().version
    catch_up(world, 2, 3)
    assert world.state_of() == (2, 0, (2, 3))
    assert world.partition().version == before + 2


def test_during_a_reassignment_old_and_new_replicas_may_lead() -> None:
    world = ModelStore(4)
    world.topic("t", (1, 2))
    ask(world, (3, 4))
    world.state("t", 0, leader=1, isr=(1, 3))
    world.die(1)
    world.commit(reconcile(world.image))
    assert world.state_of() == (3, 1, (3,))
