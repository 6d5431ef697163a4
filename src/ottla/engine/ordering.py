"""In which order a task takes the rows of a batch; a shuffle keeps none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final

from ottla.engine.records import Input

# Of an Input, by their places: nothing is called for each row then.
_origin_topic_partition: Final = itemgetter(8, 0, 1)
_offset_and_turn: Final = itemgetter(2, 7)


def in_order(
    rows: Iterable[Input], time_of: Callable[[Input], int] = attrgetter("timestamp")
) -> list[Input]:
    """As Kafka's tasks take records: each partition in order, of all first ones the oldest."""
    lanes: dict[tuple[str, int], list[Input]] = {}
    for (origin, topic, partition), some in groupby(rows, _origin_topic_partition):
        lanes.setdefault((origin or topic, partition), []).extend(some)
    for lane in lanes.values():
        lane.sort(key=_offset_and_turn)
    if len(lanes) == 1:
        return next(iter(lanes.values()))
    ordered = [lanes[name] for name in sorted(lanes)]
    heads = [(time_of(lane[0]), number, 0) for number, lane in enumerate(ordered)]
    heapify(heads)
    merged: list[Input] = []
    while heads:
        _, number, place = heappop(heads)
        lane = ordered[number]
        merged.append(lane[place])
        if place + 1 < len(lane):
            heappush(heads, (time_of(lane[place + 1]), number, place + 1))
    return merged
