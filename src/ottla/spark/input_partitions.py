"""Plans Spark's input partitions (tasks) from offset ranges, deterministically.

A rerun of a batch must have the same tasks, because the sink identifies a task's output by its
number. So the plan depends on ranges and options only, never on cores, brokers or a clock.

Without options each partition is a task, as in Spark's source; but because a task costs about 30
ms, in which 30,000 records could be read, small ranges share one. A partition's order is kept. With
`minPartitions`, which asks for more tasks than partitions, ranges are not combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ottla.client.protocol.range_fetcher import OffsetRange

TASK_RECORDS_MIN: Final = 32_768
HOME_RECORDS_MIN: Final = 4_096  # in a host a record costs more

TaskRanges = tuple[OffsetRange, ...]


def plan_input_partitions(
    ranges: Sequence[OffsetRange],
    *,
    partitions_min: int | None = None,
    partition_records_max: int | None = None,
) -> list[TaskRanges]:
    some = [range_ for range_ in ranges if range_.size > 0]
    if partition_records_max is not None:
        some = [
            part
            for range_ in some
            for part in split(range_, -(-range_.size // partition_records_max))
        ]
    if partitions_min is None:
        most = min(TASK_RECORDS_MIN, partition_records_max or TASK_RECORDS_MIN)
        return together([[range_] for range_ in some], most)
    if len(some) >= partitions_min:
        return [(range_,) for range_ in some]
    return [(range_,) for range_ in spread(some, partitions_min)]


def ranges_by_host(ranges: Sequence[OffsetRange], hosts: int) -> list[TaskRanges]:
    """One task per host, with all partitions of that host (number modulo `hosts`) of all topics, so
    that two tasks never call the same host at once."""
    groups: dict[int, list[OffsetRange]] = {}
    for range_ in ranges:
        if range_.size > 0:
            groups.setdefault(range_.partition % hosts, []).append(range_)
    return together([groups[number] for number in sorted(groups)], HOME_RECORDS_MIN)


def spread(ranges: Sequence[OffsetRange], count_min: int) -> list[OffsetRange]:
    """Splits ranges in proportion to their records into about `count_min` parts, as Spark does.

    Ranges that are too small for a share stay whole and do not count.
    """
    total = sum(range_.size for range_ in ranges)
    small = [range_ for range_ in ranges if round(range_.size / total * count_min) < 1]
    room = max(1, count_min - len(small))
    large_total = total - sum(range_.size for range_ in small)
    parts: list[OffsetRange] = []
    for range_ in ranges:
        share = 1 if range_ in small else max(1, round(range_.size / large_total * room))
        parts += split(range_, share)
    return parts


def split(range_: OffsetRange, count: int) -> list[OffsetRange]:
    """Splits into `count` parts whose sizes differ by at most one record."""
    topic, partition, start, _ = range_
    edges = [start + range_.size * number // count for number in range(count + 1)]
    return [OffsetRange(topic, partition, low, high) for low, high in pairwise(edges) if low < high]


def together(groups: Sequence[Sequence[OffsetRange]], records_min: int) -> list[TaskRanges]:
    """Combines neighbouring groups into tasks of at most `records_min` records."""
    tasks: list[list[OffsetRange]] = []
    size = 0
    for group in groups:
        more = sum(range_.size for range_ in group)
        if not tasks or size + more > records_min:
            tasks.append([])
            size = 0
        tasks[-1] += group
        size += more
    return [tuple(task) for task in tasks]
