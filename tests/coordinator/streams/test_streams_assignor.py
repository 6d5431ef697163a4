"""The sticky assignor: after any change, loads are even and few tasks move."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ottla.coordinator.streams.assignor import SubtopologyTasks, TaskHolder, assign_tasks
from ottla.coordinator.streams.tasks import NO_TASKS, TaskRole, TaskSet

SUBTOPOLOGIES = [SubtopologyTasks("0", 6, False), SubtopologyTasks("1", 6, True)]


def members(processes: dict[str, str], before: dict[str, TaskSet]) -> dict[str, TaskHolder]:
    return {
        member_id: TaskHolder(process_id, before.get(member_id, NO_TASKS))
        for member_id, process_id in processes.items()
    }


def places(tasks: TaskSet, role: TaskRole) -> set[tuple[str, int]]:
    return {(task.subtopology_id, task.partition) for task in tasks if task.role is role}


def check(target: dict[str, TaskSet], processes: dict[str, str], standby_count: int) -> None:
    """Every task is active once; standbys are in other processes; shares are even."""
    active = Counter(place for tasks in target.values() for place in places(tasks, TaskRole.ACTIVE))
    wanted = {
        (subtopology.subtopology_id, i)
        for subtopology in SUBTOPOLOGIES
        for i in range(subtopology.task_count)
    }
    assert set(active) == wanted
    assert set(active.values()) == {1}
    by_process = Counter(
        (processes[member_id], task.subtopology_id, task.partition)
        for member_id, tasks in target.items()
        for task in tasks
    )
    assert max(by_process.values()) == 1
    standby = Counter(
        place for tasks in target.values() for place in places(tasks, TaskRole.STANDBY)
    )
    most = min(standby_count, len(set(processes.values())) - 1)
    assert set(standby) == ({("1", i) for i in range(6)} if most else set())
    assert set(standby.values()) <= {most}
    counts = [len(places(tasks, TaskRole.ACTIVE)) for tasks in target.values()]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("standby_count", [0, 1, 2])
def test_assignments_follow_members_that_join_and_leave(standby_count: int) -> None:
    dice = random.Random(standby_count)
    processes: dict[str, str] = {"m0": "p0"}
    target: dict[str, TaskSet] = {}
    for step in range(60):
        if len(processes) > 1 and dice.random() < 0.45:
            del processes[dice.choice(sorted(processes))]
        elif len(processes) < 8:
            processes[f"n{step}"] = f"p{step}"  # one thread each: shares can be even
        target = assign_tasks(members(processes, target), SUBTOPOLOGIES, standby_count)
        assert set(target) == set(processes)
        check(target, processes, standby_count)


def test_nothing_moves_without_need() -> None:
    processes = {"a": "one", "b": "two", "c": "three"}
    first = assign_tasks(members(processes, {}), SUBTOPOLOGIES, 1)
    assert assign_tasks(members(processes, first), SUBTOPOLOGIES, 1) == first


def test_a_member_with_the_state_takes_over() -> None:
    processes = {"a": "one", "b": "two", "c": "three"}
    stateful = [SubtopologyTasks("1", 6, True)]
    first = assign_tasks(members(processes, {}), stateful, 1)
    lost = places(first["c"], TaskRole.ACTIVE)
    del processes["c"]
    second = assign_tasks(members(processes, first), stateful, 1)
    taken = ready = 0
    for member_id in processes:
        kept = places(first[member_id], TaskRole.ACTIVE)
        new = places(second[member_id], TaskRole.ACTIVE) - kept
        assert kept < places(second[member_id], TaskRole.ACTIVE)
        taken += len(new & lost)
        ready += len(new & places(first[member_id], TaskRole.STANDBY))
    assert taken == len(lost)
    assert ready >= 1  # all of them, if their standbys do not lie in one place


def test_threads_of_a_process_share_its_load() -> None:
    processes = {"a1": "one", "a2": "one", "b": "two"}
    target = assign_tasks(members(processes, {}), SUBTOPOLOGIES, 0)
    assert [len(target[member_id]) for member_id in ("a1", "a2", "b")] == [4, 4, 4]


def test_each_subtopology_is_spread() -> None:
    """As Apache Kafka 4.3.1 assigns four and four tasks to two processes."""
    subtopologies = [SubtopologyTasks("0", 4, False), SubtopologyTasks("1", 4, True)]
    target = assign_tasks(members({"a": "one", "b": "two"}, {}), subtopologies, 0)
    assert places(target["a"], TaskRole.ACTIVE) == {("0", 0), ("0", 2), ("1", 0), ("1", 2)}


def test_standbys_without_a_process_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    target = assign_tasks(members({"a": "one"}, {}), SUBTOPOLOGIES, 1)
    assert not places(target["a"], TaskRole.STANDBY)
    (record,) = caplog.records
    assert "Unable to assign 6 of 6 standby tasks." in record.getMessage()
    assert assign_tasks({}, SUBTOPOLOGIES, 1) == {}
