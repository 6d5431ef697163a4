"""Streams groups at random: members join, die, lose responses; the broker restarts, appends fail.

No task is ever active in two live members, and no process has a task twice. When all is quiet,
every task runs, and a shard loaded from the records is equal.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.group_type import TopicMetadata, TopicsImage
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.streams.config import StreamsGroupConfig, StreamsGroupConfigs
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.heartbeat import StreamsHeartbeat, streams_heartbeat
from ottla.coordinator.streams.member import StreamsGroupMember
from ottla.coordinator.streams.tasks import TaskRole
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

TASKS = {("0", index) for index in range(3)} | {("1", index) for index in range(4)}
TOPOLOGY = Topology(
    0, [Subtopology("0", ["t"]), Subtopology("1", ["u"], state_changelog_topics=[TopicInfo("c")])]
)
TOPICS = TopicsImage(
    {
        name: TopicMetadata(name.encode() * 16, count)
        for name, count in (("t", 3), ("u", 4), ("c", 4))
    }
)
SESSION_MS = 6_000
TopicPartitionKey = tuple[str, int]


@dataclass
class Thread:
    """One member as it sees itself; it revokes a task when it has to, and then reports that."""

    member_id: str
    process_id: str
    epoch: int = 0
    active: set[TopicPartitionKey] = field(default_factory=set)
    standby: set[TopicPartitionKey] = field(default_factory=set)
    heard_ms: int = 0

    def request(self) -> StreamsGroupHeartbeatRequest:
        request = StreamsGroupHeartbeatRequest("g", self.member_id, self.epoch, warmup_tasks=[])
        request.active_tasks, request.standby_tasks = ids(self.active), ids(self.standby)
        if self.epoch == 0:
            request.rebalance_timeout, request.topology = 60_000, TOPOLOGY
            request.process_id = self.process_id
        return request

    def hear(self, answer: StreamsGroupHeartbeatResponse, now_ms: int) -> None:
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.active, self.standby = 0, set(), set()
            return
        if code is not ErrorCode.NONE:
            assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE, answer.error_message
            return
        self.epoch, self.heard_ms = answer.member_epoch, now_ms
        if answer.active_tasks is not None:
            self.active = places(answer.active_tasks)
            self.standby = places(answer.standby_tasks or [])


def ids(tasks: set[TopicPartitionKey]) -> list[TaskIds]:
    return [TaskIds(name, [index]) for name, index in sorted(tasks)]


def places(tasks: list[TaskIds]) -> set[TopicPartitionKey]:
    return {(task.subtopology_id, index) for task in tasks for index in task.partitions}


class World:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now_ms = 1_000_000
        self.records: list[Record] = []
        self.threads: list[Thread] = []
        self.count = 0
        settings = StreamsGroupConfig(
            session_timeout_ms=SESSION_MS,
            num_standby_replicas=seed % 3,
            initial_rebalance_delay_ms=seed % 2 * 1_000,
        )
        self.config = replace(GroupCoordinatorConfig(), streams=StreamsGroupConfigs(settings))
        self.shard = self.loaded()

    def loaded(self) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(0, config=self.config, uuid=lambda: "")
        shard.topics = TOPICS
        shard.load(self.records)
        self.shard = shard
        self.carry_out(shard.loaded(self.now_ms), fails=False)
        return shard

    def carry_out(
        self, outcome: CoordinatorResult, *, fails: bool
    ) -> StreamsGroupHeartbeatResponse | None:
        replies = outcome.replies
        if outcome.records and fails:
            replies = self.shard.failed(outcome, ErrorCode.NOT_ENOUGH_REPLICAS, now_ms=self.now_ms)
        else:
            self.records += [Record(key=key, value=value) for key, value in outcome.records]
        for _, answer in replies:
            assert isinstance(answer, StreamsGroupHeartbeatResponse)
            return answer
        return None

    def beat(self, thread: Thread, *, loses: bool = False, fails: bool = False) -> None:
        event = self.shard.new_event(self.now_ms)
        beat = StreamsHeartbeat(thread.request(), "c", "/h", {})
        event.reply("token", streams_heartbeat(beat, event))
        answer = self.carry_out(event.result, fails=fails)
        assert answer is not None
        if not loses:
            thread.hear(answer, self.now_ms)

    def join(self) -> None:
        self.count += 1
        process = self.dice.choice(
            [f"p{self.count}", *(thread.process_id for thread in self.threads)]
        )
        self.threads.append(Thread(f"m{self.count}", process))

    def step(self) -> None:
        chance = self.dice.random()
        if chance < 0.12 and len(self.threads) < 5:
            self.join()
        elif chance < 0.17 and self.threads:
            self.threads.remove(self.dice.choice(self.threads))  # killed, without leaving
        elif chance < 0.20:
            self.loaded()
        elif self.threads:
            thread = self.dice.choice(self.threads)
            self.beat(thread, loses=self.dice.random() < 0.1, fails=self.dice.random() < 0.1)
        self.pass_time(self.dice.randrange(400))
        self.check()

    def pass_time(self, passed_ms: int) -> None:
        """A member that is silent for a session is fenced, by the coordinator and by itself."""
        self.now_ms += passed_ms
        for thread in self.threads:
            if self.now_ms - thread.heard_ms > SESSION_MS // 2:
                self.beat(thread)
        self.carry_out(self.shard.expire(self.now_ms), fails=False)

    def check(self) -> None:
        active = Counter(place for thread in self.threads for place in thread.active)
        assert not [place for place, count in active.items() if count > 1], self.threads
        in_process = Counter(
            (thread.process_id, place)
            for thread in self.threads
            for place in (*thread.active, *thread.standby)
        )
        assert not [place for place, count in in_process.items() if count > 1], self.threads

    def settle(self) -> None:
        for _ in range(60):
            self.pass_time(1_000)
            for thread in self.threads:
                self.beat(thread)
            self.check()


def stored(group: StreamsGroup) -> list[StreamsGroupMember]:
    """As in the records: without the epochs of tasks that commit nothing."""
    return [
        member._replace(
            assigned={
                task: epoch if task.role is TaskRole.ACTIVE else 0
                for task, epoch in member.assigned.items()
            }
        )
        for _, member in sorted(group.members.items())
    ]


@pytest.mark.parametrize("seed", range(60))
def test_tasks_have_one_owner(seed: int) -> None:
    world = World(seed)
    world.join()
    for _ in range(250):
        world.step()
    if not world.threads:
        world.join()
    world.settle()
    group = world.shard.groups["g"]
    assert isinstance(group, StreamsGroup)
    assert group.state_name == "Stable"
    assert set().union(*(thread.active for thread in world.threads)) == TASKS
    counts = [len(thread.active) for thread in world.threads]
    assert max(counts) - min(counts) <= len(world.threads)
    again = world.loaded().groups["g"]
    assert isinstance(again, StreamsGroup)
    assert (again.epoch, again.assignment_epoch) == (group.epoch, group.assignment_epoch)
    assert stored(again) == stored(group)
    assert again.target == group.target
    assert again.topology == group.topology
