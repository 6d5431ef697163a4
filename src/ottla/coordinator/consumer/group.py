"""A consumer group (KIP-848): its members, its epochs, the target, and who owns what right now.

    Empty        nobody is in it
    Assigning    its epoch is ahead of its target's: the target has to be computed anew
    Reconciling  members are on the way to the target
    Stable       all of them have arrived

Every change goes through one of the methods under "changes": it adds the record that says so to
the turn, and how to take the change back should that record not come to be stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.member import (
    NO_EPOCH,
    NOTHING,
    ConsumerMember,
    MemberState,
    Target,
    TopicPartition,
)
from ottla.coordinator.consumer.records import Resolved, write_key
from ottla.coordinator.kinds import CONSUMER, NO_TOPICS, Commit, Kind, Topics
from ottla.coordinator.outcome import RecordBytes, Turn
from ottla.errors import ErrorCode

SESSION: Final = "session"  # a member was silent for too long
REBALANCE: Final = "rebalance"  # a member took too long to give partitions up
JOIN_MEMBER: Final = "member-join"  # a classic member was asked to rejoin, and has not
SYNC_MEMBER: Final = "member-sync"  # a classic member has joined, but not asked for its assignment
_TIMERS: Final = (SESSION, REBALANCE, JOIN_MEMBER, SYNC_MEMBER)

_MODERN_COMMIT_FROM: Final = 9  # the version of OffsetCommit that knows member epochs


class ConsumerGroup:
    """`owners` is the heart of it: a partition has one owner, or none, at any time."""

    __slots__ = (
        "_assignors",
        "_names",
        "_regex_counts",
        "assigned",
        "assigning",
        "classic_count",
        "epoch",
        "group_id",
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
        self.kind: Kind = "consumer"
        self.group_id = group_id
        self.protocol_type: str | None = CONSUMER
        self.epoch = 1  # ahead of the target from the first: even of nothing there is a target
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.assigning = False  # a target is computed elsewhere
        self.assigned: tuple[int, dict[str, Target]] | None = None  # of which epoch, and what
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # group instance id -> member id
        self.targets: dict[str, Target] = {}
        self.owners: dict[TopicPartition, str] = {}
        self.regexes: dict[str, Resolved] = {}
        self.classic_count = 0  # members that speak the classic protocol
        self.seen: Topics | None = NO_TOPICS  # what the hash was computed of; None: compute it
        self._names: dict[str, int] = {}  # how many members name a topic
        self._regex_counts: dict[str, int] = {}
        self._assignors: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id}, epoch {self.epoch}, {len(self.members)} members)"

    # -- what it is

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
        """What most members that name one want."""
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

    def topic_ids(self, member: ConsumerMember, topics: Topics) -> frozenset[bytes]:
        """What this member is subscribed to, of what exists."""
        names = member.topics
        if member.regex and member.regex in self.regexes:
            names = names | self.regexes[member.regex].topics
        known = topics.by_name
        return frozenset(known[name].id for name in names if name in known)

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NOTHING)

    def is_free_for(self, member: ConsumerMember, partition: TopicPartition) -> bool:
        return self.owners.get(partition, member.member_id) == member.member_id

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether something of its target is still held by another member."""
        target = self.target_of(member.member_id)
        return any(not self.is_free_for(member, each) for each in target)

    def unused_regexes(self) -> list[str]:
        return [regex for regex in self.regexes if regex not in self._regex_counts]

    # -- who may commit, and ask

    def check_commit(self, commit: Commit) -> ErrorCode:
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

    def put_member(self, member: ConsumerMember, turn: Turn) -> None:
        """A member that is new, or that says something new about itself."""
        turn.record(*records.member_record(self.group_id, member))
        self._swap_undoably(member.member_id, member, turn)

    def put_current(self, member: ConsumerMember, turn: Turn) -> None:
        """What a member owns."""
        turn.record(*records.current_record(self.group_id, member))
        self._swap_undoably(member.member_id, member, turn)

    def remove_member(self, member: ConsumerMember, turn: Turn) -> None:
        member_id = member.member_id
        for each in (records.CURRENT, records.TARGET_MEMBER, records.MEMBER):
            turn.record(write_key(each, self.group_id, member_id), None)
        target = self.targets.pop(member_id, None)
        if target is not None:
            turn.undo(lambda undo, code: self.targets.__setitem__(member_id, target))
        self._swap_undoably(member_id, None, turn)
        self.cancel_timers(member_id, turn)

    def bump_epoch(self, metadata_hash: int, turn: Turn) -> None:
        before = self.epoch, self.metadata_hash
        self._set_epoch(self.epoch + 1, metadata_hash)
        turn.record(*records.metadata_record(self.group_id, self.epoch, metadata_hash))
        turn.undo(lambda undo, code: self._unbump(*before))

    def set_targets(self, targets: Mapping[str, Target], turn: Turn) -> None:
        """The target of this epoch, now; a record for each member whose part in it is another."""
        before = self.targets, self.target_epoch, self.target_timestamp_ms
        for member_id, target in targets.items():
            old = self.targets.get(member_id)
            if old is not target and old != target:
                turn.record(*records.target_member_record(self.group_id, member_id, target))
        turn.record(*records.target_record(self.group_id, self.epoch, turn.now_ms))
        self._set_targets(dict(targets), self.epoch, turn.now_ms)
        turn.undo(lambda undo, code: self._set_targets(*before))

    def put_target(self, member_id: str, target: Target, turn: Turn) -> None:
        """The target of a member which takes the place of another."""
        turn.record(*records.target_member_record(self.group_id, member_id, target))
        self.targets[member_id] = target
        turn.undo(lambda undo, code: self.targets.__delitem__(member_id))

    def put_regex(self, regex: str, resolved: Resolved, turn: Turn) -> None:
        turn.record(*records.regex_record(self.group_id, regex, resolved))
        self._swap_regex(regex, resolved, turn)

    def remove_regex(self, regex: str, turn: Turn) -> None:
        turn.record(write_key(records.REGEX, self.group_id, regex), None)
        self._swap_regex(regex, None, turn)

    def _unbump(self, epoch: int, metadata_hash: int) -> None:
        self._set_epoch(epoch, metadata_hash)
        self.seen = None  # what made it go up has to be found once more

    def _set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def _set_targets(self, targets: dict[str, Target], epoch: int, timestamp_ms: int) -> None:
        self.targets = targets
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def _swap_regex(self, regex: str, resolved: Resolved | None, turn: Turn) -> None:
        before = self.regexes.get(regex)
        self._set_regex(regex, resolved)
        turn.undo(lambda undo, code: self._set_regex(regex, before))

    def _set_regex(self, regex: str, resolved: Resolved | None) -> None:
        self.seen = None
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved

    def _swap_undoably(self, member_id: str, member: ConsumerMember | None, turn: Turn) -> None:
        before = self.members.get(member_id)
        self.swap(member_id, member)
        turn.undo(lambda undo, code: self._put_back(member_id, before, undo))

    def _put_back(self, member_id: str, before: ConsumerMember | None, turn: Turn) -> None:
        self.swap(member_id, before)
        if before is not None:
            self.prolong(before, turn)
            if before.state is MemberState.UNREVOKED_PARTITIONS and before.classic is None:
                self.set_timer(REBALANCE, before, before.rebalance_timeout_ms, turn)

    def swap(self, member_id: str, after: ConsumerMember | None) -> None:
        """Put a member in the place of its former self, and keep everything that is counted."""
        before = self.members.get(member_id)
        if before is not None:
            self._forget(before, after)
        if after is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = after
        self._learn(before, after)

    def _forget(self, before: ConsumerMember, after: ConsumerMember | None) -> None:
        if after is None or after.assigned is not before.assigned:
            self._disown(before, before.assigned)
        if after is None or after.revoking is not before.revoking:
            self._disown(before, before.revoking)
        if after is None or not _says_the_same(before, after):
            self._count(before, -1)

    def _learn(self, before: ConsumerMember | None, after: ConsumerMember) -> None:
        for each in after.assigned:
            self.owners.setdefault(each, after.member_id)
        for each in after.revoking:
            self.owners.setdefault(each, after.member_id)
        if before is None or not _says_the_same(before, after):
            self._count(after, 1)

    def _disown(self, member: ConsumerMember, partitions: Mapping[TopicPartition, int]) -> None:
        for each in partitions:
            if self.owners.get(each) == member.member_id:
                del self.owners[each]

    def _count(self, member: ConsumerMember, change: int) -> None:
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
            self.seen = None  # subscribed for the first time, or no more
        if count:
            counts[name] = count
        else:
            del counts[name]

    # -- its life in the shard

    def tombstones(self) -> Iterator[RecordBytes]:
        """In Kafka's order: what members own and are to own, who they are, then the group."""
        for each in (records.CURRENT, records.TARGET_MEMBER):
            for member_id in self.members:
                yield write_key(each, self.group_id, member_id), None
        yield write_key(records.TARGET, self.group_id), None
        for member_id in self.members:
            yield write_key(records.MEMBER, self.group_id, member_id), None
        for regex in self.regexes:
            yield write_key(records.REGEX, self.group_id, regex), None
        yield write_key(records.METADATA, self.group_id), None

    def start(self, turn: Turn) -> None:
        """Sessions begin anew, and so does the time to give partitions up."""
        self.seen = None
        for member in self.members.values():
            self.prolong(member, turn)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.set_timer(REBALANCE, member, member.rebalance_timeout_ms, turn)

    def stop(self, turn: Turn, code: ErrorCode) -> None:
        """Nobody ever waits in such a group."""
        for member_id in self.members:
            self.cancel_timers(member_id, turn)

    def expire(self, what: str, member_id: str, turn: Turn) -> None:
        """The shard asks `fencing.expire`, which may also make another kind of group of this."""
        raise AssertionError(f"{what} of {member_id}")

    # -- deadlines

    def prolong(self, member: ConsumerMember, turn: Turn) -> None:
        if member.classic is None:
            timeout_ms = turn.config.consumer.of_group(self.group_id).session_timeout_ms
        else:
            timeout_ms = member.classic.session_timeout_ms
        turn.deadlines.set((SESSION, self.group_id, member.member_id), turn.now_ms + timeout_ms)

    def set_timer(self, what: str, member: ConsumerMember, after_ms: int, turn: Turn) -> None:
        turn.deadlines.set((what, self.group_id, member.member_id), turn.now_ms + after_ms)

    def cancel_timer(self, what: str, member_id: str, turn: Turn) -> None:
        turn.deadlines.cancel((what, self.group_id, member_id))

    def cancel_timers(self, member_id: str, turn: Turn) -> None:
        for each in _TIMERS:
            turn.deadlines.cancel((each, self.group_id, member_id))


def _says_the_same(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether nothing that is counted differs."""
    return (
        before.topics is after.topics
        and before.regex == after.regex
        and before.assignor == after.assignor
        and before.instance_id == after.instance_id
        and (before.classic is None) == (after.classic is None)
    )
