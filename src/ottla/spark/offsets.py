"""Offsets of a streaming query, and what of its topics a batch of it reads.

Spark keeps offsets as JSON, in the form of its Kafka source: {"topic":{"0":23,"1":5}}. Two of
them are the same only if their text is, so that the order is always the same, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.protocol.fetching import Range
from ottla.client.record import TopicPartition

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]

CLOCK: Final = "@clock"
"""Beside the topics, and no name of one: when a batch was made, for queries that hear of it."""


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    json: Json = {}
    for each in sorted(offsets):
        json.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    return json


def from_json(json: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Of the topics."""
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


def ranges_between(start: Mapping[TopicPartition, int], end: Offsets) -> list[Range]:
    """What lies between two offsets of a query, and nothing but these two decides it.

    A partition that only `end` knows is new: its offset there is where it begins, and the next
    batch reads it. (To begin at its first offset now would be another batch when it is run again
    and the first records have gone meanwhile.) One that has gone back has been made anew: its
    offset is where the new one begins.
    """
    return [
        Range(*each, start[each], end[each])
        for each in sorted(end)
        if each in start and start[each] < end[each]
    ]


def limited(start: Offsets, end: Offsets, records_max: int, first: Collection[str] = ()) -> Offsets:
    """At most about so many records, a share for each partition by what it has.

    The arithmetic is that of Spark's source: a share below one is one, so that a small partition
    does not starve beside a large one; others are rounded down. While the topics `first` alone have
    more than that, nothing else is read: rows that look up a table find it loaded.
    """
    ahead = {each: end[each] for each in end if each.topic in first and each in start}
    if sum(end[each] - start[each] for each in ahead) > records_max:
        waiting = {each: start.get(each, end[each]) for each in end}
        return waiting | limited(start, ahead, records_max)
    sizes = {each: end[each] - start[each] for each in end if each in start}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= records_max:
        return end
    reached = dict(end)
    for each, size in sizes.items():
        if size > 0:
            share = records_max * (size / total)
            count = math.ceil(share) if share < 1 else math.floor(share)
            reached[each] = min(end[each], start[each] + count)
    return reached
