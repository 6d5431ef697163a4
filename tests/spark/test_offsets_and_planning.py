"""What a batch reads and how it is cut: from two offsets and the options, and from nothing else."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.protocol.fetching import Range
from ottla.client.record import TopicPartition
from ottla.spark.offsets import (
    Offsets,
    clock_of,
    from_json,
    limited,
    ranges_between,
    to_json,
    with_clock,
)
from ottla.spark.planning import HOME_RECORDS_MIN, TASK_RECORDS_MIN, by_homes, plan, split

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PLACES = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 12))
RANGES = st.dictionaries(
    PLACES, st.tuples(st.integers(0, 1 << 40), st.integers(1, 200_000)), max_size=12
).map(lambda found: [Range(*each, *_ends(found[each])) for each in sorted(found)])


def _ends(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0], pair[0] + pair[1]


def test_offsets_are_json_of_sparks_form_in_one_order() -> None:
    ten = TopicPartition("a", 10)
    text = json.dumps(to_json({ten: 3, B0: 1, A1: 2}))
    assert text == '{"a": {"1": 2, "10": 3}, "b": {"0": 1}}'
    assert from_json(json.loads(text)) == {ten: 3, B0: 1, A1: 2}


def test_the_clock_is_beside_the_topics() -> None:
    timed = with_clock(to_json({A0: 3}), 1_700_000_000_000)
    assert from_json(timed) == {A0: 3}
    assert clock_of(timed) == 1_700_000_000_000
    assert clock_of(to_json({A0: 3})) is None


def test_a_new_partition_begins_in_one_batch_and_is_read_in_the_next() -> None:
    assert ranges_between({A0: 5}, {A0: 7, A1: 100}) == [Range("a", 0, 5, 7)]
    assert ranges_between({A0: 7, A1: 100}, {A0: 7, A1: 103}) == [Range("a", 1, 100, 103)]


def test_a_partition_that_went_back_or_is_gone_has_nothing_to_read() -> None:
    assert ranges_between({A0: 50, A1: 4}, {A0: 0}) == []


def test_the_limit_is_shared_by_size() -> None:
    start, end = {A0: 0, A1: 100, B0: 0}, {A0: 900, A1: 200, B0: 1}
    assert limited(start, end, 100) == {A0: 89, A1: 109, B0: 1}
    assert limited(start, end, 5000) == end


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=20), most=st.integers(1, 10**6))
def test_a_limit_is_kept_and_nobody_starves(sizes: list[int], most: int) -> None:
    start: Offsets = {TopicPartition("t", each): each for each in range(len(sizes))}
    end: Offsets = {place: offset + sizes[place.partition] for place, offset in start.items()}
    reached = limited(start, end, most)
    counts = [reached[each] - start[each] for each in start]
    assert all(count > 0 for count, size in zip(counts, sizes, strict=True) if size)
    assert sum(counts) <= most + len(sizes)
    assert all(start[each] <= reached[each] <= end[each] for each in start)


def test_small_partitions_share_a_task() -> None:
    ranges = [Range("t", each, 0, 10) for each in range(50)]
    assert plan(ranges) == [tuple(ranges)]
    large = [Range("t", each, 0, TASK_RECORDS_MIN) for each in range(3)]
    assert plan(large) == [(each,) for each in large]


def test_min_partitions_cuts_the_large_ones() -> None:
    tasks = plan([Range("t", 0, 0, 900), Range("t", 1, 0, 100)], partitions_min=4)
    assert [each.size for (each,) in tasks] == [300, 300, 300, 100]


def test_as_many_partitions_as_asked_for_stay_as_they_are() -> None:
    ranges = [Range("t", 0, 0, 9), Range("t", 1, 5, 6)]
    assert plan(ranges, partitions_min=2) == [(each,) for each in ranges]


def test_max_records_cuts_whatever_is_larger() -> None:
    tasks = plan([Range("t", 0, 0, 25)], partition_records_max=10)
    assert [each.size for (each,) in tasks] == [8, 8, 9]


@settings(deadline=None)
@given(
    ranges=RANGES, least=st.none() | st.integers(1, 40), most=st.none() | st.integers(1000, 10**5)
)
def test_every_record_is_read_once_and_in_order(
    ranges: list[Range], least: int | None, most: int | None
) -> None:
    tasks = plan(ranges, partitions_min=least, partition_records_max=most)
    parts = [each for task in tasks for each in task]
    joined: list[Range] = []
    for each in parts:
        assert each.size > 0
        if most is not None:
            assert each.size <= most
        if joined and joined[-1][:2] == each[:2] and joined[-1].end == each.start:
            joined[-1] = joined[-1]._replace(end=each.end)
        else:
            joined.append(each)
    assert joined == ranges
    assert tasks == plan(ranges, partitions_min=least, partition_records_max=most)


@settings(deadline=None)
@given(ranges=RANGES, homes=st.integers(1, 5))
def test_what_goes_to_a_home_is_in_one_task(ranges: list[Range], homes: int) -> None:
    tasks = by_homes(ranges, homes)
    assert sorted(each for task in tasks for each in task) == ranges
    called = [{each.partition % homes for each in task} for task in tasks]
    assert sum(map(len, called)) == len({each.partition % homes for each in ranges})
    for task, own in zip(tasks, called, strict=True):
        assert len(own) == 1 or sum(each.size for each in task) <= HOME_RECORDS_MIN


@settings(deadline=None)
@given(size=st.integers(1, 1000), count=st.integers(1, 50))
def test_a_split_is_even(size: int, count: int) -> None:
    sizes = [each.size for each in split(Range("t", 0, 7, 7 + size), count)]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
