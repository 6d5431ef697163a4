"""A streams group: its topology, its members, and which tasks they run (KIP-1071).

Members send heartbeats and get their tasks, as in a consumer group:

    the group's epoch        rises when members, topics or the configs of the assignment change
    the assignment's epoch   the group's epoch for which the target was computed
    a member's epoch         that of the target which it has reached, or is moving to

Both epochs of a group start at 1, so that its first member gets an epoch while the first target
waits for more members (`streams.initial.rebalance.delay.ms`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import OffsetCommit, TopicsImage, metadata_hash
from ottla.coordinator.result import RecordBytes
from ottla.coordinator.streams import records as keys
from ottla.coordinator.streams.assignor import SubtopologyTasks, TaskHolder, assign_tasks
from ottla.coordinator.streams.config import StreamsGroupConfig
from ottla.coordinator.streams.configured import ConfiguredTopology, configure
from ottla.coordinator.streams.member import (
    StreamsGroupMember,
    StreamsGroupMemberMetadata,
    StreamsMemberState,
)
from ottla.coordinator.streams.reconcile import StreamsGoal, reconcile_tasks
from ottla.coordinator.streams.records import (
    StreamsGroupCurrentAssignment,
    StreamsGroupMetadataValue,
    StreamsGroupRecordType,
)
from ottla.coordinator.streams.tasks import NO_TASKS, StreamsTask, TaskRole, TaskSet
from ottla.coordinator.streams.topology import StreamsTopology
from ottla.coordinator.streams.topology_record import read_topology_record, write_topology_record
from ottla.errors import ErrorCode

SESSION: Final = "streams session"
REBALANCE: Final = "streams rebalance"
INITIAL: Final = "streams initial rebalance"
PROTOCOL_TYPE: Final = "streams"

_FIRST_EPOCH: Final = 1
_NO_EPOCH: Final = -1
_MEMBER_COMMIT_FROM: Final = 9  # the version of OffsetCommit that has a member's epoch
_OF_MEMBER: Final = (
    StreamsGroupRecordType.MEMBER_CURRENT,
    StreamsGroupRecordType.MEMBER_TARGET,
    StreamsGroupRecordType.MEMBER,
)


class StreamsGroup:
    """All attributes change only through the methods, which write the records."""

    kind: Final[Literal["streams"]] = "streams"

    __slots__ = (
        "_seen",
        "assigned_ms",
        "assignment_configs",
        "assignment_epoch",
        "configured",
        "endpoint_epoch",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "shutdown_member_id",
        "target",
        "topology",
        "validated_topology_epoch",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = keys.NOT_VALIDATED
        self.assignment_configs: dict[str, str] = {}  # when the epoch last rose
        self.assignment_epoch = _FIRST_EPOCH
        self.assigned_ms = 0
        self.members: dict[str, StreamsGroupMember] = {}
        self.target: dict[str, TaskSet] = {}
        self.topology: StreamsTopology | None = None
        self.configured: ConfiguredTopology | None = None
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0
        self._seen: TopicsImage | None = None  # those that `configured` was computed from

    def __repr__(self) -> str:
        return f"StreamsGroup({self.group_id}, epoch {self.epoch}, {len(self.members)} members)"

    # -- what the shard calls on every group

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(self, commit: OffsetCommit) -> ErrorCode:
        """A member may commit with its epoch, or with any since it got the task (KIP-1251)."""
        if commit.epoch < 0 and not self.members:
            return ErrorCode.NONE
        anonymous = not commit.member_id and commit.group_instance_id is None
        if commit.transactional and commit.epoch == _NO_EPOCH and anonymous:
            return ErrorCode.NONE
        member = self.members.get(commit.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not commit.transactional and commit.version < _MEMBER_COMMIT_FROM:
            return ErrorCode.UNSUPPORTED_VERSION
        if commit.epoch == member.epoch:
            return ErrorCode.NONE
        if commit.epoch > member.epoch or self.topology is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        for name, index in commit.partitions():
            reader = self.topology.reader_of(name)
            if reader is None:
                return ErrorCode.STALE_MEMBER_EPOCH
            since = member.task_epoch(StreamsTask(TaskRole.ACTIVE, reader, index))
            if since is None or commit.epoch < since:
                return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member.epoch == member_epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def subscribes(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return self.topology.reader_of(topic) is not None

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> Iterable[RecordBytes]:
        for member_id in [*self.members, *(set(self.target) - set(self.members))]:
            for kind in _OF_MEMBER:
                yield self._key(kind, member_id), None
        yield self._key(StreamsGroupRecordType.TARGET), None
        yield self._key(StreamsGroupRecordType.GROUP), None
        yield self._key(StreamsGroupRecordType.TOPOLOGY), None

    def start(self, event: GroupEvent) -> None:
        for member in self.members.values():
            self._extend_session(member.member_id, event)
            self._set_rebalance_timer(member, event)

    def stop(self, event: GroupEvent, code: ErrorCode) -> None:
        for member_id in self.members:
            self._cancel(member_id, event)
        event.timer.cancel((INITIAL, self.group_id, ""))

    def expire(self, what: str, member_id: str, event: GroupEvent) -> None:
        if what == INITIAL:
            if self.members and self.epoch > self.assignment_epoch and self.configured is not None:
                self.undo_to_now(event)
                self._assign(event)
            return
        member = self.members.get(member_id)
        if member is None:
            return
        if what == REBALANCE and member.state is not StreamsMemberState.UNREVOKED_TASKS:
            return
        self.remove(member_id, event)

    # -- loading

    def restore(self, kind: StreamsGroupRecordType, member_id: str, value: bytes) -> None:
        """One of its records, which come in any order."""
        match kind:
            case StreamsGroupRecordType.GROUP:
                stored = keys.read_group(value)
                self.epoch, self.metadata_hash = stored.epoch, stored.metadata_hash
                self.validated_topology_epoch = stored.validated_topology_epoch
                self.assignment_configs = dict(stored.assignment_configs)
            case StreamsGroupRecordType.TARGET:
                self.assignment_epoch, self.assigned_ms = keys.read_target(value)
            case StreamsGroupRecordType.MEMBER_TARGET:
                self.target[member_id] = keys.read_member_target(value)
            case StreamsGroupRecordType.TOPOLOGY:
                self.topology = read_topology_record(value)
            case StreamsGroupRecordType.MEMBER:
                metadata = keys.read_member(value)
                self.members[member_id] = self.member(member_id)._replace(metadata=metadata)
            case StreamsGroupRecordType.MEMBER_CURRENT:
                current = keys.read_current(value)
                self.members[member_id] = self.member(member_id)._replace(**current._asdict())

    def member(self, member_id: str) -> StreamsGroupMember:
        """The member; a new one if it is unknown."""
        new_member = StreamsGroupMember(member_id, StreamsGroupMemberMetadata())
        return self.members.get(member_id, new_member)

    # -- the steps of a heartbeat, in this order

    def is_settled(
        self, member: StreamsGroupMember, config: StreamsGroupConfig, event: GroupEvent
    ) -> bool:
        """True if a heartbeat without news changes nothing, as nearly always."""
        return (
            event.topics is self._seen
            and self.epoch == self.assignment_epoch
            and member.is_reconciled_to(self.assignment_epoch)
            and config.of_assignment() == self.assignment_configs
        )

    def is_configured_for(self, topics: TopicsImage) -> bool:
        return topics is self._seen and self.configured is not None and self.configured.is_ready

    def put_member(
        self, member_id: str, metadata: StreamsGroupMemberMetadata, event: GroupEvent
    ) -> bool:
        """Store the metadata of a member; False if it has not changed."""
        known = self.members.get(member_id)
        if known is not None and known.metadata == metadata:
            return False
        self.members[member_id] = self.member(member_id)._replace(metadata=metadata)
        event.record(
            self._key(StreamsGroupRecordType.MEMBER, member_id), keys.write_member(metadata)
        )
        return True

    def put_topology(self, topology: StreamsTopology, event: GroupEvent) -> None:
        self.topology = topology
        self.configured = None
        event.record(self._key(StreamsGroupRecordType.TOPOLOGY), write_topology_record(topology))

    def refresh(
        self, event: GroupEvent, config: StreamsGroupConfig, *, bump: bool
    ) -> ConfiguredTopology:
        """Check the topology against the topics; a change raises the epoch."""
        assert self.topology is not None, "a member that joins brings it"
        if self.configured is None or event.topics is not self._seen:
            seen = metadata_hash(self.topology.required_topics(), event.topics)
            if seen != self.metadata_hash or self.configured is None:
                self.configured = configure(self.topology, event.topics)
            bump = bump or seen != self.metadata_hash
            self._seen, self.metadata_hash = event.topics, seen
        validated = self.topology.epoch if self.configured.is_ready else keys.NOT_VALIDATED
        configs = config.of_assignment()
        if validated != self.validated_topology_epoch:
            bump = True
        if self.assignment_configs and self.assignment_configs != configs:
            bump = True
        self.validated_topology_epoch = validated
        if bump:
            self.assignment_configs = configs
            self._bump(event)
        return self.configured

    def wait_for_others(self, config: StreamsGroupConfig, event: GroupEvent) -> None:
        """The first member has joined: others may follow."""
        key = (INITIAL, self.group_id, "")
        if config.initial_rebalance_delay_ms and key not in event.timer:
            event.timer.schedule(key, event.now_ms + config.initial_rebalance_delay_ms)

    def waits_for_others(self, event: GroupEvent) -> bool:
        return (INITIAL, self.group_id, "") in event.timer

    def assign(self, config: StreamsGroupConfig, event: GroupEvent) -> bool:
        """Compute a new target if needed; False if it is too soon after the last one."""
        if self.epoch <= self.assignment_epoch:
            return True
        if self.assigned_ms and event.now_ms < self.assigned_ms + config.assignment_interval_ms:
            return False
        self._assign(event)
        return True

    def advance(
        self, member_id: str, target: TaskSet, owned: TaskSet | None, event: GroupEvent
    ) -> None:
        """The member takes its next step towards the target."""
        member = self.members[member_id]
        if member.is_reconciled_to(self.assignment_epoch):
            return
        goal = StreamsGoal(
            self.assignment_epoch, target, owned, lambda task: self._is_free(task, member)
        )
        after = reconcile_tasks(member, goal)
        if after == member:
            return
        self.members[member_id] = after
        current = StreamsGroupCurrentAssignment(
            after.epoch, after.previous_epoch, after.state, after.assigned, after.revoking
        )
        event.record(
            self._key(StreamsGroupRecordType.MEMBER_CURRENT, member_id), keys.write_current(current)
        )
        self._set_rebalance_timer(after, event)

    def prolong(self, member_id: str, event: GroupEvent) -> None:
        self._extend_session(member_id, event)

    def remove(self, member_id: str, event: GroupEvent) -> None:
        """It left, or its session or rebalance timeout has expired."""
        self.undo_to_now(event)
        del self.members[member_id]
        self.target.pop(member_id, None)
        for kind in _OF_MEMBER:
            event.record(self._key(kind, member_id), None)
        self._cancel(member_id, event)
        if not self.members:
            self.shutdown_member_id = None
        self._bump(event)

    # -- epochs, targets

    def _bump(self, event: GroupEvent) -> None:
        self.epoch += 1
        stored = StreamsGroupMetadataValue(
            self.epoch,
            self.metadata_hash,
            self.validated_topology_epoch,
            self.assignment_configs,
        )
        event.record(self._key(StreamsGroupRecordType.GROUP), keys.write_group(stored))

    def _assign(self, event: GroupEvent) -> None:
        target = self._new_target()
        for member_id, tasks in target.items():
            if self.target.get(member_id) != tasks:
                value = keys.write_member_target(tasks)
                event.record(self._key(StreamsGroupRecordType.MEMBER_TARGET, member_id), value)
        self.target = target
        self.assignment_epoch, self.assigned_ms = self.epoch, event.now_ms
        value = keys.write_target(self.epoch, event.now_ms)
        event.record(self._key(StreamsGroupRecordType.TARGET), value)

    def _new_target(self) -> dict[str, TaskSet]:
        """While a topic is missing no member has a task."""
        if self.topology is None or self.configured is None or not self.configured.is_ready:
            return dict.fromkeys(self.members, NO_TASKS)
        counts = self.configured.task_counts
        return assign_tasks(
            {
                member_id: TaskHolder(
                    member.metadata.process_id, self.target.get(member_id, NO_TASKS)
                )
                for member_id, member in self.members.items()
            },
            [
                SubtopologyTasks(
                    subtopology.subtopology_id,
                    counts[subtopology.subtopology_id],
                    subtopology.is_stateful,
                )
                for subtopology in self.topology.subtopologies
            ],
            int(self.assignment_configs.get("num.standby.replicas", "0")),
        )

    def _is_free(self, task: StreamsTask, member: StreamsGroupMember) -> bool:
        """True if no other member runs it, and no thread of this process has its state open."""
        roles = [task._replace(role=role) for role in TaskRole]
        for other in self.members.values():
            if other.member_id == member.member_id:
                continue
            same_process = other.metadata.process_id == member.metadata.process_id
            for other_task in (
                roles if same_process else [task] if task.role is TaskRole.ACTIVE else []
            ):
                if other.task_epoch(other_task) is not None:
                    return False
        return True

    # -- timers, and undo

    def _extend_session(self, member_id: str, event: GroupEvent) -> None:
        config = event.config.streams.of_group(self.group_id)
        key = (SESSION, self.group_id, member_id)
        event.timer.schedule(key, event.now_ms + config.session_timeout_ms)

    def _set_rebalance_timer(self, member: StreamsGroupMember, event: GroupEvent) -> None:
        key = (REBALANCE, self.group_id, member.member_id)
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            event.timer.schedule(key, event.now_ms + member.metadata.rebalance_timeout_ms)
        else:
            event.timer.cancel(key)

    def _cancel(self, member_id: str, event: GroupEvent) -> None:
        event.timer.cancel((SESSION, self.group_id, member_id))
        event.timer.cancel((REBALANCE, self.group_id, member_id))

    def undo_to_now(self, event: GroupEvent) -> None:
        """Keep everything as it is, in case what follows cannot be stored."""
        before = {name: getattr(self, name) for name in self.__slots__}
        before["members"], before["target"] = dict(self.members), dict(self.target)

        def restore(undo: GroupEvent, code: ErrorCode) -> None:
            for member_id in self.members.keys() - before["members"].keys():
                self._cancel(member_id, undo)
            for name, value in before.items():
                setattr(self, name, value)
            for member in self.members.values():
                self._extend_session(member.member_id, undo)
                self._set_rebalance_timer(member, undo)

        event.undo(restore)

    def _key(self, kind: StreamsGroupRecordType, member_id: str = "") -> bytes:
        return keys.write_key(kind, self.group_id, member_id)
