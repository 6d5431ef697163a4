"""In which order a task takes the rows of a batch; a shuffle keeps none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from operator import attrgetter

from ottla.spark.streams.records import Input


def in_order(
    rows: Iterable[Input], time_of: Callable[[Input], int] = attrgetter("timestamp")
) -> list[Input]:
    """As Kafka's tasks take records: each partition in order, of all first ones the oldest."""
    lanes: dict[tuple[str, int], list[Input]] = {}
    for row in rows:
        lanes.setdefault((row.origin or row.topic, row.partition), []).append(row)
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


def _offset_and_turn(row: Input) -> tuple[int, int]:
    return row.offset, row.turn
