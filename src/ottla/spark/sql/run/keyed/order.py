"""The order of events: within a partition by offset, between partitions by time.

As Kafka Streams does: of the partitions that have something to give, the one whose next record is
oldest goes first, and a table before a stream, so that a row meets what was known when it was made.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """One row, of the left (0) or the right (1) input; `deleted`: a table's row is gone.

    The row is what Spark made of a struct: nobody here looks into it. `extra` is what the operator
    needs beside the key: a foreign key, a group.
    """

    side: int
    time_ms: int
    partition: int
    offset: int
    row: Any
    deleted: bool = False
    extra: Any = None


def in_order(events: Iterable[Event], *, first: int = 1) -> Iterator[Event]:
    """All `events` of a key and a batch; those of side `first` come first at the same time."""
    queues: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        queues.setdefault((event.side, event.partition), []).append(event)
    heads: list[tuple[int, bool, int, int]] = []
    for (side, partition), queue in queues.items():
        queue.sort(key=lambda event: -event.offset)
        heads.append((queue[-1].time_ms, side != first, side, partition))
    heapq.heapify(heads)
    while heads:
        _, _, side, partition = heads[0]
        queue = queues[side, partition]
        yield queue.pop()
        if queue:
            heapq.heapreplace(heads, (queue[-1].time_ms, side != first, side, partition))
        else:
            heapq.heappop(heads)
