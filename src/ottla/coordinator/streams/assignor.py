"""Kafka's `sticky` assignor of streams groups: even loads first, then as few moves as possible.

Active tasks stay with the member that had them, else they go to one that had them as standby, else
to the process with the least load, as long as nobody gets more than an even share. Standbys of
stateful tasks follow by the same rules, and never lie in a process that has the task already.
The load of a process is its tasks over its members.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.coordinator.streams.tasks import StreamsTask, TaskRole, TaskSet

_log = logging.getLogger("ottla.coordinator")

_Place = tuple[str, int]  # subtopology and partition: a task in any role


class TaskHolder(NamedTuple):
    """A member as the assignor sees it; `previous` is its last target."""

    process_id: str
    previous: TaskSet


class SubtopologyTasks(NamedTuple):
    """How many tasks a subtopology has, and whether they have state."""

    subtopology_id: str
    task_count: int
    is_stateful: bool


def assign_tasks(
    members: Mapping[str, TaskHolder], subtopologies: Sequence[SubtopologyTasks], standby_count: int
) -> dict[str, TaskSet]:
    """The target of every member."""
    if not members:
        return {}
    active = list(_places(subtopologies))
    stateful = list(_places(each for each in subtopologies if each.is_stateful))
    total = len(active) + standby_count * len(stateful)
    placement = _Placement(members, active_count=len(active), task_count=total)
    _assign_active(placement, active)
    if standby_count:
        _assign_standby(placement, stateful, standby_count)
    return {member_id: frozenset(tasks) for member_id, tasks in placement.tasks.items()}


def _places(subtopologies: Iterable[SubtopologyTasks]) -> Iterable[_Place]:
    for subtopology in subtopologies:
        for index in range(subtopology.task_count):
            yield subtopology.subtopology_id, index


class _Share:
    """How many tasks a member may have so that all are as even as they can be."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks = task_count
        self._members = member_count
        self.most = self._even()

    def _even(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def took(self, count: int) -> None:
        """A member has so many now; one that is full leaves the rest to the others."""
        if count == self.most:
            self._members -= 1
            self._tasks -= count
            self.most = self._even()


class _Placement:
    """Who has what so far."""

    def __init__(
        self, members: Mapping[str, TaskHolder], *, active_count: int, task_count: int
    ) -> None:
        self.tasks: dict[str, list[StreamsTask]] = {member_id: [] for member_id in sorted(members)}
        self.process_of = {member_id: holder.process_id for member_id, holder in members.items()}
        self.had_active: dict[_Place, str] = {}
        self.had_standby: dict[_Place, list[str]] = {}
        self.active_share = _Share(active_count, len(members))
        self.share = _Share(task_count, len(members))
        self._members: dict[str, list[str]] = {}
        self._held: dict[str, set[_Place]] = {}
        self._loads: dict[str, int] = {}
        for member_id in self.tasks:
            process_id, previous = members[member_id]
            self._members.setdefault(process_id, []).append(member_id)
            self._held.setdefault(process_id, set())
            self._loads.setdefault(process_id, 0)
            for task in sorted(previous):
                self._remember(task.role, (task.subtopology_id, task.partition), member_id)

    def _remember(self, role: TaskRole, place: _Place, member_id: str) -> None:
        if role is TaskRole.ACTIVE:
            self.had_active[place] = member_id
        else:
            self.had_standby.setdefault(place, []).append(member_id)

    def count(self, member_id: str) -> int:
        return len(self.tasks[member_id])

    def load(self, process_id: str) -> float:
        return self._loads[process_id] / len(self._members[process_id])

    def has(self, process_id: str, place: _Place) -> bool:
        return place in self._held[process_id]

    def add(self, member_id: str, role: TaskRole, place: _Place) -> None:
        process_id = self.process_of[member_id]
        self.tasks[member_id].append(StreamsTask(role, *place))
        self._held[process_id].add(place)
        self._loads[process_id] += 1
        self.share.took(self.count(member_id))
        if role is TaskRole.ACTIVE:
            self.active_share.took(self.count(member_id))

    def least_loaded(self, place: _Place) -> str | None:
        """A member of the least loaded process that does not have the task yet."""
        free = [process_id for process_id in self._members if not self.has(process_id, place)]
        if not free:
            return None
        process_id = min(free, key=self.load)
        return min(self._members[process_id], key=self.count)

    def standby_before(self, place: _Place) -> str | None:
        """Of those that had it as standby, the one with the least to do."""
        before = [
            member_id
            for member_id in self.had_standby.get(place, ())
            if not self.has(self.process_of[member_id], place)
        ]
        return min(
            before,
            key=lambda member_id: (self.load(self.process_of[member_id]), self.count(member_id)),
            default=None,
        )


def _by_partition(place: _Place) -> tuple[int, str]:
    return place[1], place[0]


def _assign_active(placement: _Placement, places: list[_Place]) -> None:
    left = []
    for place in sorted(places, key=_by_partition):
        before = placement.had_active.get(place)
        if before is not None and placement.count(before) < placement.active_share.most:
            placement.add(before, TaskRole.ACTIVE, place)
        else:
            left.append(place)
    rest = []
    for place in left:
        before = placement.standby_before(place)
        if before is not None and placement.count(before) < placement.active_share.most:
            placement.add(before, TaskRole.ACTIVE, place)
        else:
            rest.append(place)
    # By subtopology first: in turn, so that each of them is spread over the processes.
    for place in sorted(rest):
        member_id = placement.least_loaded(place)
        assert member_id is not None, "a task is active once"
        placement.add(member_id, TaskRole.ACTIVE, place)


def _assign_standby(placement: _Placement, places: list[_Place], replica_count: int) -> None:
    left: list[tuple[_Place, int]] = []
    for place in sorted(places, key=_by_partition, reverse=True):
        for done in range(replica_count):
            member_id = _standby_again(placement, place)
            if member_id is None:
                left.append((place, replica_count - done))
                break
            placement.add(member_id, TaskRole.STANDBY, place)
    without = 0
    for place, count in sorted(left, reverse=True):
        for _ in range(count):
            member_id = placement.least_loaded(place)
            if member_id is None:
                without += 1
                continue
            placement.add(member_id, TaskRole.STANDBY, place)
    if without:  # one line: in a group of one process it is true of every task
        _log.warning(
            "Unable to assign %d of %d standby tasks. There is not enough available capacity. You"
            " should increase the number of threads and/or application instances to maintain the"
            " requested number of standby replicas.",
            *(without, replica_count * len(places)),
        )


def _standby_again(placement: _Placement, place: _Place) -> str | None:
    """Who has its state already: the member where it was active, else where it was a standby."""
    active = placement.had_active.get(place)
    candidates = [active, placement.standby_before(place)]
    for member_id in candidates:
        if (
            member_id is not None
            and not placement.has(placement.process_of[member_id], place)
            and placement.count(member_id) < placement.share.most
        ):
            return member_id
    return None
