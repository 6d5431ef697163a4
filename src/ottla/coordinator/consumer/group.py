"""A consumer group (KIP-848): its members, its epochs, its target assignment, and the owners.

    Empty        it has no members
    Assigning    its epoch is ahead of the target's: a new target has to be computed
    Reconciling  some members have not reached the target
    Stable       all members have reached it

Every change goes through one of the methods under "changes": it adds its record to the event, and
how to undo the change if that record cannot be stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.member import (
    NO_EPOCH,
    NO_PARTITIONS,
    ConsumerGroupMember,
    MemberState,
    PartitionSet,
    TopicIdPartition,
)
from ottla.coordinator.consumer.records import ResolvedRegularExpression, write_key
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import (
    CONSUMER,
    NO_TOPICS_IMAGE,
    GroupType,
    OffsetCommit,
    TopicsImage,
)
from ottla.coordinator.result import RecordBytes
from ottla.errors import ErrorCode

SESSION: Final = "session"  # a member sent no heartbeat
REBALANCE: Final = "rebalance"  # a member took too long to revoke partitions
JOIN_MEMBER: Final = "member-join"  # a classic member was asked to rejoin, and has not
SYNC_MEMBER: Final = "member-sync"  # a classic member has joined, but not asked for its assignment
_TIMERS: Final = (SESSION, REBALANCE, JOIN_MEMBER, SYNC_MEMBER)

_MODERN_COMMIT_FROM: Final = 9  # the version of OffsetCommit that knows member epochs


class ConsumerGroup:
    """`owners` maps partitions to members: a partition never has more than one owner."""

    __slots__ = (
        "_assignors",
        "_names",
        "_regex_counts",
        "assigned",
        "classic_count",
        "epoch",
        "group_id",
        "is_assigning",
        "kind",
        "members",
        "metadata_hash",
        "owners",
        "protocol_type",
        "regexes",
        "seen",
        "static_members",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.kind: GroupType = "consumer"
        self.group_id = group_id
        self.protocol_type: str | None = CONSUMER
        # Ahead of the target epoch from the start: a group without topics gets a target, too.
        self.epoch = 1
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.is_assigning = False  # a target is being computed off the event loop
        self.assigned: tuple[int, dict[str, PartitionSet]] | None = None  # of which epoch, and what
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}  # group instance id -> member id
        self.targets: dict[str, PartitionSet] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.regexes: dict[str, ResolvedRegularExpression] = {}
        self.classic_count = 0  # members with the classic protocol
        # The image from which `metadata_hash` was computed; None: compute it again.
        self.seen: TopicsImage | None = NO_TOPICS_IMAGE
        self._names: dict[str, int] = {}  # how many members subscribe to a topic by name
        self._regex_counts: dict[str, int] = {}
        self._assignors: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id}, epoch {self.epoch}, {len(self.members)} members)"

    # -- queries

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(member.is_reconciled(self.target_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    @property
    def preferred_assignor(self) -> str | None:
        """The assignor that most members name."""
        return max(self._assignors, key=self._assignors.__getitem__, default=None)

    def subscribed_names(self) -> set[str]:
        names = set(self._names)
        for regex in self._regex_counts:
            if regex in self.regexes:
                names |= self.regexes[regex].topics
        return names

    def subscribes(self, topic: str) -> bool:
        if topic in self._names:
            return True
        return any(topic in resolved.topics for resolved in self.regexes.values())

    def topic_ids(self, member: ConsumerGroupMember, topics: TopicsImage) -> frozenset[bytes]:
        """The existing topics that this member subscribes to."""
        names = member.topics
        if member.regex and member.regex in self.regexes:
            names = names | self.regexes[member.regex].topics
        known = topics.by_name
        return frozenset(known[name].id for name in names if name in known)

    def target_of(self, member_id: str) -> PartitionSet:
        return self.targets.get(member_id, NO_PARTITIONS)

    def is_free_for(self, member: ConsumerGroupMember, partition: TopicIdPartition) -> bool:
        return self.owners.get(partition, member.member_id) == member.member_id

    def waits_for_others(self, member: ConsumerGroupMember) -> bool:
        """True if another member still owns a partition of its target."""
        target = self.target_of(member.member_id)
        return any(not self.is_free_for(member, partition) for partition in target)

    def unused_regexes(self) -> list[str]:
        return [regex for regex in self.regexes if regex not in self._regex_counts]

    # -- validation

    def check_commit(self, commit: OffsetCommit) -> ErrorCode:
        """A member may commit with its epoch, or with any since it got the partition (KIP-1251)."""
        if commit.epoch < 0 and not self.members:
            return ErrorCode.NONE
        anonymous = not commit.member_id and commit.group_instance_id is None
        if commit.transactional and commit.epoch == NO_EPOCH and anonymous:
            return ErrorCode.NONE
        member = self.members.get(commit.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        modern = member.classic is None
        if modern and not commit.transactional and commit.version < _MODERN_COMMIT_FROM:
            return ErrorCode.UNSUPPORTED_VERSION
        if commit.epoch == member.member_epoch:
            return ErrorCode.NONE
        stale = ErrorCode.STALE_MEMBER_EPOCH if modern else ErrorCode.ILLEGAL_GENERATION
        if commit.epoch > member.member_epoch:
            return stale
        known = commit.topics.by_name
        for name, index in commit.partitions():
            topic = known.get(name)
            since = None if topic is None else member.assignment_epoch((topic.id, index))
            if since is None or commit.epoch < since:
                return stale
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.member_epoch == member_epoch:
            return ErrorCode.NONE
        if member.classic is not None:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    # -- changes

    def put_member(self, member: ConsumerGroupMember, event: GroupEvent) -> None:
        """A new member, or one whose metadata has changed."""
        event.record(*records.member_record(self.group_id, member))
        self._swap_undoably(member.member_id, member, event)

    def put_current(self, member: ConsumerGroupMember, event: GroupEvent) -> None:
        """A member whose current assignment has changed."""
        event.record(*records.current_record(self.group_id, member))
        self._swap_undoably(member.member_id, member, event)

    def remove_member(self, member: ConsumerGroupMember, event: GroupEvent) -> None:
        member_id = member.member_id
        for type_ in (records.CURRENT, records.TARGET_MEMBER, records.MEMBER):
            event.record(write_key(type_, self.group_id, member_id), None)
        target = self.targets.pop(member_id, None)
        if target is not None:
            event.undo(lambda undo, code: self.targets.__setitem__(member_id, target))
        self._swap_undoably(member_id, None, event)
        self.cancel_timers(member_id, event)

    def bump_epoch(self, metadata_hash: int, event: GroupEvent) -> None:
        before = self.epoch, self.metadata_hash
        self._set_epoch(self.epoch + 1, metadata_hash)
        event.record(*records.metadata_record(self.group_id, self.epoch, metadata_hash))
        event.undo(lambda undo, code: self._unbump(*before))

    def set_targets(self, targets: Mapping[str, PartitionSet], event: GroupEvent) -> None:
        """A new target; a record for each member whose target has changed."""
        before = self.targets, self.target_epoch, self.target_timestamp_ms
        for member_id, target in targets.items():
            old = self.targets.get(member_id)
            if old is not target and old != target:
                event.record(*records.target_member_record(self.group_id, member_id, target))
        event.record(*records.target_record(self.group_id, self.epoch, event.now_ms))
        self._set_targets(dict(targets), self.epoch, event.now_ms)
        event.undo(lambda undo, code: self._set_targets(*before))

    def put_target(self, member_id: str, target: PartitionSet, event: GroupEvent) -> None:
        """The target of a member that replaces another."""
        event.record(*records.target_member_record(self.group_id, member_id, target))
        self.targets[member_id] = target
        event.undo(lambda undo, code: self.targets.__delitem__(member_id))

    def put_regex(self, regex: str, resolved: ResolvedRegularExpression, event: GroupEvent) -> None:
        event.record(*records.regex_record(self.group_id, regex, resolved))
        self._swap_regex(regex, resolved, event)

    def remove_regex(self, regex: str, event: GroupEvent) -> None:
        event.record(write_key(records.REGEX, self.group_id, regex), None)
        self._swap_regex(regex, None, event)

    def _unbump(self, epoch: int, metadata_hash: int) -> None:
        self._set_epoch(epoch, metadata_hash)
        self.seen = None  # the change that raised it has to be noticed once more

    def _set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def _set_targets(self, targets: dict[str, PartitionSet], epoch: int, timestamp_ms: int) -> None:
        self.targets = targets
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def _swap_regex(
        self, regex: str, resolved: ResolvedRegularExpression | None, event: GroupEvent
    ) -> None:
        before = self.regexes.get(regex)
        self._set_regex(regex, resolved)
        event.undo(lambda undo, code: self._set_regex(regex, before))

    def _set_regex(self, regex: str, resolved: ResolvedRegularExpression | None) -> None:
        self.seen = None
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved

    def _swap_undoably(
        self, member_id: str, member: ConsumerGroupMember | None, event: GroupEvent
    ) -> None:
        before = self.members.get(member_id)
        self.swap(member_id, member)
        event.undo(lambda undo, code: self._put_back(member_id, before, undo))

    def _put_back(
        self, member_id: str, before: ConsumerGroupMember | None, event: GroupEvent
    ) -> None:
        self.swap(member_id, before)
        if before is not None:
            self.prolong(before, event)
            if before.state is MemberState.UNREVOKED_PARTITIONS and before.classic is None:
                self.set_timer(REBALANCE, before, before.rebalance_timeout_ms, event)

    def swap(self, member_id: str, after: ConsumerGroupMember | None) -> None:
        """Replace a member, or remove it, and keep the owners and all counts up to date."""
        before = self.members.get(member_id)
        if before is not None:
            self._uncount(before, after)
        if after is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = after
        self._count_in(before, after)

    def _uncount(self, before: ConsumerGroupMember, after: ConsumerGroupMember | None) -> None:
        if after is None or after.assigned is not before.assigned:
            self._disown(before, before.assigned)
        if after is None or after.revoking is not before.revoking:
            self._disown(before, before.revoking)
        if after is None or not _has_same_counts(before, after):
            self._count(before, -1)

    def _count_in(self, before: ConsumerGroupMember | None, after: ConsumerGroupMember) -> None:
        for partition in after.assigned:
            self.owners.setdefault(partition, after.member_id)
        for partition in after.revoking:
            self.owners.setdefault(partition, after.member_id)
        if before is None or not _has_same_counts(before, after):
            self._count(after, 1)

    def _disown(
        self, member: ConsumerGroupMember, partitions: Mapping[TopicIdPartition, int]
    ) -> None:
        for partition in partitions:
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def _count(self, member: ConsumerGroupMember, change: int) -> None:
        for name in member.topics:
            self._count_one(self._names, name, change)
        if member.regex:
            self._count_one(self._regex_counts, member.regex, change)
        if member.assignor is not None:
            self._count_one(self._assignors, member.assignor, change)
        if member.classic is not None:
            self.classic_count += change
        instance_id = member.instance_id
        if instance_id is not None:
            if change > 0:
                self.static_members[instance_id] = member.member_id
            elif self.static_members.get(instance_id) == member.member_id:
                del self.static_members[instance_id]

    def _count_one(self, counts: dict[str, int], name: str, change: int) -> None:
        count = counts.get(name, 0) + change
        if count == 0 or count == change:
            self.seen = None  # the first subscription, or the last one gone
        if count:
            counts[name] = count
        else:
            del counts[name]

    # -- life cycle

    def tombstones(self) -> Iterator[RecordBytes]:
        """In Kafka's order: current and target assignments, members, then the group."""
        for type_ in (records.CURRENT, records.TARGET_MEMBER):
            for member_id in self.members:
                yield write_key(type_, self.group_id, member_id), None
        yield write_key(records.TARGET, self.group_id), None
        for member_id in self.members:
            yield write_key(records.MEMBER, self.group_id, member_id), None
        for regex in self.regexes:
            yield write_key(records.REGEX, self.group_id, regex), None
        yield write_key(records.METADATA, self.group_id), None

    def start(self, event: GroupEvent) -> None:
        """Start the sessions, and the timers of members that have to revoke partitions."""
        self.seen = None
        for member in self.members.values():
            self.prolong(member, event)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.set_timer(REBALANCE, member, member.rebalance_timeout_ms, event)

    def stop(self, event: GroupEvent, code: ErrorCode) -> None:
        """No request ever waits in a consumer group."""
        for member_id in self.members:
            self.cancel_timers(member_id, event)

    def expire(self, kind: str, member_id: str, event: GroupEvent) -> None:
        """The shard calls `fence.expire` instead, which may convert this group."""
        raise AssertionError(f"{kind} of {member_id}")

    # -- deadlines

    def prolong(self, member: ConsumerGroupMember, event: GroupEvent) -> None:
        if member.classic is None:
            timeout_ms = event.config.consumer.of_group(self.group_id).session_timeout_ms
        else:
            timeout_ms = member.classic.session_timeout_ms
        event.timer.schedule((SESSION, self.group_id, member.member_id), event.now_ms + timeout_ms)

    def set_timer(
        self, kind: str, member: ConsumerGroupMember, after_ms: int, event: GroupEvent
    ) -> None:
        event.timer.schedule((kind, self.group_id, member.member_id), event.now_ms + after_ms)

    def cancel_timer(self, kind: str, member_id: str, event: GroupEvent) -> None:
        event.timer.cancel((kind, self.group_id, member_id))

    def cancel_timers(self, member_id: str, event: GroupEvent) -> None:
        for name in _TIMERS:
            event.timer.cancel((name, self.group_id, member_id))


def _has_same_counts(before: ConsumerGroupMember, after: ConsumerGroupMember) -> bool:
    """True if nothing that is counted differs."""
    return (
        before.topics is after.topics
        and before.regex == after.regex
        and before.assignor == after.assignor
        and before.instance_id == after.instance_id
        and (before.classic is None) == (after.classic is None)
    )
