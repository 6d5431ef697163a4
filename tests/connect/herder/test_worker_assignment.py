"""Assignments are balanced, and no connector is assigned while another worker still owns it."""

from __future__ import annotations

import random

from ottla.connect.herder.assignment import WorkerAssignment, WorkerState, assign


def test_worker_states_and_assignments_survive_a_round_trip() -> None:
    member = WorkerState("http://a:1", ("x", "y"))
    assert WorkerState.from_json(member.to_json()) == member
    assignment = WorkerAssignment("http://a:1", 7, ("x",), {"x": "http://a:1"})
    assert WorkerAssignment.from_json(assignment.to_json()) == assignment


def test_a_dead_workers_connectors_go_to_the_others_at_once() -> None:
    members = {"a": WorkerState("", ("1", "2", "3")), "b": WorkerState("", ("4", "5", "6"))}
    found = assign(map(str, range(1, 10)), members)
    assert found == {"a": ["1", "2", "3", "7", "9"], "b": ["4", "5", "6", "8"]}


def test_a_new_worker_gets_its_share_when_the_others_have_stopped_it() -> None:
    has = WorkerState("", ("1", "2", "3", "4"))
    first = assign("1234", {"a": has, "b": WorkerState("")})
    assert first == {"a": ["1", "2"], "b": []}
    second = assign("1234", {"a": WorkerState("", ("1", "2")), "b": WorkerState("")})
    assert second == {"a": ["1", "2"], "b": ["3", "4"]}


def test_the_first_of_two_owners_keeps_a_connector_and_deleted_ones_go() -> None:
    members = {"a": WorkerState("", ("1", "gone")), "b": WorkerState("", ("1", "2"))}
    assert assign("12", members) == {"a": ["1"], "b": ["2"]}


def test_after_any_history_connectors_are_assigned_once_and_evenly() -> None:
    chance = random.Random(5)
    for _ in range(200):
        names = [str(number) for number in range(chance.randrange(20))]
        ids = [f"m{number}" for number in range(chance.randrange(1, 5))]
        members = {
            worker_id: WorkerState("", tuple(n for n in names if chance.random() < 0.4))
            for worker_id in ids
        }
        for _ in range(3):
            before = {name for member in members.values() for name in member.owned}
            found = assign(names, members)
            given = [name for mine in found.values() for name in mine]
            assert len(given) == len(set(given))
            for id_, mine in found.items():
                assert set(mine) - set(members[id_].owned) <= set(names) - before
            members = {id_: WorkerState("", tuple(mine)) for id_, mine in found.items()}
        assert sorted(given) == sorted(names)
        sizes = [len(mine) for mine in found.values()]
        assert max(sizes) - min(sizes) <= 1
