"""A streams group: its topology, its members, and which tasks they run (KIP-1071).

Members send heartbeats and are told their tasks, as in a consumer group:

    the group's epoch        grows when members, topics or the configs of the assignment change
    the assignment's epoch   the group's epoch that the target was made for
    a member's epoch         that of the target it has reached, or is about to

The group begins with the epochs 1 and 1, so that its first member can be told an epoch while the
first target waits for more members (`streams.initial.rebalance.delay.ms`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ottla.coordinator.kinds import Commit, Topics, metadata_hash
from ottla.coordinator.outcome import RecordBytes, Turn
from ottla.coordinator.streams import keys
from ottla.coordinator.streams.assignor import SubtopologyTasks, TaskHolder, assign_tasks
from ottla.coordinator.streams.config import StreamsGroupConfig
from ottla.coordinator.streams.configured import ConfiguredTopology, configure
from ottla.coordinator.streams.keys import StoredStreamsGroup, StoredTasks, StreamsKey
from ottla.coordinator.streams.member import (
    StreamsMember,
    StreamsMemberAbout,
    StreamsMemberState,
)
from ottla.coordinator.streams.reconcile import StreamsGoal, reconcile_tasks
from ottla.coordinator.streams.tasks import NO_TASKS, StreamsTask, TaskRole, TaskSet
from ottla.coordinator.streams.topology import StreamsTopology
from ottla.coordinator.streams.topology_record import read_topology, write_topology
from ottla.errors import ErrorCode

SESSION: Final = "streams session"
REBALANCE: Final = "streams rebalance"
INITIAL: Final = "streams initial rebalance"
PROTOCOL_TYPE: Final = "streams"

_FIRST_EPOCH: Final = 1
_NO_EPOCH: Final = -1
_MEMBER_COMMIT_FROM: Final = 9  # the version of OffsetCommit that has a member's epoch
_OF_MEMBER: Final = (StreamsKey.MEMBER_CURRENT, StreamsKey.MEMBER_TARGET, StreamsKey.MEMBER)


class StreamsGroup:
    """`members` and the rest change only through the methods, which say so in records."""

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
        self.assignment_configs: dict[str, str] = {}  # those of the last bump
        self.assignment_epoch = _FIRST_EPOCH
        self.assigned_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, TaskSet] = {}
        self.topology: StreamsTopology | None = None
        self.configured: ConfiguredTopology | None = None
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0
        self._seen: Topics | None = None  # those that `configured` is of

    def __repr__(self) -> str:
        return f"StreamsGroup({self.group_id}, epoch {self.epoch}, {len(self.members)} members)"

    # -- what the shard asks of every group

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(self, commit: Commit) -> ErrorCode:
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
        yield self._key(StreamsKey.TARGET), None
        yield self._key(StreamsKey.GROUP), None
        yield self._key(StreamsKey.TOPOLOGY), None

    def start(self, turn: Turn) -> None:
        for member in self.members.values():
            self._prolong(member.member_id, turn)
            self._watch_revocation(member, turn)

    def stop(self, turn: Turn, code: ErrorCode) -> None:
        for member_id in self.members:
            self._cancel(member_id, turn)
        turn.deadlines.cancel((INITIAL, self.group_id, ""))

    def expire(self, what: str, member_id: str, turn: Turn) -> None:
        if what == INITIAL:
            if self.members and self.epoch > self.assignment_epoch and self.configured is not None:
                self.keep(turn)
                self._assign(turn)
            return
        member = self.members.get(member_id)
        if member is None:
            return
        if what == REBALANCE and member.state is not StreamsMemberState.UNREVOKED_TASKS:
            return
        self.remove(member_id, turn)

    # -- loading

    def restore(self, kind: StreamsKey, member_id: str, value: bytes) -> None:
        """One of its records, which come in any order."""
        match kind:
            case StreamsKey.GROUP:
                stored = keys.read_group(value)
                self.epoch, self.metadata_hash = stored.epoch, stored.metadata_hash
                self.validated_topology_epoch = stored.validated_topology_epoch
                self.assignment_configs = dict(stored.assignment_configs)
            case StreamsKey.TARGET:
                self.assignment_epoch, self.assigned_ms = keys.read_target(value)
            case StreamsKey.MEMBER_TARGET:
                self.target[member_id] = keys.read_member_target(value)
            case StreamsKey.TOPOLOGY:
                self.topology = read_topology(value)
            case StreamsKey.MEMBER:
                about = keys.read_member(value)
                self.members[member_id] = self.member(member_id)._replace(about=about)
            case StreamsKey.MEMBER_CURRENT:
                current = keys.read_current(value)
                self.members[member_id] = self.member(member_id)._replace(**current._asdict())

    def member(self, member_id: str) -> StreamsMember:
        """The member, or what it is before it has said anything."""
        nobody = StreamsMember(member_id, StreamsMemberAbout())
        return self.members.get(member_id, nobody)

    # -- the steps of a heartbeat, in this order

    def is_settled(self, member: StreamsMember, config: StreamsGroupConfig, turn: Turn) -> bool:
        """Whether a heartbeat without news changes nothing, as it nearly always is."""
        return (
            turn.topics is self._seen
            and self.epoch == self.assignment_epoch
            and member.is_reconciled_to(self.assignment_epoch)
            and config.of_assignment() == self.assignment_configs
        )

    def is_configured_for(self, topics: Topics) -> bool:
        return topics is self._seen and self.configured is not None and self.configured.is_ready

    def put_member(self, member_id: str, about: StreamsMemberAbout, turn: Turn) -> bool:
        """Whether that is news."""
        known = self.members.get(member_id)
        if known is not None and known.about == about:
            return False
        self.members[member_id] = self.member(member_id)._replace(about=about)
        turn.record(self._key(StreamsKey.MEMBER, member_id), keys.write_member(about))
        return True

    def put_topology(self, topology: StreamsTopology, turn: Turn) -> None:
        self.topology = topology
        self.configured = None
        turn.record(self._key(StreamsKey.TOPOLOGY), write_topology(topology))

    def refresh(self, turn: Turn, config: StreamsGroupConfig, *, bump: bool) -> ConfiguredTopology:
        """Hold the topology against the topics; what changed makes another epoch."""
        assert self.topology is not None, "a member that joins brings it"
        if self.configured is None or turn.topics is not self._seen:
            seen = metadata_hash(self.topology.required_topics(), turn.topics)
            if seen != self.metadata_hash or self.configured is None:
                self.configured = configure(self.topology, turn.topics)
            bump = bump or seen != self.metadata_hash
            self._seen, self.metadata_hash = turn.topics, seen
        validated = self.topology.epoch if self.configured.is_ready else keys.NOT_VALIDATED
        configs = config.of_assignment()
        if validated != self.validated_topology_epoch:
            bump = True
        if self.assignment_configs and self.assignment_configs != configs:
            bump = True
        self.validated_topology_epoch = validated
        if bump:
            self.assignment_configs = configs
            self._bump(turn)
        return self.configured

    def wait_for_others(self, config: StreamsGroupConfig, turn: Turn) -> None:
        """The first member has joined: others may be about to."""
        key = (INITIAL, self.group_id, "")
        if config.initial_rebalance_delay_ms and key not in turn.deadlines:
            turn.deadlines.set(key, turn.now_ms + config.initial_rebalance_delay_ms)

    def waits_for_others(self, turn: Turn) -> bool:
        return (INITIAL, self.group_id, "") in turn.deadlines

    def assign(self, config: StreamsGroupConfig, turn: Turn) -> bool:
        """A new target if there is need of one; False if it is too soon after the last."""
        if self.epoch <= self.assignment_epoch:
            return True
        if self.assigned_ms and turn.now_ms < self.assigned_ms + config.assignment_interval_ms:
            return False
        self._assign(turn)
        return True

    def advance(self, member_id: str, target: TaskSet, owned: TaskSet | None, turn: Turn) -> None:
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
        current = StoredTasks(
            after.epoch, after.previous_epoch, after.state, after.assigned, after.revoking
        )
        turn.record(self._key(StreamsKey.MEMBER_CURRENT, member_id), keys.write_current(current))
        self._watch_revocation(after, turn)

    def prolong(self, member_id: str, turn: Turn) -> None:
        self._prolong(member_id, turn)

    def remove(self, member_id: str, turn: Turn) -> None:
        """It left, or was not heard of or did not give up its tasks for too long."""
        self.keep(turn)
        del self.members[member_id]
        self.target.pop(member_id, None)
        for kind in _OF_MEMBER:
            turn.record(self._key(kind, member_id), None)
        self._cancel(member_id, turn)
        if not self.members:
            self.shutdown_member_id = None
        self._bump(turn)

    # -- epochs, targets

    def _bump(self, turn: Turn) -> None:
        self.epoch += 1
        stored = StoredStreamsGroup(
            self.epoch,
            self.metadata_hash,
            self.validated_topology_epoch,
            self.assignment_configs,
        )
        turn.record(self._key(StreamsKey.GROUP), keys.write_group(stored))

    def _assign(self, turn: Turn) -> None:
        target = self._new_target()
        for member_id, tasks in target.items():
            if self.target.get(member_id) != tasks:
                value = keys.write_member_target(tasks)
                turn.record(self._key(StreamsKey.MEMBER_TARGET, member_id), value)
        self.target = target
        self.assignment_epoch, self.assigned_ms = self.epoch, turn.now_ms
        value = keys.write_target(self.epoch, turn.now_ms)
        turn.record(self._key(StreamsKey.TARGET), value)

    def _new_target(self) -> dict[str, TaskSet]:
        """While a topic is missing nobody has a task."""
        if self.topology is None or self.configured is None or not self.configured.is_ready:
            return dict.fromkeys(self.members, NO_TASKS)
        counts = self.configured.task_counts
        return assign_tasks(
            {
                member_id: TaskHolder(member.about.process_id, self.target.get(member_id, NO_TASKS))
                for member_id, member in self.members.items()
            },
            [
                SubtopologyTasks(each.subtopology_id, counts[each.subtopology_id], each.is_stateful)
                for each in self.topology.subtopologies
            ],
            int(self.assignment_configs.get("num.standby.replicas", "0")),
        )

    def _is_free(self, task: StreamsTask, member: StreamsMember) -> bool:
        """No other member runs it, and no other thread of this process has its state open."""
        roles = [task._replace(role=role) for role in TaskRole]
        for other in self.members.values():
            if other.member_id == member.member_id:
                continue
            same_process = other.about.process_id == member.about.process_id
            for each in roles if same_process else [task] if task.role is TaskRole.ACTIVE else []:
                if other.task_epoch(each) is not None:
                    return False
        return True

    # -- deadlines, and taking back

    def _prolong(self, member_id: str, turn: Turn) -> None:
        config = turn.config.streams.of_group(self.group_id)
        key = (SESSION, self.group_id, member_id)
        turn.deadlines.set(key, turn.now_ms + config.session_timeout_ms)

    def _watch_revocation(self, member: StreamsMember, turn: Turn) -> None:
        key = (REBALANCE, self.group_id, member.member_id)
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            turn.deadlines.set(key, turn.now_ms + member.about.rebalance_timeout_ms)
        else:
            turn.deadlines.cancel(key)

    def _cancel(self, member_id: str, turn: Turn) -> None:
        turn.deadlines.cancel((SESSION, self.group_id, member_id))
        turn.deadlines.cancel((REBALANCE, self.group_id, member_id))

    def keep(self, turn: Turn) -> None:
        """Everything as it is, in case that what follows cannot be stored."""
        before = {name: getattr(self, name) for name in self.__slots__}
        before["members"], before["target"] = dict(self.members), dict(self.target)

        def restore(undo: Turn, code: ErrorCode) -> None:
            for member_id in self.members.keys() - before["members"].keys():
                self._cancel(member_id, undo)
            for name, value in before.items():
                setattr(self, name, value)
            for member in self.members.values():
                self._prolong(member.member_id, undo)
                self._watch_revocation(member, undo)

        turn.undo(restore)

    def _key(self, kind: StreamsKey, member_id: str = "") -> bytes:
        return keys.write_key(kind, self.group_id, member_id)
