"""Which record goes to which partition: as its row says, by its key, or where it suits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ottla.rows.binary_columns import Numbers, nulls_of
from ottla.rows.java.murmur2_columns import partitions_of
from ottla.spark.sink.encode import Columns
from ottla.spark.sink.options import SinkError
from ottla.spark.sink.rows import Records


@dataclass(slots=True)
class Partitioner:
    """Records without a key stay together: one partition for each batch of rows, then the next."""

    draw: random.Random = field(default_factory=random.Random)
    _next: dict[str, int] = field(default_factory=dict)

    def split(self, records: Records, count: int) -> Iterator[tuple[int, Columns]]:
        """The records of each partition, in the order of their rows."""
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

    def _assign(self, records: Records, count: int) -> Numbers:
        keys = records.columns.keys if records.hashed is None else records.hashed
        if keys.null_count == len(keys):
            partitions = np.full(len(keys), self._sticky(records.topic, count), np.int64)
        else:
            partitions = partitions_of(keys, count).astype(np.int64)
            if keys.null_count:
                partitions[nulls_of(keys)] = self._sticky(records.topic, count)
        if records.partitions is None:
            return partitions
        wished = records.partitions
        if int(wished.max()) >= count or int(wished.min()) < -1:
            wrong = int(wished.max()) if int(wished.max()) >= count else int(wished.min())
            raise SinkError(
                f"a row wants partition {wrong} of topic {records.topic}, which has {count}"
            )
        return np.where(wished >= 0, wished, partitions)

    def _sticky(self, topic: str, count: int) -> int:
        if topic not in self._next:
            self._next[topic] = self.draw.randrange(count)
        self._next[topic] = (self._next[topic] + 1) % count
        return self._next[topic]
