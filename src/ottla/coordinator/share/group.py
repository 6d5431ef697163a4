"""A share group: its members, their epochs, and which partitions they read.

Members send their subscriptions by heartbeat, and get their assignments. Partitions are shared, so
no member has to revoke one before another gets it, and every member is always stable:

    the group's epoch        rises when members or their topics change
    the assignment's epoch   the group's epoch for which it was computed
    a member's epoch         that of the assignment which it was sent

Only partitions whose state has been initialized (`initialized`) are assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import OffsetCommit, TopicsImage, metadata_hash
from ottla.coordinator.result import RecordBytes
from ottla.coordinator.share import group_records
from ottla.coordinator.share.assignor import SimpleAssignor, TopicIdPartition
from ottla.coordinator.share.group_records import (
    Partitions,
    ShareGroupCurrentAssignment,
    ShareGroupMemberMetadata,
    ShareGroupRecordType,
    StatePartitions,
)
from ottla.errors import ErrorCode, KafkaError

SESSION: Final = "share session"
PROTOCOL_TYPE: Final = "share"
ASSIGNOR: Final = "simple"

EMPTY: Final = "Empty"
STABLE: Final = "Stable"


class ShareGroupConfig(NamedTuple):
    """The configs of a group, or else the broker's; the defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 200


class ShareGroupMember(NamedTuple):
    """One member. Immutable, so that a failed append is undone by keeping the one before."""

    member_id: str
    metadata: ShareGroupMemberMetadata
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = {}  # noqa: RUF012  a mapping that is never changed


class ShareGroup:
    """All attributes change only through the methods, which write the records."""

    kind: Final[Literal["share"]] = "share"

    __slots__ = (
        "_complete_in",
        "_topics",
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
        self.members: dict[str, ShareGroupMember] = {}
        self.target: dict[str, Partitions] = {}
        self.initialized: dict[bytes, StatePartitions] = {}
        self._topics: TopicsImage | None = None  # those that metadata_hash was computed from
        # The image in which every subscribed partition has a state.
        self._complete_in: TopicsImage | None = None

    def __repr__(self) -> str:
        return f"ShareGroup({self.group_id}, epoch {self.epoch}, {len(self.members)} members)"

    # -- what the shard calls on every group

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(self, commit: OffsetCommit) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND  # its records are acknowledged instead

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE  # nothing is committed, so the response is empty

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscribes(self, topic: str) -> bool:
        return any(topic in member.metadata.subscribed for member in self.members.values())

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return None

    def tombstones(self) -> Iterable[RecordBytes]:
        for member_id in [*self.members, *(set(self.target) - set(self.members))]:
            for kind in (
                ShareGroupRecordType.MEMBER_CURRENT,
                ShareGroupRecordType.MEMBER_TARGET,
                ShareGroupRecordType.MEMBER,
            ):
                yield self._key(kind, member_id), None
        yield self._key(ShareGroupRecordType.TARGET), None
        yield self._key(ShareGroupRecordType.STATE_PARTITIONS), None
        yield self._key(ShareGroupRecordType.GROUP), None

    def start(self, event: GroupEvent) -> None:
        for member_id in self.members:
            self._extend_session(member_id, event)

    def configure(self, config: ShareGroupConfig, event: GroupEvent) -> None:
        """A loaded group has the default session timeout until the first heartbeat.

        Without the restart of the sessions, members that are gone would keep their partitions for
        the default timeout.
        """
        changed = config.session_timeout_ms != self.config.session_timeout_ms
        self.config = config
        if changed:
            self.start(event)

    def stop(self, event: GroupEvent, code: ErrorCode) -> None:
        for member_id in self.members:
            event.timer.cancel((SESSION, self.group_id, member_id))

    def expire(self, what: str, member_id: str, event: GroupEvent) -> None:
        if what == SESSION and member_id in self.members:
            self.remove(member_id, event)

    # -- loading

    def restore(self, kind: ShareGroupRecordType, member_id: str, value: bytes) -> None:
        """One of its records, which come in any order."""
        match kind:
            case ShareGroupRecordType.GROUP:
                self.epoch, self.metadata_hash = group_records.read_group(value)
            case ShareGroupRecordType.TARGET:
                self.assignment_epoch, _ = group_records.read_target(value)
            case ShareGroupRecordType.MEMBER_TARGET:
                self.target[member_id] = group_records.read_member_target(value)
            case ShareGroupRecordType.STATE_PARTITIONS:
                self.initialized = group_records.read_state_partitions(value)
            case ShareGroupRecordType.MEMBER:
                metadata = group_records.read_member(value)
                self.members[member_id] = self._member(member_id)._replace(metadata=metadata)
            case ShareGroupRecordType.MEMBER_CURRENT:
                current = group_records.read_current(value)
                self.members[member_id] = self._member(member_id)._replace(
                    epoch=current.epoch,
                    previous_epoch=current.previous_epoch,
                    assigned=current.partitions,
                )

    def _member(self, member_id: str) -> ShareGroupMember:
        new_member = ShareGroupMember(member_id, ShareGroupMemberMetadata(None, "", "", ()))
        return self.members.get(member_id, new_member)

    # -- members

    def check_epoch(self, member_id: str, epoch: int) -> None:
        """KafkaError if the member is unknown, or was never sent this epoch: it has to rejoin."""
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
        metadata: ShareGroupMemberMetadata,
        *,
        initialized: Mapping[bytes, StatePartitions],
        event: GroupEvent,
    ) -> ShareGroupMember:
        """A member's heartbeat; `initialized` are partitions whose states were just created."""
        known = self.members.get(member_id)
        if (
            known is not None
            and known.metadata == metadata
            and not initialized
            and event.topics is self._topics
            and known.epoch == self.assignment_epoch == self.epoch
        ):
            self._extend_session(member_id, event)  # as in nearly every heartbeat
            return known
        self._undo_to_now(event)
        self._add_initialized(initialized, event)
        changed = bool(initialized)
        if known is None or known.metadata != metadata:
            if known is None or known.metadata.subscribed != metadata.subscribed:
                changed = True
            self.members[member_id] = self._member(member_id)._replace(metadata=metadata)
            event.record(
                self._key(ShareGroupRecordType.MEMBER, member_id),
                group_records.write_member(metadata),
            )
        if self._notice(event.topics):
            changed = True
        if changed:
            self._bump(event)
        if self.assignment_epoch < self.epoch:
            self._assign(event)
        self._extend_session(member_id, event)
        return self._send_assignment(member_id, event)

    def remove(self, member_id: str, event: GroupEvent) -> None:
        """It left, or its session has expired."""
        self._undo_to_now(event)
        del self.members[member_id]
        self.target.pop(member_id, None)
        for kind in (
            ShareGroupRecordType.MEMBER_CURRENT,
            ShareGroupRecordType.MEMBER_TARGET,
            ShareGroupRecordType.MEMBER,
        ):
            event.record(self._key(kind, member_id), None)
        event.timer.cancel((SESSION, self.group_id, member_id))
        self._notice(event.topics)
        self._bump(event)
        if not self.members:
            self._assign(event)

    def subscription(self) -> frozenset[str]:
        return frozenset(
            name for member in self.members.values() for name in member.metadata.subscribed
        )

    # -- partitions with a state

    def uninitialized(
        self, names: Sequence[str], topics: TopicsImage
    ) -> Mapping[bytes, StatePartitions]:
        """Partitions that cannot be assigned yet, of these topics and of all that members want."""
        if not names and topics is self._complete_in:
            return {}  # as in nearly every heartbeat
        missing: dict[bytes, StatePartitions] = {}
        for name in sorted(self.subscription().union(names)):
            view = topics.by_name.get(name)
            if view is None:
                continue
            initialized = self.initialized.get(view.id)
            known = set() if initialized is None else set(initialized.partitions)
            left = tuple(index for index in range(view.partition_count) if index not in known)
            if left:
                missing[view.id] = StatePartitions(name, left)
        self._complete_in = None if missing else topics
        return missing

    def _add_initialized(self, more: Mapping[bytes, StatePartitions], event: GroupEvent) -> None:
        if not more:
            return
        for topic_id, topic in more.items():
            initialized = self.initialized.get(topic_id)
            known = set() if initialized is None else set(initialized.partitions)
            partitions = tuple(sorted(known.union(topic.partitions)))
            self.initialized[topic_id] = StatePartitions(topic.name, partitions)
        self._record_initialized(event)

    def initialize(self, more: Mapping[bytes, StatePartitions], event: GroupEvent) -> None:
        """An administrator has set offsets, which created states for these partitions."""
        self._undo_to_now(event)
        if self.epoch == 0:  # it has had no member yet: this creates the group
            self._bump(event)
            self._assign(event)
        self._add_initialized(more, event)

    def forget(self, topic_ids: Iterable[bytes], event: GroupEvent) -> None:
        """Topics were deleted, or their offsets."""
        gone = [topic_id for topic_id in topic_ids if topic_id in self.initialized]
        if gone:
            self._undo_to_now(event)
            for topic_id in gone:
                del self.initialized[topic_id]
            self._complete_in = None
            self._record_initialized(event)

    def _record_initialized(self, event: GroupEvent) -> None:
        value = group_records.write_state_partitions(self.initialized) if self.initialized else None
        event.record(self._key(ShareGroupRecordType.STATE_PARTITIONS), value)

    # -- epochs and assignments

    def _notice(self, topics: TopicsImage) -> bool:
        """True if the topics that the members subscribe to have changed."""
        seen = metadata_hash(self.subscription(), topics)
        if topics is self._topics and seen == self.metadata_hash:
            return False
        self._topics = topics
        changed = seen != self.metadata_hash
        self.metadata_hash = seen
        return changed

    def _bump(self, event: GroupEvent) -> None:
        self.epoch += 1
        value = group_records.write_group(self.epoch, self.metadata_hash)
        event.record(self._key(ShareGroupRecordType.GROUP), value)

    def _assign(self, event: GroupEvent) -> None:
        views = event.topics.by_name
        subscriptions = {
            member_id: frozenset(
                views[name].id for name in member.metadata.subscribed if name in views
            )
            for member_id, member in self.members.items()
        }
        assignor = SimpleAssignor(subscriptions, self._assignable(event.topics), self.target)
        target = assignor.assign()
        for member_id, partitions in target.items():
            if self.target.get(member_id) != partitions:
                value = group_records.write_member_target(partitions)
                event.record(self._key(ShareGroupRecordType.MEMBER_TARGET, member_id), value)
        self.target = target
        self.assignment_epoch = self.epoch
        value = group_records.write_target(self.epoch, event.now_ms)
        event.record(self._key(ShareGroupRecordType.TARGET), value)

    def _assignable(self, topics: TopicsImage) -> list[TopicIdPartition]:
        return [
            (topic_id, index)
            for topic_id, topic in self.initialized.items()
            if topic_id in topics.names
            for index in topic.partitions
        ]

    def _send_assignment(self, member_id: str, event: GroupEvent) -> ShareGroupMember:
        """The member's assignment is its target from now on."""
        member = self.members[member_id]
        assigned = self.target.get(member_id, {})
        if member.epoch == self.assignment_epoch and member.assigned == assigned:
            return member
        member = member._replace(
            epoch=self.assignment_epoch, previous_epoch=member.epoch, assigned=assigned
        )
        self.members[member_id] = member
        current = ShareGroupCurrentAssignment(member.epoch, member.previous_epoch, assigned)
        event.record(
            self._key(ShareGroupRecordType.MEMBER_CURRENT, member_id),
            group_records.write_current(current),
        )
        return member

    # -- timers, records, and undo

    def _extend_session(self, member_id: str, event: GroupEvent) -> None:
        due_ms = event.now_ms + self.config.session_timeout_ms
        event.timer.schedule((SESSION, self.group_id, member_id), due_ms)

    def _undo_to_now(self, event: GroupEvent) -> None:
        """Keep everything as it is, in case what follows cannot be stored."""
        epoch, metadata_hash = self.epoch, self.metadata_hash
        assignment_epoch = self.assignment_epoch
        members, target = dict(self.members), dict(self.target)
        initialized = dict(self.initialized)

        def restore(undo: GroupEvent, code: ErrorCode) -> None:
            for member_id in self.members.keys() - members.keys():
                undo.timer.cancel((SESSION, self.group_id, member_id))
            for member_id in members.keys() - self.members.keys():
                self._extend_session(member_id, undo)
            self.epoch, self.metadata_hash = epoch, metadata_hash
            self.assignment_epoch = assignment_epoch
            self.members, self.target, self.initialized = members, target, initialized
            self._topics = self._complete_in = None

        event.undo(restore)

    def _key(self, kind: ShareGroupRecordType, member_id: str = "") -> bytes:
        return group_records.write_key(kind, self.group_id, member_id)
