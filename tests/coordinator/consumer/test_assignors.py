"""Invariants of every assignment, for any subscriptions."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.consumer.assignors import (
    ASSIGNORS,
    Counts,
    Subscriber,
    assign_range,
    assign_uniform,
)
from ottla.coordinator.consumer.member import NO_PARTITIONS, PartitionSet

TOPICS = [bytes([n]) * 16 for n in range(1, 6)]
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS})
SUBSCRIPTIONS = st.frozensets(st.sampled_from(TOPICS), max_size=5)


def made(
    subscriptions: Sequence[frozenset[bytes]], before: dict[str, PartitionSet]
) -> list[Subscriber]:
    return [
        Subscriber(
            f"m{n}", f"i{n}" if n % 3 == 0 else None, topics, before.get(f"m{n}", NO_PARTITIONS)
        )
        for n, topics in enumerate(subscriptions)
    ]


def check_sound(
    members: list[Subscriber], counts: Counts, targets: dict[str, PartitionSet]
) -> None:
    """Every subscribed partition has one owner, which is subscribed to it."""
    assert targets.keys() == {member.member_id for member in members}
    given_out = [partition for target in targets.values() for partition in target]
    assert len(given_out) == len(set(given_out))
    wanted = frozenset().union(*(member.topic_ids for member in members))
    assert set(given_out) == {(t, index) for t in wanted for index in range(counts[t])}
    for member in members:
        assert {topic for topic, _ in targets[member.member_id]} <= member.topic_ids


@given(COUNTS, SUBSCRIPTIONS, st.integers(1, 12), st.integers(1, 12), COUNTS)
def test_uniform_is_even_and_sticky_where_all_want_the_same(
    counts: Counts, topics: frozenset[bytes], size: int, size_after: int, counts_after: Counts
) -> None:
    members = made([topics] * size, {})
    before = assign_uniform(members, counts)
    check_sound(members, counts, before)
    members = made([topics] * size_after, before)
    targets = assign_uniform(members, counts_after)
    check_sound(members, counts_after, targets)
    sizes = [len(target) for target in targets.values()]
    assert max(sizes) - min(sizes) <= 1
    # As many stay as can: each keeps up to the quota, and as many as there are one more.
    quota, extra = divmod(sum(sizes), size_after)
    valid = [
        sum(i < counts_after[t] for t, i in before.get(f"m{n}", ())) for n in range(size_after)
    ]
    most = sum(min(count, quota) for count in valid) + min(extra, sum(e > quota for e in valid))
    stayed = sum(len(target & before.get(name, NO_PARTITIONS)) for name, target in targets.items())
    assert stayed == most
    assert assign_uniform(made([topics] * size_after, targets), counts_after) == targets


@given(COUNTS, st.lists(SUBSCRIPTIONS, min_size=1, max_size=9), st.lists(SUBSCRIPTIONS, min_size=1))
def test_uniform_leaves_nothing_to_gain_where_members_want_different_topics(
    counts: Counts, subscriptions: list[frozenset[bytes]], changed: list[frozenset[bytes]]
) -> None:
    before = assign_uniform(made(subscriptions, {}), counts)
    members = made(changed, before)
    targets = assign_uniform(members, counts)
    check_sound(members, counts, targets)
    for member in members:
        for other in members:
            shared = {topic for topic, _ in targets[member.member_id]} & other.topic_ids
            if shared:
                assert len(targets[member.member_id]) - len(targets[other.member_id]) <= 1
    assert assign_uniform(made(changed, targets), counts) == targets


@given(COUNTS, st.lists(SUBSCRIPTIONS, min_size=1, max_size=9))
def test_range_gives_each_member_the_same_range_of_topics_with_as_many_partitions(
    counts: Counts, subscriptions: list[frozenset[bytes]]
) -> None:
    members = made(subscriptions, {})
    targets = assign_range(members, counts)
    check_sound(members, counts, targets)
    for a in TOPICS:
        for b in TOPICS:
            together = all((a in m.topic_ids) == (b in m.topic_ids) for m in members)
            if counts[a] == counts[b] and together:
                for target in targets.values():
                    assert {i for t, i in target if t == a} == {i for t, i in target if t == b}


def test_range_knows_instances_again_under_other_member_ids() -> None:
    topic = TOPICS[0]
    first = [Subscriber("z", "one", frozenset([topic])), Subscriber("a", "two", frozenset([topic]))]
    again = [Subscriber("b", "one", frozenset([topic])), Subscriber("a", "two", frozenset([topic]))]
    assert assign_range(first, {topic: 5})["z"] == assign_range(again, {topic: 5})["b"]


def test_without_members_nothing_is_assigned() -> None:
    assert all(assign([], {TOPICS[0]: 3}) == {} for assign in ASSIGNORS.values())


def test_a_target_that_stays_is_the_same_object() -> None:
    members = made([frozenset(TOPICS)] * 3, {})
    counts = dict.fromkeys(TOPICS, 4)
    for assign in ASSIGNORS.values():
        before = assign(members, counts)
        after = assign(made([frozenset(TOPICS)] * 3, before), counts)
        assert all(after[name] is target for name, target in before.items())


def test_assigning_many_members_with_different_topics_is_fast() -> None:
    topics = [number.to_bytes(16, "big") for number in range(300)]
    counts = dict.fromkeys(topics, 10)
    wanted = frozenset(topics), frozenset(topics[1:])
    members = [Subscriber(f"m{n}", None, wanted[n % 2]) for n in range(300)]
    first = assign_uniform(members, counts)
    members = [member._replace(target=first[member.member_id]) for member in members]
    began = time.thread_time()
    second = assign_uniform([*members, Subscriber("new", None, wanted[0])], counts)
    assert time.thread_time() - began < 2
    assert {len(target) for target in second.values()} == {9, 10}
