"""A classic group: its state, its members, and its invariants.

    Empty ──first join──> PreparingRebalance ──all joined, or too late──> CompletingRebalance
      ^                     ^   │   ^                                       │            │
      └──no member joined───┼───┘   └──a member joined, left or failed──────┘       leader's sync
                            └──a member joined, left or failed── Stable <────────────────┘

`rebalance.py` moves a group along these arrows; it becomes Dead when it is deleted, or when its
partition moves to another broker. This file knows no requests, replies or timers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.coordinator.classic.member import ClassicGroupMember, Protocols
from ottla.coordinator.consumer.config import ConsumerGroupConfigs
from ottla.coordinator.group_type import GroupType, OffsetCommit
from ottla.coordinator.records import GroupMetadataValue, write_group_key, write_group_value
from ottla.coordinator.result import RecordBytes, Token
from ottla.coordinator.streams.config import StreamsGroupConfigs
from ottla.errors import ErrorCode
from ottla.wire.fields import MalformedError
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"  # the protocol type whose subscriptions the coordinator can read
_SUBSCRIPTION_PREFIX_SIZE: Final = 2  # the version of a subscription stands before it, as int16


class ClassicGroupState(Enum):
    """The values are what DescribeGroups and ListGroups return."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# The valid previous states of each state, as in Kafka.
_VALID_PREVIOUS_STATES: Final = {
    ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.PREPARING_REBALANCE: {
        ClassicGroupState.STABLE,
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.EMPTY,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.STABLE: {ClassicGroupState.COMPLETING_REBALANCE},
    ClassicGroupState.DEAD: set(ClassicGroupState),
}


@dataclass(slots=True, frozen=True)
class GroupCoordinatorConfig:
    """What `server.properties` says about groups; the defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2_147_483_647
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer: ConsumerGroupConfigs = field(default_factory=ConsumerGroupConfigs)
    streams: StreamsGroupConfigs = field(default_factory=StreamsGroupConfigs)


class ClassicGroup:
    """Members join only through `add` and leave only through `remove`, which keep the counts."""

    __slots__ = (
        "awaiting_join_count",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "kind",
        "leader",
        "members",
        "new_member_added",
        "pending_join",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supported_protocols",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.kind: GroupType = "classic"
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_timestamp_ms = now_ms  # -1 if an old record has none
        self.protocol_type: str | None = None  # None: only offsets, never a member
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}  # group instance id -> member id
        self.pending_join: set[str] = set()  # ids sent with MEMBER_ID_REQUIRED, not yet used
        self.pending_sync: set[str] = set()  # members without a SyncGroup in this generation
        self.awaiting_join_count = 0
        self.supported_protocols: dict[str, int] = {}  # name -> how many members support it
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self.new_member_added = False  # since the initial delay began
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id}, {self.state.value}, generation {self.generation}, "
            f"{len(self.members)} members)"
        )

    @classmethod
    def loaded(cls, group_id: str, stored: GroupMetadataValue) -> ClassicGroup:
        group = cls(group_id, stored.state_timestamp_ms)
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol
        group.generation = stored.generation
        for member in stored.members:
            group.add(
                ClassicGroupMember.loaded(member, stored.protocol or ""), group.protocol_type or ""
            )
        if stored.leader in group.members:
            group.leader = stored.leader
        if group.members:
            group.state = ClassicGroupState.STABLE
        group.subscribed_topics = group.find_subscribed_topics()
        return group

    # -- members

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        if member.join_token is not None:
            self.awaiting_join_count += 1
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Remove a member, or a member id that was not used yet.

        The caller has already replied to the waiting requests of the member.
        """
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        assert member.join_token is None
        assert member.sync_token is None
        self._count_protocols(member.protocols, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: ClassicGroupMember, member_id: str) -> None:
        """A static member gets another member id, because its process has restarted."""
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        member.member_id = member_id
        self.members[member_id] = member
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = member_id

    def update(
        self,
        member: ClassicGroupMember,
        *,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def add_join_token(self, member: ClassicGroupMember, token: Token) -> None:
        assert member.join_token is None
        member.join_token = token
        self.awaiting_join_count += 1

    def take_join_token(self, member: ClassicGroupMember) -> Token | None:
        """The token of the member's JoinGroup that waits; the caller has to reply to it."""
        token, member.join_token = member.join_token, None
        if token is not None:
            self.awaiting_join_count -= 1
        return token

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """NONE if the request comes from this member (KIP-345: an instance has one member)."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    @property
    def all_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members' timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a member with these protocols could join."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        count = len(self.members)
        return any(self.supported_protocols.get(name, 0) == count for name, _ in protocols)

    def select_protocol(self) -> str:
        """Of the protocols that all members support, the one that most of them prefer."""
        count = len(self.members)
        candidates = {name for name, number in self.supported_protocols.items() if number == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        counts = self.supported_protocols
        for name, _ in protocols:
            count = counts.get(name, 0) + change
            if count:
                counts[name] = count
            else:
                del counts[name]

    # -- generations

    def transition(self, state: ClassicGroupState, now_ms: int) -> None:
        assert self.state in _VALID_PREVIOUS_STATES[state], f"{self} cannot become {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def elect_leader(self) -> bool:
        """A leader that did not rejoin is replaced by a member that did; False if none did."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader = member.member_id
                return True
        return False

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.find_subscribed_topics()
        self.transition(
            ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY,
            now_ms,
        )

    def find_subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members subscribe to; None if they are not consumers, or unreadable.

        Every version of a subscription starts with the fields of version 0, so those are read.
        """
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            if self.protocol_name is None:
                return None
            try:
                subscription, _ = ConsumerProtocolSubscription.read(
                    member.metadata(self.protocol_name), _SUBSCRIPTION_PREFIX_SIZE, 0
                )
            except MalformedError:
                return None
            topics.update(subscription.topics)
        return frozenset(topics)

    def subscribes(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    # -- offsets

    def check_commit(self, commit: OffsetCommit) -> ErrorCode:
        """NONE if this member may commit now. Without a generation only an empty group accepts it.

        The commit of a transaction need not name its member (KIP-447).
        """
        anonymous = not commit.member_id and commit.group_instance_id is None
        if commit.epoch < 0 and (self.is_empty or (commit.transactional and anonymous)):
            return ErrorCode.NONE
        if commit.epoch < 0 and anonymous:
            return ErrorCode.UNKNOWN_MEMBER_ID
        code = self.check_member(commit.member_id, commit.group_instance_id)
        if code is not ErrorCode.NONE:
            return code
        if commit.epoch != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is ClassicGroupState.COMPLETING_REBALANCE and not commit.transactional:
            # The member has no assignment yet, so it cannot have consumed anything.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Every client may fetch the offsets of a classic group."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        """Only consumers declare their topics; other groups have to be empty."""
        if self.is_empty or self.protocol_type == CONSUMER:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """Retention begins when the group becomes empty; or with the commit, if the group never had
        members, or its members have unsubscribed from the topic.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is ClassicGroupState.EMPTY:
            return self.state_timestamp_ms if self.state_timestamp_ms >= 0 else commit_timestamp_ms
        consumes = self.protocol_type == CONSUMER and self.subscribed_topics is not None
        return commit_timestamp_ms if consumes and self.state is ClassicGroupState.STABLE else None

    # -- records

    def record(self) -> RecordBytes:
        """The record of this generation."""
        assert self.protocol_name is not None or not self.members
        protocol = self.protocol_name or ""
        value = GroupMetadataValue(
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.leader,
            self.state_timestamp_ms,
            [member.stored(protocol) for member in self.members.values()],
        )
        return write_group_key(self.group_id), write_group_value(value)

    def tombstones(self) -> list[RecordBytes]:
        return [(write_group_key(self.group_id), None)]

    def new_record(self) -> RecordBytes:
        """The record of a new group, written when its first member joins."""
        value = GroupMetadataValue("", 0, None, None, self.state_timestamp_ms, [])
        return write_group_key(self.group_id), write_group_value(value)
