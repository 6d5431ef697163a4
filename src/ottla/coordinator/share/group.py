"""A share group: its members, their epochs, and which partitions they read.

Members say by heartbeat what they want and are told what they have. Partitions are shared, so
nobody has to give up anything before somebody else gets it, and a member is always stable:

    the group's epoch        grows when members or their topics change
    the assignment's epoch   the group's epoch that it was made for
    a member's epoch         that of the assignment which it was told

Only partitions whose state has been initialized (`initialized`) are assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from ottla.coordinator.kinds import Commit, Topics, metadata_hash
from ottla.coordinator.outcome import RecordBytes, Turn
from ottla.coordinator.share import keys
from ottla.coordinator.share.assignor import TopicPartition, assign
from ottla.coordinator.share.keys import (
    Partitions,
    ShareKey,
    StatePartitions,
    StoredCurrent,
    StoredMember,
)
from ottla.errors import ErrorCode, KafkaError

SESSION: Final = "share session"
PROTOCOL_TYPE: Final = "share"
ASSIGNOR: Final = "simple"

EMPTY: Final = "Empty"
STABLE: Final = "Stable"


class ShareGroupConfig(NamedTuple):
    """What holds for a group, be it by its own configs or the broker's; defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 200


class ShareMember(NamedTuple):
    """One member. Immutable, so that what a failed append has to undo is easily kept."""

    member_id: str
    about: StoredMember
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = {}  # noqa: RUF012  a mapping that nobody changes


class ShareGroup:
    """`members` and the rest change only through the methods, which say so in records."""

    kind: Final[Literal["share"]] = "share"

    __slots__ = (
        "_topics",
        "_whole",
        "assignment_epoch",
        "config",
        "epoch",
        "group_id",
        "initialized",
        "members",
        "metadata_hash",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.config = ShareGroupConfig()
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Partitions] = {}
        self.initialized: dict[bytes, StatePartitions] = {}
        self._topics: Topics | None = None  # those that metadata_hash is of
        self._whole: Topics | None = None  # those of which all that members want has a state

    def __repr__(self) -> str:
        return f"ShareGroup({self.group_id}, epoch {self.epoch}, {len(self.members)} members)"

    # -- what the shard asks of every group

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(self, commit: Commit) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND  # its offsets are not committed, but acknowledged

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE  # who asks finds that nothing was committed

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscribes(self, topic: str) -> bool:
        return any(topic in member.about.subscribed for member in self.members.values())

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return None

    def tombstones(self) -> Iterable[RecordBytes]:
        for member_id in [*self.members, *(set(self.target) - set(self.members))]:
            for kind in (ShareKey.MEMBER_CURRENT, ShareKey.MEMBER_TARGET, ShareKey.MEMBER):
                yield self._key(kind, member_id), None
        yield self._key(ShareKey.TARGET), None
        yield self._key(ShareKey.STATE_PARTITIONS), None
        yield self._key(ShareKey.GROUP), None

    def start(self, turn: Turn) -> None:
        for member_id in self.members:
            self._prolong(member_id, turn)

    def configure(self, config: ShareGroupConfig, turn: Turn) -> None:
        """A group has the default session timeout when it was loaded, until a heartbeat comes.

        Members that went before the load would stay for that long, with their partitions.
        """
        changed = config.session_timeout_ms != self.config.session_timeout_ms
        self.config = config
        if changed:
            self.start(turn)

    def stop(self, turn: Turn, code: ErrorCode) -> None:
        for member_id in self.members:
            turn.deadlines.cancel((SESSION, self.group_id, member_id))

    def expire(self, what: str, member_id: str, turn: Turn) -> None:
        if what == SESSION and member_id in self.members:
            self.remove(member_id, turn)

    # -- loading

    def restore(self, kind: ShareKey, member_id: str, value: bytes) -> None:
        """One of its records, which come in any order."""
        match kind:
            case ShareKey.GROUP:
                self.epoch, self.metadata_hash = keys.read_group(value)
            case ShareKey.TARGET:
                self.assignment_epoch, _ = keys.read_target(value)
            case ShareKey.MEMBER_TARGET:
                self.target[member_id] = keys.read_member_target(value)
            case ShareKey.STATE_PARTITIONS:
                self.initialized = keys.read_state_partitions(value)
            case ShareKey.MEMBER:
                about = keys.read_member(value)
                self.members[member_id] = self._member(member_id)._replace(about=about)
            case ShareKey.MEMBER_CURRENT:
                current = keys.read_current(value)
                self.members[member_id] = self._member(member_id)._replace(
                    epoch=current.epoch,
                    previous_epoch=current.previous_epoch,
                    assigned=current.partitions,
                )

    def _member(self, member_id: str) -> ShareMember:
        nobody = ShareMember(member_id, StoredMember(None, "", "", ()))
        return self.members.get(member_id, nobody)

    # -- members

    def check_epoch(self, member_id: str, epoch: int) -> None:
        """A member that was told something newer, or never that, has to join anew."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        if epoch not in (member.epoch, member.previous_epoch, 0):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"Member {member_id} is at epoch {member.epoch}, not {epoch}.",
            )

    def heartbeat(
        self,
        member_id: str,
        about: StoredMember,
        *,
        initialized: Mapping[bytes, StatePartitions],
        turn: Turn,
    ) -> ShareMember:
        """The member is there, and wants this; `initialized` are partitions that were just now."""
        known = self.members.get(member_id)
        if (
            known is not None
            and known.about == about
            and not initialized
            and turn.topics is self._topics
            and known.epoch == self.assignment_epoch == self.epoch
        ):
            self._prolong(member_id, turn)  # as it nearly always is
            return known
        self._keep(turn)
        self._add_initialized(initialized, turn)
        changed = bool(initialized)
        if known is None or known.about != about:
            if known is None or known.about.subscribed != about.subscribed:
                changed = True
            self.members[member_id] = self._member(member_id)._replace(about=about)
            turn.record(self._key(ShareKey.MEMBER, member_id), keys.write_member(about))
        if self._see(turn.topics):
            changed = True
        if changed:
            self._bump(turn)
        if self.assignment_epoch < self.epoch:
            self._assign(turn)
        self._prolong(member_id, turn)
        return self._tell(member_id, turn)

    def remove(self, member_id: str, turn: Turn) -> None:
        """It left, or was not heard of for too long."""
        self._keep(turn)
        del self.members[member_id]
        self.target.pop(member_id, None)
        for kind in (ShareKey.MEMBER_CURRENT, ShareKey.MEMBER_TARGET, ShareKey.MEMBER):
            turn.record(self._key(kind, member_id), None)
        turn.deadlines.cancel((SESSION, self.group_id, member_id))
        self._see(turn.topics)
        self._bump(turn)
        if not self.members:
            self._assign(turn)

    def subscription(self) -> frozenset[str]:
        return frozenset(
            name for member in self.members.values() for name in member.about.subscribed
        )

    # -- partitions with a state

    def uninitialized(
        self, names: Sequence[str], topics: Topics
    ) -> Mapping[bytes, StatePartitions]:
        """Partitions that cannot be assigned yet, of these topics and of all that members want."""
        if not names and topics is self._whole:
            return {}  # as it nearly always is
        missing: dict[bytes, StatePartitions] = {}
        for name in sorted(self.subscription().union(names)):
            view = topics.by_name.get(name)
            if view is None:
                continue
            there = self.initialized.get(view.id)
            known = set() if there is None else set(there.partitions)
            left = tuple(index for index in range(view.partition_count) if index not in known)
            if left:
                missing[view.id] = StatePartitions(name, left)
        self._whole = None if missing else topics
        return missing

    def _add_initialized(self, more: Mapping[bytes, StatePartitions], turn: Turn) -> None:
        if not more:
            return
        for topic_id, topic in more.items():
            there = self.initialized.get(topic_id)
            known = set() if there is None else set(there.partitions)
            partitions = tuple(sorted(known.union(topic.partitions)))
            self.initialized[topic_id] = StatePartitions(topic.name, partitions)
        self._record_initialized(turn)

    def initialize(self, more: Mapping[bytes, StatePartitions], turn: Turn) -> None:
        """States were made for these, by an administrator who set offsets."""
        self._keep(turn)
        if self.epoch == 0:  # nobody has joined yet: the group comes to be by this
            self._bump(turn)
            self._assign(turn)
        self._add_initialized(more, turn)

    def forget(self, topic_ids: Iterable[bytes], turn: Turn) -> None:
        """Topics were deleted, or their offsets."""
        gone = [topic_id for topic_id in topic_ids if topic_id in self.initialized]
        if gone:
            self._keep(turn)
            for topic_id in gone:
                del self.initialized[topic_id]
            self._whole = None
            self._record_initialized(turn)

    def _record_initialized(self, turn: Turn) -> None:
        value = keys.write_state_partitions(self.initialized) if self.initialized else None
        turn.record(self._key(ShareKey.STATE_PARTITIONS), value)

    # -- epochs and assignments

    def _see(self, topics: Topics) -> bool:
        """Whether what the members subscribe to is not what it was."""
        seen = metadata_hash(self.subscription(), topics)
        if topics is self._topics and seen == self.metadata_hash:
            return False
        self._topics = topics
        changed = seen != self.metadata_hash
        self.metadata_hash = seen
        return changed

    def _bump(self, turn: Turn) -> None:
        self.epoch += 1
        value = keys.write_group(self.epoch, self.metadata_hash)
        turn.record(self._key(ShareKey.GROUP), value)

    def _assign(self, turn: Turn) -> None:
        views = turn.topics.by_name
        wants = {
            member_id: frozenset(
                views[name].id for name in member.about.subscribed if name in views
            )
            for member_id, member in self.members.items()
        }
        target = assign(wants, self._assignable(turn.topics), self.target)
        for member_id, partitions in target.items():
            if self.target.get(member_id) != partitions:
                value = keys.write_member_target(partitions)
                turn.record(self._key(ShareKey.MEMBER_TARGET, member_id), value)
        self.target = target
        self.assignment_epoch = self.epoch
        value = keys.write_target(self.epoch, turn.now_ms)
        turn.record(self._key(ShareKey.TARGET), value)

    def _assignable(self, topics: Topics) -> list[TopicPartition]:
        return [
            (topic_id, index)
            for topic_id, topic in self.initialized.items()
            if topic_id in topics.names
            for index in topic.partitions
        ]

    def _tell(self, member_id: str, turn: Turn) -> ShareMember:
        """The member has what the target says from now on."""
        member = self.members[member_id]
        assigned = self.target.get(member_id, {})
        if member.epoch == self.assignment_epoch and member.assigned == assigned:
            return member
        member = member._replace(
            epoch=self.assignment_epoch, previous_epoch=member.epoch, assigned=assigned
        )
        self.members[member_id] = member
        current = StoredCurrent(member.epoch, member.previous_epoch, assigned)
        turn.record(self._key(ShareKey.MEMBER_CURRENT, member_id), keys.write_current(current))
        return member

    # -- deadlines, records, and taking back

    def _prolong(self, member_id: str, turn: Turn) -> None:
        due_ms = turn.now_ms + self.config.session_timeout_ms
        turn.deadlines.set((SESSION, self.group_id, member_id), due_ms)

    def _keep(self, turn: Turn) -> None:
        """Everything as it is, in case that what follows cannot be stored."""
        epoch, metadata_hash = self.epoch, self.metadata_hash
        assignment_epoch = self.assignment_epoch
        members, target = dict(self.members), dict(self.target)
        initialized = dict(self.initialized)

        def restore(undo: Turn, code: ErrorCode) -> None:
            for member_id in self.members.keys() - members.keys():
                undo.deadlines.cancel((SESSION, self.group_id, member_id))
            for member_id in members.keys() - self.members.keys():
                self._prolong(member_id, undo)
            self.epoch, self.metadata_hash = epoch, metadata_hash
            self.assignment_epoch = assignment_epoch
            self.members, self.target, self.initialized = members, target, initialized
            self._topics = self._whole = None

        turn.undo(restore)

    def _key(self, kind: ShareKey, member_id: str = "") -> bytes:
        return keys.write_key(kind, self.group_id, member_id)
