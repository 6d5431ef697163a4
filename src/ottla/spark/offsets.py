"""The offsets of a streaming query, and the ranges of a batch.

Offsets are JSON in the format of Spark's Kafka source: {"topic":{"0":23,"1":5}}. Spark compares
them as text, so their order is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.client.record import TopicPartition

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]

CLOCK: Final = "@clock"
"""A key beside the topics, invalid as a topic name: the batch's wall-clock time, for ticks."""


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    json: Json = {}
    for partition in sorted(offsets):
        json.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return json


def from_json(json: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The topics' offsets."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in json.items()
        if topic != CLOCK
        for partition, offset in partitions.items()
    }


def with_clock(json: Json, now_ms: int) -> Json:
    return {**json, CLOCK: {"0": now_ms}}


def clock_of(json: Mapping[str, Mapping[str, int]]) -> int | None:
    return json[CLOCK]["0"] if CLOCK in json else None


def ranges_between(start: Mapping[TopicPartition, int], end: Offsets) -> list[OffsetRange]:
    """The ranges between two offsets of a query. They depend on nothing else, so that a rerun of
    the batch reads the same records.

    A partition that only `end` has is new: `end` has its first offset, and the next batch reads it.
    (If this batch read it from its log start, a rerun could start later, after retention.) A
    partition whose offset went back was created again: `end` has its first offset.
    """
    return [
        OffsetRange(*partition, start[partition], end[partition])
        for partition in sorted(end)
        if partition in start and start[partition] < end[partition]
    ]


def limited(start: Offsets, end: Offsets, records_max: int, first: Collection[str] = ()) -> Offsets:
    """Limits a batch to about `records_max` records, in proportion to the partitions' backlog.

    The arithmetic is that of Spark's source: a share below one is rounded up, so that a small
    partition does not starve beside a large one; others are rounded down. While the topics `first`
    alone exceed the limit, only they are read, so that joins find a loaded table.
    """
    ahead = {
        partition: end[partition]
        for partition in end
        if partition.topic in first and partition in start
    }
    if sum(end[partition] - start[partition] for partition in ahead) > records_max:
        waiting = {partition: start.get(partition, end[partition]) for partition in end}
        return waiting | limited(start, ahead, records_max)
    sizes = {
        partition: end[partition] - start[partition] for partition in end if partition in start
    }
    total = sum(size for size in sizes.values() if size > 0)
    if total <= records_max:
        return end
    reached = dict(end)
    for partition, size in sizes.items():
        if size > 0:
            share = records_max * (size / total)
            count = math.ceil(share) if share < 1 else math.floor(share)
            reached[partition] = min(end[partition], start[partition] + count)
    return reached
