"""Clients act at random, time passes, appends fail, brokers restart: the invariants."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ottla.coordinator.classic.group import ClassicGroup, ClassicGroupState, GroupCoordinatorConfig
from ottla.coordinator.classic.rebalance import join_key, session_key, sync_key
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.records import GroupMetadataKey, read_group_value, read_key
from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.fields import Message
from ottla.wire.messages.delete_groups import DeleteGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "g"
PARTITIONS = range(5)
CONFIG = GroupCoordinatorConfig(
    max_size=5, initial_rebalance_delay_ms=1_000, max_session_timeout_ms=20_000
)
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
ERRORS = st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])


class Client:
    """A consumer's memory, which may be outdated, like a real one's."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.leads: list[str] | None = None


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.uuids = itertools.count()
        self.tokens = itertools.count(1)
        self.waiting: dict[object, Client] = {}
        self.failure: ErrorCode | None = None
        self.lives = 0  # how often the group was deleted
        self.committed: dict[int, int] = {}
        self.asked: dict[object, dict[int, int]] = {}  # offsets of a commit by its token
        self.owners: dict[tuple[int, int, int], str] = {}  # life, generation, partition -> member
        self.generation = 0  # the last one seen in this life of the shard
        self.stored_generation = 0
        self.clients = [Client(name, f"i-{name}" if name in "de" else None) for name in "abcdefg"]
        self.clients[-1].instance = "i-e"  # g is e, restarted
        self.shard = self.new_shard()

    def new_shard(self) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(0, config=CONFIG, uuid=lambda: str(next(self.uuids)))
        shard.load(Record(key=key, value=value) for key, value in self.log)
        outcome = shard.loaded(self.now_ms)
        assert not outcome.records
        assert not outcome.replies
        return shard

    # -- events

    @initialize(names=st.sets(st.sampled_from("abcdef"), min_size=2))
    def gather(self, names: set[str]) -> None:
        """At random, a group would seldom form."""
        for client in self.clients:
            if client.name in names:
                self.join(self.clients.index(client), 3, ("range", "sticky"))
        for _ in range(3):  # the group waits longer while more members join
            self.time_passes(1_000)

    @rule()
    def regroup(self) -> None:
        """Every client that considers itself a member rejoins."""
        for who, client in enumerate(self.clients):
            if client.generation >= 0 and client not in self.waiting.values():
                self.join(who, 9, ("sticky", "range"))

    @rule()
    def leader_syncs(self) -> None:
        for who, client in enumerate(self.clients):
            if client.leads is not None:
                self.sync(who)

    @rule(who=st.integers(0, 6), version=st.sampled_from([0, 3, 4, 9]), protocols=PROTOCOLS)
    def join(self, who: int, version: int, protocols: tuple[str, ...]) -> None:
        client = self.clients[who]
        request = JoinGroupRequest(
            GROUP,
            10_000,
            15_000,
            client.member_id,
            client.instance,
            "consumer",
            [JoinGroupRequestProtocol(name, b"\0\0\0\0\0\1\0\1t") for name in protocols],
        )
        token = self.new_token(client)
        self.carry_out(
            self.shard.join_group(
                request,
                version=version,
                client_id=client.name,
                client_host="/::1",
                token=token,
                now_ms=self.now_ms,
            )
        )

    @rule(who=st.integers(0, 6))
    def sync(self, who: int) -> None:
        client = self.clients[who]
        assignments: dict[str, list[int]] = {member: [] for member in client.leads or []}
        for partition in PARTITIONS:
            if client.leads:
                assignments[client.leads[partition % len(client.leads)]].append(partition)
        request = SyncGroupRequest(
            GROUP,
            client.generation,
            client.member_id,
            client.instance,
            assignments=[
                SyncGroupRequestAssignment(member, bytes(partitions))
                for member, partitions in assignments.items()
            ],
        )
        token = self.new_token(client)
        self.carry_out(self.shard.sync_group(request, version=4, token=token, now_ms=self.now_ms))

    @rule(who=st.integers(0, 6))
    def heartbeat(self, who: int) -> None:
        client = self.clients[who]
        request = HeartbeatRequest(GROUP, client.generation, client.member_id, client.instance)
        token = self.new_token(client)
        self.carry_out(self.shard.heartbeat(request, token=token, now_ms=self.now_ms))

    @rule(who=st.integers(0, 6))
    def leave(self, who: int) -> None:
        client = self.clients[who]
        member = MemberIdentity(client.member_id, client.instance)
        token = self.new_token(client)
        request = LeaveGroupRequest(GROUP, members=[member])
        self.carry_out(self.shard.leave_group(request, version=3, token=token, now_ms=self.now_ms))

    @rule(who=st.integers(0, 6), partition=st.sampled_from(PARTITIONS), offset=st.integers(0, 1000))
    def commit(self, who: int, partition: int, offset: int) -> None:
        client = self.clients[who]
        topic = OffsetCommitRequestTopic(
            "t", partitions=[OffsetCommitRequestPartition(partition, offset)]
        )
        request = OffsetCommitRequest(
            GROUP,
            client.generation,
            client.member_id,
            group_instance_id=client.instance if client.member_id else None,
            topics=[topic],
        )
        token = self.new_token(client)
        self.asked[token] = {partition: offset}
        self.carry_out(
            self.shard.offset_commit(request, version=8, token=token, now_ms=self.now_ms)
        )

    @rule(passed_ms=st.sampled_from([0, 10, 999, 1_000, 4_000, 9_999, 16_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        for _ in range(100):
            due_ms = self.shard.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
            self.carry_out(self.shard.expire(self.now_ms))
        raise AssertionError("deadlines never end")

    @rule()
    def delete(self) -> None:
        token = self.new_token(self.clients[0])
        self.carry_out(self.shard.delete_groups([GROUP], token=token, now_ms=self.now_ms))

    @rule(who=st.integers(0, 6))
    def restart_client(self, who: int) -> None:
        self.clients[who].member_id = ""
        self.clients[who].generation = -1

    @rule(unloaded=st.booleans())
    def restart(self, unloaded: bool) -> None:
        if unloaded:
            self.answer(self.shard.unload())
        self.waiting.clear()  # otherwise: the connections broke with the broker
        self.shard = self.new_shard()
        self.generation = self.stored_generation

    @precondition(lambda self: self.failure is None)
    @rule(code=ERRORS)
    def append_fails_next(self, code: ErrorCode) -> None:
        self.failure = code

    # -- responses

    def new_token(self, client: Client) -> int:
        token = next(self.tokens)
        self.waiting[token] = client
        return token

    def carry_out(self, outcome: CoordinatorResult) -> None:
        replies = outcome.replies
        if outcome.records:
            if self.failure is not None:
                replies = self.shard.failed(outcome, self.failure, now_ms=self.now_ms)
                self.failure = None
            else:
                self.append(outcome.records)
        self.answer(replies)

    def append(self, records: list[tuple[bytes, bytes | None]]) -> None:
        self.log.extend(records)
        for key, value in records:
            if isinstance(read_key(key), GroupMetadataKey):
                self.stored_generation = 0 if value is None else read_group_value(value).generation
                if value is None:
                    self.lives += 1
                    self.generation = 0

    def answer(self, replies: list[tuple[object, Message]]) -> None:
        for token, message in replies:
            client = self.waiting.pop(token)  # a token answered twice is missing here
            match message:
                case JoinGroupResponse():
                    self.hear_join(client, message)
                case SyncGroupResponse(error_code=0):
                    self.hear_assignment(client, message.assignment)
                case OffsetCommitResponse():
                    if message.topics[0].partitions[0].error_code == 0:
                        self.committed |= self.asked[token]
                case DeleteGroupsResponse():
                    if message.results[0].error_code == 0:
                        self.committed.clear()

    def hear_join(self, client: Client, message: JoinGroupResponse) -> None:
        if message.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = message.member_id
        elif message.error_code == 0:
            client.member_id = message.member_id
            client.generation = message.generation_id
            leads = message.leader == message.member_id and not message.skip_assignment
            client.leads = [m.member_id for m in message.members] if leads else None
            if message.leader == message.member_id:
                assert message.member_id in {m.member_id for m in message.members}

    def hear_assignment(self, client: Client, assignment: bytes) -> None:
        """In one generation a partition has one owner; an instance counts as one member."""
        owner = client.instance or client.member_id
        for partition in assignment:
            key = (self.lives, client.generation, partition)
            assert self.owners.setdefault(key, owner) == owner

    # -- invariants

    @invariant()
    def every_request_waits_or_was_answered(self) -> None:
        held = set()
        for group in self.shard.groups.values():
            for member in group.members.values():
                held |= {member.join_token, member.sync_token}
        assert held - {None} == set(self.waiting)

    @invariant()
    def generations_only_go_up(self) -> None:
        group = self.shard.groups.get(GROUP)
        if group is not None:
            assert group.generation >= self.generation
            self.generation = group.generation

    @invariant()
    def offsets_are_what_was_committed(self) -> None:
        fetched = {
            partition.partition_index: partition.committed_offset
            for topic in self.shard.offset_fetch(GROUP, None)
            for partition in topic.partitions
        }
        assert fetched == self.committed

    @invariant()
    def the_group_is_sound(self) -> None:
        group = self.shard.groups.get(GROUP)
        if group is not None:
            check_group(group)
            checktimer(group, self.shard)

    def teardown(self) -> None:
        self.answer(self.shard.unload())
        assert not self.waiting


def check_group(group: ClassicGroup) -> None:
    members = group.members
    assert group.awaiting_join_count == sum(m.join_token is not None for m in members.values())
    assert (group.leader in members) if members else group.leader is None
    assert group.static_members == {
        m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id
    }
    assert all(member_id == member.member_id for member_id, member in members.items())
    assert not group.pending_join & set(members)
    assert group.pending_sync <= set(members)
    spoken: dict[str, int] = {}
    for member in members.values():
        for name, _ in member.protocols:
            spoken[name] = spoken.get(name, 0) + 1
    assert group.supported_protocols == spoken
    if group.state is ClassicGroupState.EMPTY:
        assert not members
    if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
        assert members
        assert group.awaiting_join_count == 0
    if group.state is not ClassicGroupState.COMPLETING_REBALANCE:
        assert all(member.sync_token is None for member in members.values())


def checktimer(group: ClassicGroup, shard: GroupCoordinatorShard) -> None:
    """No request waits forever: there is always a next deadline."""
    deadlines = shard.timer
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        assert join_key(group) in deadlines
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        assert group.pending_sync
        assert sync_key(group) in deadlines
    for member in group.members.values():
        if not member.alive:
            assert session_key(group, member.member_id) in deadlines
    for member_id in group.pending_join:
        assert session_key(group, member_id) in deadlines


@pytest.mark.parametrize("seed", range(12))
def test_long_random_walk(seed: int) -> None:
    """Hypothesis shrinks well but walks slowly; this walks further, and prints its seed."""
    random = Random(seed)
    machine = GroupMachine()
    for _ in range(2_500):
        walk(machine, random)
        machine.every_request_waits_or_was_answered()
        machine.generations_only_go_up()
        machine.offsets_are_what_was_committed()
        machine.the_group_is_sound()
    machine.teardown()


def walk(machine: GroupMachine, random: Random) -> None:
    who = random.randrange(len(machine.clients))
    protocols = random.choice([("range",), ("range", "sticky"), ("sticky", "range")])
    passed_ms = random.choice([0, 10, 500, 999, 1_000, 2_000, 4_000, 9_999])
    steps = {
        (lambda: machine.join(who, random.choice([0, 3, 4, 9]), protocols)): 8,
        (lambda: machine.sync(who)): 12,
        (lambda: machine.heartbeat(who)): 4,
        (lambda: machine.leave(who)): 3,
        (lambda: machine.commit(who, random.choice(PARTITIONS), random.randrange(1000))): 5,
        (lambda: machine.time_passes(passed_ms)): 8,
        machine.regroup: 6,
        machine.leader_syncs: 3,
        (lambda: machine.restart_client(who)): 2,
        (lambda: machine.restart(random.choice([True, False]))): 1,
        machine.delete: 1,
        (lambda: machine.append_fails_next(ErrorCode.NOT_ENOUGH_REPLICAS)): 1,
    }
    random.choices(list(steps), weights=list(steps.values()))[0]()


GroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestGroupMachine = GroupMachine.TestCase
