"""Partitions records: by the row's column, by the key's hash, or sticky without a key."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ottla.rows.binary_columns import Numbers, nulls_of
from ottla.rows.java.murmur2_columns import partitions_of
from ottla.spark.sink.encode import RecordColumns
from ottla.spark.sink.options import SinkError
from ottla.spark.sink.topic_records import TopicRecords


@dataclass(slots=True)
class Partitioner:
    """Records without a key go to one partition per batch of rows, then to the next."""

    draw: random.Random = field(default_factory=random.Random)
    _next: dict[str, int] = field(default_factory=dict)

    def split(self, records: TopicRecords, count: int) -> Iterator[tuple[int, RecordColumns]]:
        """The records of each partition, in row order."""
        partitions = self._assign(records, count)
        first = int(partitions[0])
        if (partitions == first).all():
            yield first, records.columns
            return
        order = np.argsort(partitions, kind="stable")
        ordered = partitions[order]
        ends = [*np.flatnonzero(np.diff(ordered)) + 1, len(ordered)]
        start = 0
        for end in map(int, ends):
            yield int(ordered[start]), records.columns.take(order[start:end])
            start = end

    def _assign(self, records: TopicRecords, count: int) -> Numbers:
        keys = records.columns.keys if records.hashed is None else records.hashed
        if keys.null_count == len(keys):
            partitions = np.full(len(keys), self._sticky(records.topic, count), np.int64)
        else:
            partitions = partitions_of(keys, count).astype(np.int64)
            if keys.null_count:
                partitions[nulls_of(keys)] = self._sticky(records.topic, count)
        if records.partitions is None:
            return partitions
        given = records.partitions
        if int(given.max()) >= count or int(given.min()) < -1:
            wrong = int(given.max()) if int(given.max()) >= count else int(given.min())
            raise SinkError(
                f"a row has partition {wrong}, but topic {records.topic} has {count} partitions"
            )
        return np.where(given >= 0, given, partitions)

    def _sticky(self, topic: str, count: int) -> int:
        if topic not in self._next:
            self._next[topic] = self.draw.randrange(count)
        self._next[topic] = (self._next[topic] + 1) % count
        return self._next[topic]
