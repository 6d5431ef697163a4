"""A classic group: its state, its members, and the rules that hold between them.

    Empty ──first join──> PreparingRebalance ──all joined, or too late──> CompletingRebalance
      ^                     ^   │   ^                                       │            │
      └──nobody came────────┼───┘   └──somebody joined, left or failed──────┘       leader's sync
                            └──somebody joined, left or failed── Stable <────────────────┘

`rebalance.py` moves a group along these arrows; Dead is where a group goes that was deleted, or
whose partition has moved to another broker. This file knows no requests, replies or deadlines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.coordinator.consumer.config import ConsumerConfig
from ottla.coordinator.keys import GroupMetadata, write_group_key, write_group_value
from ottla.coordinator.kinds import Commit, Kind
from ottla.coordinator.member import Member, Protocols
from ottla.coordinator.outcome import RecordBytes, Token
from ottla.coordinator.streams.config import StreamsConfig
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.primitives import MalformedError

CONSUMER: Final = "consumer"  # the protocol type whose subscriptions the coordinator can read
_SUBSCRIPTION_PREFIX_SIZE: Final = 2  # the version of a subscription stands before it, as int16


class State(Enum):
    """The values are the words that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# From which states a group may come into a state.
_BEFORE: Final = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}


@dataclass(slots=True, frozen=True)
class GroupConfig:
    """What `server.properties` says about groups; the defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2_147_483_647
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer: ConsumerConfig = field(default_factory=ConsumerConfig)
    streams: StreamsConfig = field(default_factory=StreamsConfig)


class Group:
    """Members join only through `add` and leave only through `remove`: both keep the counts."""

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
        self.kind: Kind = "classic"
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.DEAD
        self.state_timestamp_ms = now_ms  # -1 where an old record did not say
        self.protocol_type: str | None = None  # None: only offsets, never a member
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group instance id -> member id
        self.pending_join: set[str] = set()  # ids given out by MEMBER_ID_REQUIRED, not yet used
        self.pending_sync: set[str] = set()  # members that owe a SyncGroup in this generation
        self.awaiting_join_count = 0
        self.supported_protocols: dict[str, int] = {}  # name -> how many members speak it
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self.new_member_added = False  # since the initial delay began
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0

    def __repr__(self) -> str:
        return (
            f"Group({self.group_id}, {self.state.value}, generation {self.generation}, "
            f"{len(self.members)} members)"
        )

    @classmethod
    def loaded(cls, group_id: str, stored: GroupMetadata) -> Group:
        group = cls(group_id, stored.state_timestamp_ms)
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol
        group.generation = stored.generation
        for member in stored.members:
            group.add(Member.loaded(member, stored.protocol or ""), group.protocol_type or "")
        if stored.leader in group.members:
            group.leader = stored.leader
        if group.members:
            group.state = State.STABLE
        group.subscribed_topics = group.find_subscribed_topics()
        return group

    # -- members

    def add(self, member: Member, protocol_type: str) -> None:
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

    def remove(self, member_id: str) -> Member | None:
        """Take a member, or an id that nobody used yet, out of the group.

        Requests of the member that wait have to be answered before.
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

    def rename(self, member: Member, member_id: str) -> None:
        """A static member's place goes to another member id: its process was started anew."""
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        member.member_id = member_id
        self.members[member_id] = member
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = member_id

    def update(
        self,
        member: Member,
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

    def await_join(self, member: Member, token: Token) -> None:
        assert member.join_token is None
        member.join_token = token
        self.awaiting_join_count += 1

    def take_join_token(self, member: Member) -> Token | None:
        """The JoinGroup of this member that waits, which the caller then has to answer."""
        token, member.join_token = member.join_token, None
        if token is not None:
            self.awaiting_join_count -= 1
        return token

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether a request may speak for this member (KIP-345: an instance has one member)."""
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
        return self.state is State.EMPTY

    @property
    def all_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The group waits as long as its slowest member may take."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody who speaks these could be a member."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        count = len(self.members)
        return any(self.supported_protocols.get(name, 0) == count for name, _ in protocols)

    def select_protocol(self) -> str:
        """Of what all members speak, what most of them like best."""
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

    def transition(self, state: State, now_ms: int) -> None:
        assert self.state in _BEFORE[state], f"{self} cannot become {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def elect_leader(self) -> bool:
        """A leader that did not come back gives way to somebody who did; False: nobody did."""
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
        self.transition(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)

    def find_subscribed_topics(self) -> frozenset[str] | None:
        """Which topics the members consume, if they are consumers and the coordinator can tell.

        Every version of a subscription begins as version 0 does, so that is what is read.
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

    def check_commit(self, commit: Commit) -> ErrorCode:
        """Whether this member may commit now. Without a generation, only into an empty group.

        A transaction's commit need not say who its member is (KIP-447 lets it).
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
        if self.state is State.COMPLETING_REBALANCE and not commit.transactional:
            # The member does not know its assignment yet, so it cannot know what to commit.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Anybody may ask for what a classic group has committed."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        """Only consumers say which topics they read; other groups have to be empty."""
        if self.is_empty or self.protocol_type == CONSUMER:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time runs from when the group became empty, or from the commit where there is no such
        moment: a group that only commits, or a topic that its consumers have left.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is State.EMPTY:
            return self.state_timestamp_ms if self.state_timestamp_ms >= 0 else commit_timestamp_ms
        consumes = self.protocol_type == CONSUMER and self.subscribed_topics is not None
        return commit_timestamp_ms if consumes and self.state is State.STABLE else None

    # -- records

    def record(self) -> RecordBytes:
        """This generation, for the group's next coordinator."""
        assert self.protocol_name is not None or not self.members
        protocol = self.protocol_name or ""
        value = GroupMetadata(
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
        """That there is such a group, written when its first member asks to join."""
        value = GroupMetadata("", 0, None, None, self.state_timestamp_ms, [])
        return write_group_key(self.group_id), write_group_value(value)
