"""The ranges and tasks of a batch depend on two offsets and the options only."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.client.record import TopicPartition
from ottla.spark.input_partitions import (
    HOME_RECORDS_MIN,
    TASK_RECORDS_MIN,
    plan_input_partitions,
    ranges_by_host,
    split,
)
from ottla.spark.offsets import (
    Offsets,
    clock_of,
    from_json,
    limited,
    ranges_between,
    to_json,
    with_clock,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PLACES = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 12))
RANGES = st.dictionaries(
    PLACES, st.tuples(st.integers(0, 1 << 40), st.integers(1, 200_000)), max_size=12
).map(lambda found: [OffsetRange(*place, *_ends(found[place])) for place in sorted(found)])


def _ends(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0], pair[0] + pair[1]


def test_offsets_are_json_of_sparks_form_in_one_order() -> None:
    ten = TopicPartition("a", 10)
    text = json.dumps(to_json({ten: 3, B0: 1, A1: 2}))
    assert text == '{"a": {"1": 2, "10": 3}, "b": {"0": 1}}'
    assert from_json(json.loads(text)) == {ten: 3, B0: 1, A1: 2}


def test_the_clock_is_an_offset_beside_the_topics() -> None:
    timed = with_clock(to_json({A0: 3}), 1_700_000_000_000)
    assert from_json(timed) == {A0: 3}
    assert clock_of(timed) == 1_700_000_000_000
    assert clock_of(to_json({A0: 3})) is None


def test_a_new_partition_begins_in_one_batch_and_is_read_in_the_next() -> None:
    assert ranges_between({A0: 5}, {A0: 7, A1: 100}) == [OffsetRange("a", 0, 5, 7)]
    assert ranges_between({A0: 7, A1: 100}, {A0: 7, A1: 103}) == [OffsetRange("a", 1, 100, 103)]


def test_a_rewound_or_deleted_partition_has_nothing_to_read() -> None:
    assert ranges_between({A0: 50, A1: 4}, {A0: 0}) == []


def test_the_limit_is_shared_by_size() -> None:
    start, end = {A0: 0, A1: 100, B0: 0}, {A0: 900, A1: 200, B0: 1}
    assert limited(start, end, 100) == {A0: 89, A1: 109, B0: 1}
    assert limited(start, end, 5000) == end


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=20), most=st.integers(1, 10**6))
def test_a_limit_holds_and_no_partition_starves(sizes: list[int], most: int) -> None:
    start: Offsets = {TopicPartition("t", partition): partition for partition in range(len(sizes))}
    end: Offsets = {place: offset + sizes[place.partition] for place, offset in start.items()}
    reached = limited(start, end, most)
    counts = [reached[place] - start[place] for place in start]
    assert all(count > 0 for count, size in zip(counts, sizes, strict=True) if size)
    assert sum(counts) <= most + len(sizes)
    assert all(start[place] <= reached[place] <= end[place] for place in start)


def test_small_partitions_share_a_task() -> None:
    ranges = [OffsetRange("t", partition, 0, 10) for partition in range(50)]
    assert plan_input_partitions(ranges) == [tuple(ranges)]
    large = [OffsetRange("t", partition, 0, TASK_RECORDS_MIN) for partition in range(3)]
    assert plan_input_partitions(large) == [(offset_range,) for offset_range in large]


def test_min_partitions_cuts_the_large_ones() -> None:
    tasks = plan_input_partitions(
        [OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 0, 100)], partitions_min=4
    )
    assert [offset_range.size for (offset_range,) in tasks] == [300, 300, 300, 100]


def test_enough_partitions_are_not_split() -> None:
    ranges = [OffsetRange("t", 0, 0, 9), OffsetRange("t", 1, 5, 6)]
    assert plan_input_partitions(ranges, partitions_min=2) == [
        (offset_range,) for offset_range in ranges
    ]


def test_max_records_cuts_whatever_is_larger() -> None:
    tasks = plan_input_partitions([OffsetRange("t", 0, 0, 25)], partition_records_max=10)
    assert [offset_range.size for (offset_range,) in tasks] == [8, 8, 9]


@settings(deadline=None)
@given(
    ranges=RANGES, least=st.none() | st.integers(1, 40), most=st.none() | st.integers(1000, 10**5)
)
def test_every_record_is_read_once_and_in_order(
    ranges: list[OffsetRange], least: int | None, most: int | None
) -> None:
    tasks = plan_input_partitions(ranges, partitions_min=least, partition_records_max=most)
    parts = [offset_range for task in tasks for offset_range in task]
    joined: list[OffsetRange] = []
    for part in parts:
        assert part.size > 0
        if most is not None:
            assert part.size <= most
        if joined and joined[-1][:2] == part[:2] and joined[-1].end == part.start:
            joined[-1] = joined[-1]._replace(end=part.end)
        else:
            joined.append(part)
    assert joined == ranges
    assert tasks == plan_input_partitions(ranges, partitions_min=least, partition_records_max=most)


@settings(deadline=None)
@given(ranges=RANGES, hosts=st.integers(1, 5))
def test_the_ranges_of_a_host_are_in_one_task(ranges: list[OffsetRange], hosts: int) -> None:
    tasks = ranges_by_host(ranges, hosts)
    assert sorted(offset_range for task in tasks for offset_range in task) == ranges
    called = [{offset_range.partition % hosts for offset_range in task} for task in tasks]
    assert sum(map(len, called)) == len({offset_range.partition % hosts for offset_range in ranges})
    for task, own in zip(tasks, called, strict=True):
        assert len(own) == 1 or sum(offset_range.size for offset_range in task) <= HOME_RECORDS_MIN


@settings(deadline=None)
@given(size=st.integers(1, 1000), count=st.integers(1, 50))
def test_a_split_is_even(size: int, count: int) -> None:
    sizes = [offset_range.size for offset_range in split(OffsetRange("t", 0, 7, 7 + size), count)]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
