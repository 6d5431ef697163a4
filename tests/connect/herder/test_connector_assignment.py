"""Who runs what: balanced, and nothing is given to a second worker while the first one has it."""

from __future__ import annotations

import random

from ottla.connect.herder.assignment import Assignment, Member, assign


def test_members_and_assignments_travel_as_bytes() -> None:
    member = Member("http://a:1", ("x", "y"))
    assert Member.from_json(member.to_json()) == member
    told = Assignment("http://a:1", 7, ("x",), {"x": "http://a:1"})
    assert Assignment.from_json(told.to_json()) == told


def test_a_dead_workers_connectors_go_to_the_others_at_once() -> None:
    members = {"a": Member("", ("1", "2", "3")), "b": Member("", ("4", "5", "6"))}
    found = assign(map(str, range(1, 10)), members)
    assert found == {"a": ["1", "2", "3", "7", "9"], "b": ["4", "5", "6", "8"]}


def test_a_new_worker_gets_its_share_when_the_others_have_stopped_it() -> None:
    has = Member("", ("1", "2", "3", "4"))
    first = assign("1234", {"a": has, "b": Member("")})
    assert first == {"a": ["1", "2"], "b": []}
    second = assign("1234", {"a": Member("", ("1", "2")), "b": Member("")})
    assert second == {"a": ["1", "2"], "b": ["3", "4"]}


def test_what_two_workers_claim_belongs_to_the_first_and_what_is_deleted_to_nobody() -> None:
    members = {"a": Member("", ("1", "gone")), "b": Member("", ("1", "2"))}
    assert assign("12", members) == {"a": ["1"], "b": ["2"]}


def test_after_any_history_all_is_given_once_and_evenly() -> None:
    chance = random.Random(5)
    for _ in range(200):
        names = [str(each) for each in range(chance.randrange(20))]
        ids = [f"m{each}" for each in range(chance.randrange(1, 5))]
        members = {
            each: Member("", tuple(n for n in names if chance.random() < 0.4)) for each in ids
        }
        for _ in range(3):
            before = {name for member in members.values() for name in member.owned}
            found = assign(names, members)
            given = [name for mine in found.values() for name in mine]
            assert len(given) == len(set(given))
            for id_, mine in found.items():
                assert set(mine) - set(members[id_].owned) <= set(names) - before
            members = {id_: Member("", tuple(mine)) for id_, mine in found.items()}
        assert sorted(given) == sorted(names)
        sizes = [len(mine) for mine in found.values()]
        assert max(sizes) - min(sizes) <= 1
