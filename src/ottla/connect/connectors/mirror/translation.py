"""Offsets of the source in terms of the target, by the offset syncs."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final

from ottla.client.record import TopicPartition
from ottla.connect.connectors.mirror.formats import OffsetSync

SYNCS_MAX: Final = 2000  # of one partition: beyond it every second of the older half is dropped


class Translation:
    """Never past what a group has read: it may read some records again, and skips none."""

    def __init__(self) -> None:
        self._syncs: dict[TopicPartition, list[tuple[int, int]]] = {}

    def add(self, sync: OffsetSync) -> None:
        syncs = self._syncs.setdefault(sync.partition, [])
        if syncs and sync.upstream < syncs[-1][0]:
            # The mirror began anew, so the target has records twice: older syncs point before them.
            syncs[:] = [each for each in syncs if each[0] < sync.upstream]
        if not syncs or syncs[-1] != (sync.upstream, sync.downstream):
            insort(syncs, (sync.upstream, sync.downstream))
        if len(syncs) > SYNCS_MAX:
            half = len(syncs) // 2
            del syncs[1:half:2]

    def downstream(self, partition: TopicPartition, offset: int) -> int | None:
        """None: the mirror had not come as far when it last noted anything, or never noted."""
        syncs = self._syncs.get(partition, [])
        place = bisect_right(syncs, offset, key=lambda each: each[0])
        return syncs[place - 1][1] if place else None
