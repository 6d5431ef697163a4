"""Kafka's `sticky` assignor of streams groups: even loads first, then as few moves as possible.

Active tasks stay with the member that had them, else they go to one that had them as standby, else
to the process with the least load, as long as no member gets more than an even share. Standbys of
stateful tasks are assigned by the same rules, never to a process that has the task already. The
load of a process is the number of its tasks, divided by that of its members.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.coordinator.streams.tasks import StreamsTask, TaskRole, TaskSet

_log = logging.getLogger("ottla.coordinator")

_TaskId = tuple[str, int]  # subtopology and partition: a task in any role


class TaskHolder(NamedTuple):
    """A member as the assignor sees it; `previous` is its last target."""

    process_id: str
    previous: TaskSet


class SubtopologyTasks(NamedTuple):
    """The number of tasks of a subtopology, and whether they have state."""

    subtopology_id: str
    task_count: int
    is_stateful: bool


def assign_tasks(
    members: Mapping[str, TaskHolder], subtopologies: Sequence[SubtopologyTasks], standby_count: int
) -> dict[str, TaskSet]:
    """The target of every member."""
    if not members:
        return {}
    active = list(_task_ids(subtopologies))
    stateful = list(
        _task_ids(subtopology for subtopology in subtopologies if subtopology.is_stateful)
    )
    total = len(active) + standby_count * len(stateful)
    assignor = _TaskAssignor(members, active_count=len(active), task_count=total)
    _assign_active(assignor, active)
    if standby_count:
        _assign_standby(assignor, stateful, standby_count)
    return {member_id: frozenset(tasks) for member_id, tasks in assignor.tasks.items()}


def _task_ids(subtopologies: Iterable[SubtopologyTasks]) -> Iterable[_TaskId]:
    for subtopology in subtopologies:
        for index in range(subtopology.task_count):
            yield subtopology.subtopology_id, index


class _Share:
    """How many tasks a member may have so that the assignment is as even as possible."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks = task_count
        self._members = member_count
        self.most = self._even()

    def _even(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def took(self, count: int) -> None:
        """A member has so many tasks now; once it has its share, the others divide the rest."""
        if count == self.most:
            self._members -= 1
            self._tasks -= count
            self.most = self._even()


class _TaskAssignor:
    """The assignment so far."""

    def __init__(
        self, members: Mapping[str, TaskHolder], *, active_count: int, task_count: int
    ) -> None:
        self.tasks: dict[str, list[StreamsTask]] = {member_id: [] for member_id in sorted(members)}
        self.process_of = {member_id: holder.process_id for member_id, holder in members.items()}
        self.had_active: dict[_TaskId, str] = {}
        self.had_standby: dict[_TaskId, list[str]] = {}
        self.active_share = _Share(active_count, len(members))
        self.share = _Share(task_count, len(members))
        self._members: dict[str, list[str]] = {}
        self._held: dict[str, set[_TaskId]] = {}
        self._loads: dict[str, int] = {}
        for member_id in self.tasks:
            process_id, previous = members[member_id]
            self._members.setdefault(process_id, []).append(member_id)
            self._held.setdefault(process_id, set())
            self._loads.setdefault(process_id, 0)
            for task in sorted(previous):
                self._remember(task.role, (task.subtopology_id, task.partition), member_id)

    def _remember(self, role: TaskRole, task_id: _TaskId, member_id: str) -> None:
        if role is TaskRole.ACTIVE:
            self.had_active[task_id] = member_id
        else:
            self.had_standby.setdefault(task_id, []).append(member_id)

    def count(self, member_id: str) -> int:
        return len(self.tasks[member_id])

    def load(self, process_id: str) -> float:
        return self._loads[process_id] / len(self._members[process_id])

    def has(self, process_id: str, task_id: _TaskId) -> bool:
        return task_id in self._held[process_id]

    def add(self, member_id: str, role: TaskRole, task_id: _TaskId) -> None:
        process_id = self.process_of[member_id]
        self.tasks[member_id].append(StreamsTask(role, *task_id))
        self._held[process_id].add(task_id)
        self._loads[process_id] += 1
        self.share.took(self.count(member_id))
        if role is TaskRole.ACTIVE:
            self.active_share.took(self.count(member_id))

    def least_loaded(self, task_id: _TaskId) -> str | None:
        """A member of the least loaded process that does not have the task yet."""
        free = [process_id for process_id in self._members if not self.has(process_id, task_id)]
        if not free:
            return None
        process_id = min(free, key=self.load)
        return min(self._members[process_id], key=self.count)

    def standby_before(self, task_id: _TaskId) -> str | None:
        """Of the members that had it as standby, the one with the least load."""
        before = [
            member_id
            for member_id in self.had_standby.get(task_id, ())
            if not self.has(self.process_of[member_id], task_id)
        ]
        return min(
            before,
            key=lambda member_id: (self.load(self.process_of[member_id]), self.count(member_id)),
            default=None,
        )


def _by_partition(task_id: _TaskId) -> tuple[int, str]:
    return task_id[1], task_id[0]


def _assign_active(assignor: _TaskAssignor, task_ids: list[_TaskId]) -> None:
    left = []
    for task_id in sorted(task_ids, key=_by_partition):
        before = assignor.had_active.get(task_id)
        if before is not None and assignor.count(before) < assignor.active_share.most:
            assignor.add(before, TaskRole.ACTIVE, task_id)
        else:
            left.append(task_id)
    rest = []
    for task_id in left:
        before = assignor.standby_before(task_id)
        if before is not None and assignor.count(before) < assignor.active_share.most:
            assignor.add(before, TaskRole.ACTIVE, task_id)
        else:
            rest.append(task_id)
    # By subtopology first: in turn, so that each of them is spread over the processes.
    for task_id in sorted(rest):
        member_id = assignor.least_loaded(task_id)
        assert member_id is not None, "a task is active once"
        assignor.add(member_id, TaskRole.ACTIVE, task_id)


def _assign_standby(assignor: _TaskAssignor, task_ids: list[_TaskId], replica_count: int) -> None:
    left: list[tuple[_TaskId, int]] = []
    for task_id in sorted(task_ids, key=_by_partition, reverse=True):
        for done in range(replica_count):
            member_id = _standby_again(assignor, task_id)
            if member_id is None:
                left.append((task_id, replica_count - done))
                break
            assignor.add(member_id, TaskRole.STANDBY, task_id)
    without = 0
    for task_id, count in sorted(left, reverse=True):
        for _ in range(count):
            member_id = assignor.least_loaded(task_id)
            if member_id is None:
                without += 1
                continue
            assignor.add(member_id, TaskRole.STANDBY, task_id)
    if without:  # one line: in a group of one process it is true of every task
        _log.warning(
            "Unable to assign %d of %d standby tasks. There is not enough available capacity. You"
            " should increase the number of threads and/or application instances to maintain the"
            " requested number of standby replicas.",
            *(without, replica_count * len(task_ids)),
        )


def _standby_again(assignor: _TaskAssignor, task_id: _TaskId) -> str | None:
    """The member that has its state: where it was active, else where it was a standby."""
    active = assignor.had_active.get(task_id)
    candidates = [active, assignor.standby_before(task_id)]
    for member_id in candidates:
        if (
            member_id is not None
            and not assignor.has(assignor.process_of[member_id], task_id)
            and assignor.count(member_id) < assignor.share.most
        ):
            return member_id
    return None
