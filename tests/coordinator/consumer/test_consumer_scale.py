"""A thousand members, of either protocol: bounds far above what it takes, so never flaky."""

from __future__ import annotations

import itertools
import time

import pytest

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.consumer import subscription
from ottla.coordinator.consumer.config import ConsumerGroupConfigs
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.group_type import TopicMetadata, TopicsImage
from ottla.coordinator.result import Work
from ottla.records.record import Record
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SIZE = 1_000
TOPIC = b"t" * 16


class Members:
    """Consumers, each with its last response."""

    def __init__(self, partition_count: int) -> None:
        numbers = itertools.count(1)
        self.now_ms = 1_000_000
        self.shard = GroupCoordinatorShard(
            0, config=GroupCoordinatorConfig(), uuid=lambda: str(next(numbers))
        )
        self.shard.loaded(0)
        self.shard.topics = TopicsImage({"t": TopicMetadata(TOPIC, partition_count)})
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[int]] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.work: list[Work] = []
        self.names = ["t"]

    def join(self, member_id: str, names: list[str]) -> None:
        self.names = names
        self.beat(member_id)

    def beat(self, member_id: str) -> None:
        joins = member_id not in self.epochs
        owned = self.owned.get(member_id, [])
        request = ConsumerGroupHeartbeatRequest(
            "g",
            member_id,
            self.epochs.get(member_id, 0),
            rebalance_timeout=60_000 if joins else -1,
            subscribed_topic_names=self.names if joins else None,
            topic_partitions=[TopicPartitions(TOPIC, owned)] if owned else [],
        )
        outcome = self.shard.consumer_group_heartbeat(
            request, version=1, client_id="c", client_host="/::1", token=0, now_ms=self.now_ms
        )
        self.log += outcome.records
        self.work += outcome.work
        response = outcome.replies[0][1]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        assert response.error_code == 0, response
        self.epochs[member_id] = response.member_epoch
        if response.assignment is not None:
            self.owned[member_id] = [
                index
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            ]

    def converge(self) -> int:
        """The number of heartbeat rounds, five seconds apart, until the group has converged."""
        group = self.shard.groups["g"]
        for rounds in range(20):
            if group.state_name == "Stable":
                return rounds
            self.now_ms += 5_000
            for member_id in list(self.epochs):
                self.beat(member_id)
        raise AssertionError("no end")


def test_a_thousand_consumers_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = count_calls(monkeypatch, "uniform")
    members = Members(3 * SIZE)
    began = time.thread_time()
    for number in range(SIZE):
        members.beat(f"m{number}")
    rounds = members.converge()
    joined_s = time.thread_time() - began
    assert rounds <= 4
    assert len(computed) == 2  # of the first member alone, and of all of them
    sizes = {len(owned) for owned in members.owned.values()}
    assert sizes == {3}
    assert joined_s < 20

    before = len(members.log)
    began = time.thread_time()
    for member_id in list(members.epochs):
        members.beat(member_id)
    stable_s = time.thread_time() - began
    assert len(members.log) == before
    assert stable_s < 5  # it takes a few microseconds for each

    members.now_ms += 5_000
    members.beat("late")
    assert members.converge() <= 4
    assert len(computed) == 3  # once for the new member, not once for each heartbeat


def test_a_large_assignment_is_computed_off_the_loop() -> None:
    """A thousand members with a thousand subscriptions took 1.4 s at one heartbeat."""
    members = Members(1)
    members.shard.config = GroupCoordinatorConfig(
        consumer=ConsumerGroupConfigs(assigns_elsewhere=True)
    )
    views = {f"t{number}": TopicMetadata(number.to_bytes(16), 1) for number in range(400)}
    members.shard.topics = TopicsImage(views)
    names = list(views)
    for number in range(200):  # each leaves out another topic, the most expensive case
        members.join(f"m{number}", names[:number] + names[number + 1 :])
    assert members.work == []  # the target of the first member holds for the assignment interval
    members.now_ms += 5_000
    began = time.thread_time()
    members.beat("m0")
    held_s = time.thread_time() - began
    (work,) = members.work
    for number in range(200):
        members.beat(f"m{number}")
    assert len(members.work) == 1, "it is under way"
    group = members.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.target_epoch < group.epoch
    compute, done = work
    began = time.thread_time()
    result = compute()
    assert held_s < (time.thread_time() - began) / 2
    done(result)
    members.beat("m1")
    assert group.target_epoch == group.epoch
    assert {len(target) for target in group.targets.values()} == {2}


def test_a_late_or_failed_assignment_is_computed_again() -> None:
    members = Members(1)
    members.shard.config = GroupCoordinatorConfig(
        consumer=ConsumerGroupConfigs(assigns_elsewhere=True)
    )
    names = ["t", *(f"no-{number}" for number in range(subscription.ASSIGNED_AT_ONCE_MAX))]
    members.join("m0", names)
    assert members.work == []  # the first target is there at once
    members.now_ms += 5_000
    members.join("m1", names)
    (first,) = members.work
    members.join("m2", names)  # the epoch goes up
    assert len(members.work) == 1, "one at a time"
    first[1](first[0]())
    members.now_ms += 5_000
    members.beat("m0")
    group = members.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.target_epoch < group.epoch
    assert len(members.work) == 2
    members.work[1][1](None)  # it has failed
    members.beat("m0")
    assert len(members.work) == 3
    members.work[2][1](members.work[2][0]())
    members.beat("m0")
    assert (group.target_epoch, len(members.work)) == (group.epoch, 3)


def count_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    calls: list[int] = []
    assign = subscription.ASSIGNORS[name]

    def counting(*arguments: object) -> object:
        calls.append(1)
        return assign(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(subscription, "ASSIGNORS", {**subscription.ASSIGNORS, name: counting})
    return calls


def test_a_thousand_classic_members_join_and_sync() -> None:
    numbers = itertools.count(1)
    config = GroupCoordinatorConfig(initial_rebalance_delay_ms=1)
    shard = GroupCoordinatorShard(0, config=config, uuid=lambda: str(next(numbers)))
    shard.loaded(0)
    began = time.thread_time()
    for number in range(SIZE):
        shard.join_group(
            JoinGroupRequest(
                "g", 10_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("r", b"")]
            ),
            version=3,
            client_id=f"c{number}",
            client_host="/::1",
            token=number,
            now_ms=0,
        )
    replies: list[JoinGroupResponse] = []
    for now_ms in range(1, 100):
        outcome = shard.expire(now_ms)
        replies += [m for _, m in outcome.replies if isinstance(m, JoinGroupResponse)]
        if replies:
            break
    assert len(replies) == SIZE
    ids = [reply.member_id for reply in replies]
    leader = replies[0].leader
    shared = [SyncGroupRequestAssignment(member_id, b"a") for member_id in ids]
    synced = 0
    for member_id in [other for other in ids if other != leader] + [leader]:
        request = SyncGroupRequest(
            "g", 1, member_id, assignments=shared if member_id == leader else []
        )
        synced += len(shard.sync_group(request, version=3, token=member_id, now_ms=200).replies)
    took_s = time.thread_time() - began
    assert synced == SIZE
    assert took_s < 20


def test_a_group_of_a_thousand_is_loaded_again() -> None:
    members = Members(SIZE)
    for number in range(SIZE):
        members.beat(f"m{number}")
    members.converge()
    again = GroupCoordinatorShard(0, config=GroupCoordinatorConfig(), uuid=str)
    again.load(Record(key=key, value=value) for key, value in members.log)
    again.loaded(members.now_ms)
    old, new = members.shard.groups["g"], again.groups["g"]
    assert isinstance(old, ConsumerGroup)
    assert isinstance(new, ConsumerGroup)
    assert new.members == old.members
    assert new.owners == old.owners
