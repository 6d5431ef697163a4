"""Corner cases of consumer groups that transcripts cannot show: lost responses, clocks set back,
appends that fail during a migration, expressions of other brokers."""

from __future__ import annotations

import itertools

from ottla.coordinator.classic.group import ClassicGroup, GroupCoordinatorConfig
from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerGroupMember
from ottla.coordinator.consumer.records import ResolvedRegularExpression
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
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest

T = b"t" * 16


class GroupDriver:
    """A shard with the topic t of four partitions, and its last response."""

    def __init__(self) -> None:
        numbers = itertools.count(1)
        self.now_ms = 1_000_000
        self.shard = GroupCoordinatorShard(
            0,
            config=GroupCoordinatorConfig(initial_rebalance_delay_ms=0),
            uuid=lambda: str(next(numbers)),
        )
        self.topics(t=4)

    def topics(self, **counts: int) -> None:
        views = {name: TopicMetadata(name.encode() * 16, count) for name, count in counts.items()}
        self.shard.topics = TopicsImage(views)

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: list[int] | None = None,
        *,
        topics: list[str] | None = None,
        instance: str | None = None,
        works: bool = True,
    ) -> ConsumerGroupHeartbeatResponse:
        partitions = None if owned is None else [TopicPartitions(T, owned)] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            "g",
            member_id,
            epoch,
            instance,
            rebalance_timeout=60_000 if epoch == 0 else -1,
            subscribed_topic_names=(topics or ["t"]) if epoch == 0 else None,
            topic_partitions=[] if epoch == 0 else partitions,
        )
        outcome = self.shard.consumer_group_heartbeat(
            request, version=1, client_id="c", client_host="/::1", token="b", now_ms=self.now_ms
        )
        answer = self.carry_out(outcome, works=works)["b"]
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def heartbeat(self, member_id: str) -> ErrorCode:
        generation = self.group.members[member_id].member_epoch
        request = HeartbeatRequest("g", generation, member_id)
        outcome = self.shard.heartbeat(request, token="h", now_ms=self.now_ms)
        answer = self.carry_out(outcome)["h"]
        assert isinstance(answer, HeartbeatResponse)
        return ErrorCode(answer.error_code)

    def sync(self, member_id: str, generation: int) -> None:
        request = SyncGroupRequest("g", generation, member_id, None, "consumer", "range")
        self.carry_out(self.shard.sync_group(request, version=5, token="s", now_ms=self.now_ms))

    def join(
        self,
        member_id: str,
        *,
        names: tuple[str, ...] = ("cooperative-sticky",),
        instance: str | None = None,
        owned: tuple[int, ...] = (),
        generation: int = -1,
        subscription_version: int = 3,
        works: bool = True,
    ) -> dict[object, Message]:
        metadata = subscription(owned, generation, subscription_version)
        request = JoinGroupRequest(
            "g",
            10_000,
            60_000,
            member_id,
            instance,
            "consumer",
            [JoinGroupRequestProtocol(name, metadata) for name in names],
        )
        outcome = self.shard.join_group(
            request, version=9, client_id="c", client_host="/::1", token="j", now_ms=self.now_ms
        )
        return self.carry_out(outcome, works=works)

    def classic_member(self, **options: object) -> JoinGroupResponse:
        """Joins a new member, up to its first response."""
        asked = self.join("", **options)["j"]  # type: ignore[arg-type]
        assert isinstance(asked, JoinGroupResponse)
        answer = self.join(asked.member_id, **options).get("j", asked)  # type: ignore[arg-type]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def carry_out(self, outcome: CoordinatorResult, *, works: bool = True) -> dict[object, Message]:
        replies = outcome.replies
        if not works:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            replies = self.shard.failed(outcome, code, now_ms=self.now_ms)
        answers = dict(replies)
        assert len(answers) == len(replies), "answered twice"
        return answers

    @property
    def group(self) -> ConsumerGroup:
        found = self.shard.groups["g"]
        assert isinstance(found, ConsumerGroup)
        return found

    def owned(self, member_id: str) -> set[int]:
        return {index for _, index in self.group.members[member_id].assigned}


def subscription(owned: tuple[int, ...], generation: int, version: int) -> bytes:
    writer = Writer()
    writer.buffer += version.to_bytes(2, "big")
    topics = [OwnedTopic("t", list(owned))] if owned else []
    ConsumerProtocolSubscription(
        ["t"], b"", owned_partitions=topics, generation_id=generation
    ).write(writer, version)
    return bytes(writer.buffer)


def half_classic(play: GroupDriver) -> str:
    """Members m (KIP-848) and a classic one, whose id is returned, own two partitions each."""
    play.beat("m", 0)
    play.now_ms += 5_000
    member_id = play.classic_member().member_id
    play.beat("m", 2, [0, 1, 2, 3])
    assert play.beat("m", 2, sorted(play.owned("m"))).member_epoch == 3
    play.join(member_id, generation=3)
    assert len(play.owned(member_id)) == 2
    play.now_ms += 5_000
    return member_id


def two_more(play: GroupDriver) -> None:
    """Each member is to have one partition now."""
    play.beat("n1", 0)
    play.now_ms += 5_000
    play.beat("n2", 0)
    play.now_ms += 5_000


def check_that_nobody_gets(play: GroupDriver, held: set[int], by: str) -> None:
    for member_id in ("m", "n1", "n2"):
        member = play.group.members[member_id]
        play.beat(member_id, member.member_epoch, sorted(play.owned(member_id)))
        assert not play.owned(member_id) & held, f"{member_id} was given what {by} holds"


def test_an_old_cooperative_members_owned_partitions_are_trusted() -> None:
    """Before version 2 a subscription says what a member owns, but not since when (KIP-792)."""
    play = GroupDriver()
    member_id = half_classic(play)
    held = play.owned(member_id)
    two_more(play)
    play.join(member_id, owned=tuple(held), subscription_version=1)
    check_that_nobody_gets(play, held, member_id)


def test_a_cooperative_member_that_missed_an_answer_is_trusted_too() -> None:
    play = GroupDriver()
    member_id = half_classic(play)
    held = play.owned(member_id)
    play.topics(t=4, u=0)
    play.beat("idle", 0, topics=["u"])  # another epoch, in which nothing moves
    play.now_ms += 5_000
    lost = play.join(member_id, owned=tuple(held), generation=3)["j"]
    assert isinstance(lost, JoinGroupResponse)
    assert lost.generation_id > 3
    assert play.owned(member_id) == held
    two_more(play)
    play.join(member_id, owned=tuple(held), generation=3)
    check_that_nobody_gets(play, held, member_id)
    play.join(member_id, owned=tuple(play.owned(member_id)), generation=lost.generation_id)
    assert len(play.owned(member_id)) == 1


def test_a_join_that_makes_a_classic_group_is_answered_even_if_that_cannot_be_stored() -> None:
    """A static member of KIP-848 returns as a classic one, and no other member speaks KIP-848."""
    play = GroupDriver()
    play.beat("m", 0, instance="i")
    play.now_ms += 5_000
    play.classic_member()
    answer = play.join("", instance="i", works=False)["j"]
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert set(play.group.members) >= {"m"}


def test_a_downgrade_that_cannot_be_stored_leaves_deadlines_as_they_were() -> None:
    """Otherwise a member that revokes nothing could keep the others waiting forever."""
    play = GroupDriver()
    play.beat("m", 0)
    play.now_ms += 5_000
    member_id = play.classic_member().member_id
    play.beat("m", 2, [0, 1, 2, 3])
    assert play.group.members["m"].revoking
    leave = ConsumerGroupHeartbeatRequest("g", "m", -1)
    outcome = play.shard.consumer_group_heartbeat(
        leave, version=1, client_id="c", client_host="/::1", token="b", now_ms=play.now_ms
    )
    assert isinstance(play.shard.groups["g"], ClassicGroup)
    play.carry_out(outcome, works=False)
    for _ in range(30):  # it sends heartbeats, but never revokes
        play.now_ms += 5_000
        play.carry_out(play.shard.expire(play.now_ms))
        if isinstance(play.shard.groups["g"], ClassicGroup):
            return  # without m no member speaks KIP-848
        play.heartbeat(member_id)
        play.beat("m", 2, [0, 1, 2, 3])
    raise AssertionError("m was never fenced")


def test_a_classic_member_without_the_old_protocol_blocks_no_downgrade() -> None:
    """It joined while the group changes to another protocol, which all members speak."""
    play = GroupDriver()
    first = play.classic_member(names=("range", "roundrobin"))
    play.carry_out(play.shard.expire(play.now_ms))
    play.sync(first.member_id, 1)
    play.classic_member(names=("roundrobin",))
    answer = play.beat("m", 0)
    assert answer.error_code == 0
    assert len(play.group.members) == 3


def test_an_upgrade_of_an_empty_group_can_fail_too() -> None:
    """It waits for a member that got its id and disappeared."""
    play = GroupDriver()
    first = play.classic_member()
    play.carry_out(play.shard.expire(play.now_ms))
    play.join("")
    leave = LeaveGroupRequest("g", members=[MemberIdentity(first.member_id)])
    play.carry_out(play.shard.leave_group(leave, version=5, token="l", now_ms=play.now_ms))
    assert play.shard.groups["g"].state_name == "PreparingRebalance"
    assert play.beat("m", 0, works=False).error_code == ErrorCode.NOT_COORDINATOR
    play.carry_out(play.shard.expire(play.now_ms))
    assert play.shard.groups["g"].is_empty
    assert play.beat("m", 0).error_code == 0


def test_setting_the_clock_back_delays_no_member() -> None:
    play = GroupDriver()
    play.beat("m", 0)
    play.now_ms -= 3_600_000
    play.beat("n", 0)
    assert play.group.target_epoch == play.group.epoch


def test_a_member_that_changes_its_protocol_cancels_its_old_deadlines() -> None:
    play = GroupDriver()
    play.beat("m", 0)
    play.now_ms += 5_000
    member_id = play.classic_member().member_id
    assert play.beat(member_id, 0).error_code == 0
    for _ in range(20):
        play.now_ms += 5_000
        play.carry_out(play.shard.expire(play.now_ms))
        for id_ in ("m", member_id):
            member = play.group.members[id_]
            assert play.beat(id_, member.member_epoch, sorted(play.owned(id_))).error_code == 0


def test_an_unsupported_stored_expression_affects_no_other_member() -> None:
    play = GroupDriver()
    member = ConsumerGroupMember(
        "k", 5, 5, topics=frozenset(), regex=r"\bt", rebalance_timeout_ms=60_000
    )
    stored = [
        records.member_record("g", member),
        records.metadata_record("g", 5, 1),
        records.regex_record("g", member.regex, ResolvedRegularExpression(frozenset({"t"}), 0, 0)),
        records.target_record("g", 5, 0),
        records.current_record("g", member),
    ]
    play.shard.load([Record(key=key, value=value) for key, value in stored])
    play.shard.loaded(play.now_ms)
    assert play.beat("m", 0).error_code == 0
    assert play.beat("k", 5, []).error_code == 0
    assert play.owned("k") | play.owned("m") == {0, 1, 2, 3}
