"""Consumers of both protocols act at random, topics come and go, time passes, appends fail,
brokers restart: the invariants of a consumer group, and its convergence."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.coordinator.classic.group import ClassicGroup, GroupCoordinatorConfig
from ottla.coordinator.consumer.config import ConsumerGroupConfig, ConsumerGroupConfigs
from ottla.coordinator.consumer.consumer_protocol import read_assignment, write_assignment
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import MemberState, TopicIdPartition
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.group_type import TopicMetadata, TopicsImage
from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.fields import Message, Writer
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from ottla.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "g"
SESSION_MS = 45_000
REBALANCE_MS = 60_000
CONFIG = GroupCoordinatorConfig(
    initial_rebalance_delay_ms=100,
    consumer=ConsumerGroupConfigs(ConsumerGroupConfig(SESSION_MS, 5_000, 1_000), max_size=6),
)
ERRORS = st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])
NAMES = "abcdefg"


def subscription(
    topics: list[str], owned: set[TopicIdPartition], generation: int, known: TopicsImage
) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic_id, index in owned:
        if topic_id in known.names:
            by_topic.setdefault(known.names[topic_id], []).append(index)
    writer = Writer()
    writer.buffer += b"\0\2"
    ConsumerProtocolSubscription(
        topics,
        owned_partitions=[OwnedTopic(topic, indexes) for topic, indexes in by_topic.items()],
        generation_id=generation,
    ).write(writer, 2)
    return bytes(writer.buffer)


class Client:
    """A consumer that follows its protocol: it owns its assignment, and revokes what it loses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance = f"i-{name}" if name in "de" else None
        self.topics = ["t"]
        self.reset()

    def reset(self) -> None:
        self.member_id = ""
        self.epoch = 0
        self.classic = False
        self.assigned: set[TopicIdPartition] = set()
        self.owned: set[TopicIdPartition] = set()
        self.wants_join = True
        self.leads: list[str] | None = None
        self.heard_ms = -1  # the time of its last request

    def __repr__(self) -> str:
        return f"{self.name}({self.member_id}, {self.epoch}, {sorted(i for _, i in self.owned)})"


class ConsumerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.numbers = itertools.count(1)
        self.tokens = itertools.count()
        self.waiting: dict[object, Client] = {}
        self.failure: ErrorCode | None = None
        self.prefers_classic = False
        self.mixed = True
        self.clients = [Client(name) for name in NAMES]
        self.sizes = {"t": 4, "u": 3}
        self.ids = {name: bytes([n]) * 16 for n, name in enumerate(self.sizes, 1)}
        self.topics = TopicsImage()
        self.shard = self.new_shard()
        self.see_topics()

    def new_shard(self) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(0, config=CONFIG, uuid=lambda: f"u{next(self.numbers)}")
        shard.topics = self.topics
        shard.load(Record(key=key, value=value) for key, value in self.log)
        assert not shard.loaded(self.now_ms).records
        return shard

    def see_topics(self) -> None:
        self.topics = TopicsImage(
            {n: TopicMetadata(self.ids[n], size) for n, size in self.sizes.items()}
        )
        self.shard.topics = self.topics

    # -- consumers of the new protocol

    @rule(who=st.integers(0, 6))
    def beat(self, who: int) -> None:
        client = self.clients[who]
        if client.classic:
            return self.classic_step(who)
        if client.member_id and client.epoch:
            return self.go_on(who, full=False)
        if self.prefers_classic:
            return self.become_classic(who)
        return self.join(who)

    @rule()
    def change_taste(self) -> None:
        """Consumers started from now on use the other protocol."""
        self.prefers_classic = not self.prefers_classic

    @rule(who=st.integers(0, 6))
    def join(self, who: int) -> None:
        client = self.clients[who]
        if client.classic or client.epoch:
            return
        client.member_id = client.member_id or f"{client.name}{next(self.numbers)}"
        client.owned, client.assigned = set(), set()
        self.send(
            client,
            ConsumerGroupHeartbeatRequest(
                GROUP,
                client.member_id,
                0,
                client.instance,
                rebalance_timeout=REBALANCE_MS,
                subscribed_topic_names=client.topics,
                topic_partitions=[],
            ),
        )

    @rule(who=st.integers(0, 6), full=st.booleans())
    def go_on(self, who: int, full: bool) -> None:
        client = self.clients[who]
        if client.classic or not client.epoch:
            return
        client.owned &= client.assigned  # it has revoked what it may not own
        client.owned |= client.assigned
        owned = [
            TopicPartitions(topic_id, [i for t, i in client.owned if t == topic_id])
            for topic_id in {t for t, _ in client.owned}
        ]
        self.send(
            client,
            ConsumerGroupHeartbeatRequest(
                GROUP,
                client.member_id,
                client.epoch,
                client.instance,
                rebalance_timeout=REBALANCE_MS if full else -1,
                subscribed_topic_names=client.topics if full else None,
                topic_partitions=owned,
            ),
        )

    @rule(who=st.integers(0, 6))
    def stay_silent_about_partitions(self, who: int) -> None:
        client = self.clients[who]
        if not client.classic and client.epoch:
            self.send(
                client,
                ConsumerGroupHeartbeatRequest(
                    GROUP, client.member_id, client.epoch, client.instance
                ),
            )

    @rule(who=st.integers(0, 6), for_good=st.booleans())
    def leave(self, who: int, for_good: bool) -> None:
        client = self.clients[who]
        if client.classic:
            members = [MemberIdentity(client.member_id, client.instance)]
            client.owned = set()
            token = self.new_token(client)
            request = LeaveGroupRequest(GROUP, members=members)
            outcome = self.shard.leave_group(request, version=5, token=token, now_ms=self.now_ms)
            self.carry_out(outcome)
            client.reset()
        elif client.epoch:
            client.owned = set()
            epoch = -1 if for_good or client.instance is None else -2
            self.send(
                client,
                ConsumerGroupHeartbeatRequest(GROUP, client.member_id, epoch, client.instance),
            )
            client.reset()

    @rule(who=st.integers(0, 6), topics=st.sampled_from([["t"], ["u"], ["t", "u"], []]))
    def subscribe(self, who: int, topics: list[str]) -> None:
        self.clients[who].topics = topics
        self.go_on(who, full=True)

    def send(self, client: Client, request: ConsumerGroupHeartbeatRequest) -> None:
        outcome = self.shard.consumer_group_heartbeat(
            request,
            version=1,
            client_id=client.name,
            client_host="/::1",
            token=self.new_token(client),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)

    # -- consumers of the classic protocol

    @rule(who=st.integers(0, 6))
    def become_classic(self, who: int) -> None:
        client = self.clients[who]
        if not client.epoch and not client.classic and not self.waits(client):
            client.reset()
            client.classic = True
            self.classic_join(client)

    @rule(who=st.integers(0, 6))
    def classic_step(self, who: int) -> None:
        """Heartbeat, or join again if that was asked for."""
        client = self.clients[who]
        if not client.classic or self.waits(client):
            return
        if client.wants_join:
            self.classic_join(client)
            return
        request = HeartbeatRequest(GROUP, client.epoch, client.member_id, client.instance)
        token = self.new_token(client)
        self.carry_out(self.shard.heartbeat(request, token=token, now_ms=self.now_ms))

    def classic_join(self, client: Client) -> None:
        metadata = subscription(client.topics, client.owned, client.epoch, self.topics)
        request = JoinGroupRequest(
            GROUP,
            SESSION_MS,
            REBALANCE_MS,
            client.member_id,
            client.instance,
            "consumer",
            [JoinGroupRequestProtocol("cooperative-sticky", metadata)],
        )
        outcome = self.shard.join_group(
            request,
            version=9,
            client_id=client.name,
            client_host="/::1",
            token=self.new_token(client),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)

    def classic_sync(self, client: Client) -> None:
        assignments = []
        if client.leads:
            # A leader that assigns "t" regardless of ownership: eager.
            for n, member_id in enumerate(client.leads):
                mine = {
                    (self.ids["t"], i)
                    for i in range(self.sizes.get("t", 0))
                    if i % len(client.leads) == n
                }
                assignments.append(SyncGroupRequestAssignment(member_id, self.written(mine)))
        request = SyncGroupRequest(
            GROUP,
            client.epoch,
            client.member_id,
            client.instance,
            "consumer",
            "cooperative-sticky",
            assignments,
        )
        token = self.new_token(client)
        self.carry_out(self.shard.sync_group(request, version=5, token=token, now_ms=self.now_ms))

    def written(self, partitions: set[TopicIdPartition]) -> bytes:
        return write_assignment(partitions, self.topics, 2)

    # -- other events

    @rule(passed_ms=st.sampled_from([0, 10, 999, 1_000, 5_000, 20_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        for _ in range(200):
            due_ms = self.shard.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                break
            self.carry_out(self.shard.expire(self.now_ms))
        else:
            raise AssertionError("deadlines never end")
        for client in self.clients:
            # A consumer that was cut off for its session timeout stops by itself.
            if client.epoch and self.now_ms - client.heard_ms >= SESSION_MS - 1_000:
                client.reset()

    @rule(topic=st.sampled_from("tu"), more=st.integers(0, 3))
    def topics_change(self, topic: str, more: int) -> None:
        if more:
            self.sizes[topic] = min(self.sizes.get(topic, 0) + more, 9)
        elif topic in self.sizes:
            del self.sizes[topic]
            self.ids[topic] = next(self.numbers).to_bytes(16, "big")
        self.see_topics()

    @rule(unloaded=st.booleans())
    def restart(self, unloaded: bool) -> None:
        if unloaded:
            self.answer(self.shard.unload())
        for client in self.waiting.values():
            client.wants_join = True
        self.waiting.clear()
        self.shard = self.new_shard()

    @precondition(lambda self: self.failure is None)
    @rule(code=ERRORS)
    def append_fails_next(self, code: ErrorCode) -> None:
        self.failure = code

    # -- responses

    def new_token(self, client: Client) -> int:
        token = next(self.tokens)
        self.waiting[token] = client
        return token

    def waits(self, client: Client) -> bool:
        return client in self.waiting.values()

    def carry_out(self, outcome: CoordinatorResult) -> None:
        replies = outcome.replies
        if outcome.records:
            if self.failure is not None:
                replies = self.shard.failed(outcome, self.failure, now_ms=self.now_ms)
                self.failure = None
            else:
                self.log.extend(outcome.records)
        self.answer(replies)

    def answer(self, replies: list[tuple[object, Message]]) -> None:
        for token, message in replies:
            client = self.waiting.pop(token)
            match message:
                case ConsumerGroupHeartbeatResponse():
                    self.hear_beat(client, message)
                case JoinGroupResponse():
                    self.hear_join(client, message)
                case SyncGroupResponse():
                    self.hear_sync(client, message)
                case HeartbeatResponse():
                    self.hear_error(client, ErrorCode(message.error_code))

    def hear_beat(self, client: Client, message: ConsumerGroupHeartbeatResponse) -> None:
        if message.error_code:
            if message.error_code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.FENCED_INSTANCE_ID,
            ):
                client.reset()
            return
        if message.member_epoch < 0:
            return
        client.heard_ms = self.now_ms
        client.epoch = message.member_epoch
        if message.assignment is not None:
            client.assigned = {
                (t.topic_id, i) for t in message.assignment.topic_partitions for i in t.partitions
            }
            # It holds lost partitions until it reports otherwise, and owns new ones at once.
            client.owned |= client.assigned

    def hear_join(self, client: Client, message: JoinGroupResponse) -> None:
        code = ErrorCode(message.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = message.member_id
        elif code is ErrorCode.NONE:
            client.member_id = message.member_id
            client.epoch = message.generation_id
            client.heard_ms = self.now_ms
            client.wants_join = False
            leads = message.leader == message.member_id and not message.skip_assignment
            client.leads = [m.member_id for m in message.members] if leads else None
            if isinstance(self.shard.groups.get(GROUP), ClassicGroup):
                client.owned = set()  # an eager rebalance
            self.classic_sync(client)
        else:
            self.hear_error(client, code)

    def hear_sync(self, client: Client, message: SyncGroupResponse) -> None:
        if message.error_code:
            self.hear_error(client, ErrorCode(message.error_code))
            return
        assigned = set(read_assignment(message.assignment, self.topics))
        if client.owned - assigned:
            client.wants_join = True  # cooperative: revoke, and rejoin
        client.owned = assigned

    def hear_error(self, client: Client, code: ErrorCode) -> None:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            client.wants_join = True
        elif code is ErrorCode.NONE:
            client.heard_ms = self.now_ms
        elif code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            client.owned = set()
            client.wants_join = True
            client.epoch = -1
            if code is not ErrorCode.ILLEGAL_GENERATION:
                client.member_id = ""

    # -- invariants

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        owners: dict[TopicIdPartition, str] = {}
        for member in group.members.values():
            for partition in [*member.assigned, *member.revoking]:
                assert owners.setdefault(partition, member.member_id) == member.member_id
            assert not member.assigned.keys() & member.revoking.keys()
        assert group.owners == owners

    @invariant()
    def no_two_consumers_work_on_the_same(self) -> None:
        """As the consumers see it, while all of them speak the new protocol."""
        if any(client.classic for client in self.clients):
            return
        seen: set[TopicIdPartition] = set()
        for client in self.clients:
            if client.epoch:
                assert not client.owned & seen, self.clients
                seen |= client.owned

    @invariant()
    def the_group_is_sound(self) -> None:
        group = self.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        assert group.target_epoch <= group.epoch
        assert group.static_members == {
            m.instance_id: m.member_id for m in group.members.values() if m.instance_id
        }
        assert group.classic_count == sum(m.classic is not None for m in group.members.values())
        assert group.targets.keys() <= group.members.keys()
        targets = [partition for target in group.targets.values() for partition in target]
        assert len(targets) == len(set(targets))
        for member in group.members.values():
            assert ("session", GROUP, member.member_id) in self.shard.timer
            revoking = member.state is MemberState.UNREVOKED_PARTITIONS
            if revoking and member.classic is None and member.member_epoch >= 0:
                assert ("rebalance", GROUP, member.member_id) in self.shard.timer

    @invariant()
    def what_is_stored_is_what_holds(self) -> None:
        group = self.shard.groups.get(GROUP)
        again = self.new_shard().groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            assert not isinstance(again, ConsumerGroup)
            return
        assert isinstance(again, ConsumerGroup)
        assert again.members == group.members
        assert (again.epoch, again.target_epoch) == (group.epoch, group.target_epoch)
        assert {k: v for k, v in again.targets.items() if v} == {
            k: v for k, v in group.targets.items() if v
        }
        assert again.owners == group.owners
        assert again.subscribed_names() == group.subscribed_names()

    def teardown(self) -> None:
        self.converge()

    def converge(self) -> None:
        """Without changes, consumers of the new protocol converge and own all that they want."""
        self.failure = None
        self.prefers_classic = False
        for client in self.clients:
            if client.classic:
                self.leave(self.clients.index(client), True)
                client.reset()
        self.answer(self.shard.unload())
        self.waiting.clear()
        self.shard = self.new_shard()
        for _ in range(30):
            self.time_passes(5_000)
            for who in range(len(self.clients)):
                self.beat(who)
                self.no_partition_has_two_owners()
                self.no_two_consumers_work_on_the_same()
        group = self.shard.groups.get(GROUP)
        assert isinstance(group, ConsumerGroup)
        assert group.state_name == "Stable", group.members
        wanted = {
            (self.topics.by_name[name].id, index)
            for name in group.subscribed_names()
            if name in self.topics.by_name
            for index in range(self.topics.by_name[name].partition_count)
        }
        assert set(group.owners) == wanted


@pytest.mark.parametrize("seed", range(6))
def test_long_random_walk(seed: int) -> None:
    random = Random(seed)
    machine = ConsumerMachine()
    machine.mixed = machine.prefers_classic = seed % 2 == 1
    for step in range(600):
        walk(machine, random)
        machine.no_partition_has_two_owners()
        machine.no_two_consumers_work_on_the_same()
        machine.the_group_is_sound()
        if step % 4 == 0:
            machine.what_is_stored_is_what_holds()
        if random.random() < 0.01:
            machine.converge()
    machine.teardown()


def walk(machine: ConsumerMachine, random: Random) -> None:
    who = random.randrange(len(machine.clients))
    steps = {
        (lambda: machine.beat(who)): 20,
        (lambda: machine.go_on(who, random.choice([True, False]))): 5,
        (lambda: machine.stay_silent_about_partitions(who)): 2,
        (lambda: machine.leave(who, random.choice([True, False]))): 9 if machine.mixed else 3,
        (lambda: machine.subscribe(who, random.choice([["t"], ["u"], ["t", "u"], []]))): 2,
        machine.change_taste: 4 if machine.mixed else 0,
        (lambda: machine.time_passes(random.choice([0, 10, 999, 1_000, 5_000]))): 10,
        (lambda: machine.topics_change(random.choice("tu"), random.choice([0, 1, 1, 2]))): 1,
        (lambda: machine.restart(random.choice([True, False]))): 1,
        (lambda: machine.append_fails_next(ErrorCode.NOT_ENOUGH_REPLICAS)): 1,
    }
    random.choices(list(steps), weights=list(steps.values()))[0]()


ConsumerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestConsumerMachine = ConsumerMachine.TestCase
