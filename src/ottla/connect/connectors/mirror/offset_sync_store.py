"""Translates source offsets to target offsets by the offset syncs."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final

from ottla.client.record import TopicPartition
from ottla.connect.connectors.mirror.formats import OffsetSync

SYNCS_MAX: Final = 2000  # per partition; beyond it every second one of the older half is dropped


class OffsetSyncStore:
    """Translates to an offset that is never too large: a group may re-read, but never skips."""

    def __init__(self) -> None:
        self._syncs: dict[TopicPartition, list[tuple[int, int]]] = {}

    def add(self, sync: OffsetSync) -> None:
        syncs = self._syncs.setdefault(sync.partition, [])
        if syncs and sync.upstream < syncs[-1][0]:
            # Replication was restarted from an earlier offset, so later syncs are obsolete.
            syncs[:] = [earlier for earlier in syncs if earlier[0] < sync.upstream]
        if not syncs or syncs[-1] != (sync.upstream, sync.downstream):
            insort(syncs, (sync.upstream, sync.downstream))
        if len(syncs) > SYNCS_MAX:
            half = len(syncs) // 2
            del syncs[1:half:2]

    def downstream(self, partition: TopicPartition, offset: int) -> int | None:
        """None if no sync is at or before this offset, so nothing is known about it."""
        syncs = self._syncs.get(partition, [])
        index = bisect_right(syncs, offset, key=lambda sync: sync[0])
        return syncs[index - 1][1] if index else None
