"""The assignment of replicas to brokers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.replica_assignment import assign_replicas


def spread(text: str) -> list[list[int]]:
    return [[int(broker) for broker in line.split()] for line in text.strip().splitlines()]


def test_without_racks_followers_shift_with_every_round() -> None:
    racks = dict.fromkeys(range(5))
    assert assign_replicas(racks, 10, 3, start=0, shift=0) == spread("""
        0 1 2
        1 2 3
        2 3 4
        3 4 0
        4 0 1
        0 2 3
        1 3 4
        2 4 0
        3 0 1
        4 1 2
    """)


def test_new_partitions_continue_after_the_existing_ones() -> None:
    racks = dict.fromkeys(range(3))
    whole = assign_replicas(racks, 6, 2, start=1, shift=0)
    grown = assign_replicas(racks, 2, 2, start=1, shift=0, first_partition=4)
    assert [replicas[0] for replicas in grown] == [replicas[0] for replicas in whole[4:]]


def test_with_racks_no_partition_has_two_replicas_in_one_rack() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    assignment = assign_replicas(racks, 12, 3, start=0, shift=0)
    for replicas in assignment:
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}
    leaders = Counter(replicas[0] for replicas in assignment)
    assert set(leaders.values()) == {2}
    load = Counter(broker for replicas in assignment for broker in replicas)
    assert set(load.values()) == {6}


def test_racks_do_not_count_unless_every_broker_has_one() -> None:
    some = {0: "a", 1: None, 2: "b"}
    none = dict.fromkeys(range(3))
    assert assign_replicas(some, 3, 2, start=0, shift=0) == assign_replicas(
        none, 3, 2, start=0, shift=0
    )


@given(
    st.integers(1, 9).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.integers(1, count),
            st.lists(st.sampled_from(["a", "b", "c", None]), min_size=count, max_size=count),
        )
    ),
    st.integers(1, 40),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_every_partition_gets_different_brokers_and_the_racks_are_fair(
    cluster: tuple[int, int, list[str | None]], partitions: int, start: int, shift: int
) -> None:
    count, factor, names = cluster
    racks = dict(enumerate(names))
    assignment = assign_replicas(racks, partitions, factor, start=start, shift=shift)
    assert len(assignment) == partitions
    for replicas in assignment:
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(racks)
        if None not in names:
            used = {racks[broker] for broker in replicas}
            assert len(used) == min(factor, len(set(names)))
    if partitions >= count:
        leaders = Counter(replicas[0] for replicas in assignment)
        assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1
