"""Ranges of partitions -> tasks. The same ranges and options give the same tasks, on any machine.

A batch that runs again must be cut as it was, as the sink knows by a task's number what that task
has written. So nothing here looks at cores, at brokers or at a clock.

Without options each partition of a topic is a task, as in Spark's source; but a task costs about
30 ms, in which 30,000 records are read, so that small ranges share one. Order within a partition
stays. Who asks for `minPartitions` wants more tasks than there are partitions: nothing is put
together then.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ottla.client.protocol.fetching import Range

TASK_RECORDS_MIN: Final = 32_768
HOME_RECORDS_MIN: Final = 4_096  # a record costs more there

Task = tuple[Range, ...]


def plan(
    ranges: Sequence[Range],
    *,
    partitions_min: int | None = None,
    partition_records_max: int | None = None,
) -> list[Task]:
    some = [each for each in ranges if each.size > 0]
    if partition_records_max is not None:
        some = [
            part for each in some for part in split(each, -(-each.size // partition_records_max))
        ]
    if partitions_min is None:
        most = min(TASK_RECORDS_MIN, partition_records_max or TASK_RECORDS_MIN)
        return together([[each] for each in some], most)
    if len(some) >= partitions_min:
        return [(each,) for each in some]
    return [(each,) for each in spread(some, partitions_min)]


def by_homes(ranges: Sequence[Range], homes: int) -> list[Task]:
    """What goes to a home is in one task, whatever the topics: partitions of a number, and those
    that lie `homes` further on. So nobody calls at a home while another does."""
    groups: dict[int, list[Range]] = {}
    for each in ranges:
        if each.size > 0:
            groups.setdefault(each.partition % homes, []).append(each)
    return together([groups[number] for number in sorted(groups)], HOME_RECORDS_MIN)


def spread(ranges: Sequence[Range], count_min: int) -> list[Range]:
    """Each range cut by its share of all records, in about `count_min` parts, as Spark does.

    Those which are too small for a share of their own stay whole and do not count.
    """
    total = sum(each.size for each in ranges)
    small = [each for each in ranges if round(each.size / total * count_min) < 1]
    room = max(1, count_min - len(small))
    large_total = total - sum(each.size for each in small)
    parts: list[Range] = []
    for each in ranges:
        share = 1 if each in small else max(1, round(each.size / large_total * room))
        parts += split(each, share)
    return parts


def split(range_: Range, count: int) -> list[Range]:
    """`count` parts of the same size, but for one record."""
    topic, partition, start, _ = range_
    edges = [start + range_.size * each // count for each in range(count + 1)]
    return [Range(topic, partition, low, high) for low, high in pairwise(edges) if low < high]


def together(groups: Sequence[Sequence[Range]], records_min: int) -> list[Task]:
    """Neighbours share a task for as long as they have no more than `records_min` between them."""
    tasks: list[list[Range]] = []
    size = 0
    for group in groups:
        more = sum(each.size for each in group)
        if not tasks or size + more > records_min:
            tasks.append([])
            size = 0
        tasks[-1] += group
        size += more
    return [tuple(each) for each in tasks]
