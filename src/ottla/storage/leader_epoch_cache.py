"""The leader epoch cache: at which offset each leader's records start in a log (KIP-101, KIP-279).

A follower asks the leader where an epoch ended and truncates its log to that offset: the high
watermark alone would let two replicas keep different records at the same offset after two leader
changes in a row. A consumer asks the same to find out whether records it has read were lost.

The file may lag behind the log, because it is written at a roll or a flush: a recovery reads the
epochs of the unflushed part from the batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochCache:
    """Entries of (epoch, start offset), both rising."""

    __slots__ = ("_epochs", "_starts", "dirty", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self._epochs.append(epoch)
            self._starts.append(start_offset)
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.dirty = False  # differs from the file

    def saved(self) -> None:
        """The file has these entries now."""
        self.dirty = False

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` starts at `start_offset`; entries that contradict this are removed.

        A log that is being read is right and the cache is not: an entry can be left over from
        records that a crash lost, and it would send a follower to the wrong offset.
        """
        if epoch < 0 or (epoch == self.latest and start_offset >= self._starts[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed()

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch that is not above `epoch`, and the offset after its last record.

        (-1, -1) if `epoch` is later than the latest, or if nothing is known. The epoch in the
        answer may be lower than the one in the question (KIP-279): the follower then asks again
        with that one, until both logs have had the same leader.
        """
        if epoch < 0 or not self._epochs or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        assert slot < len(self._starts)  # `epoch` is below the latest, so a later one has a start
        end_offset = self._starts[slot]
        # Older than the first entry: that epoch ended at or before the start of the first one.
        return (self._epochs[slot - 1] if slot else epoch), end_offset

    def epoch_at(self, offset: int) -> int:
        """The epoch of the leader that wrote `offset`; -1 if unknown."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at or after `end_offset`."""
        slot = bisect_left(self._starts, end_offset)
        if slot < len(self._starts):
            del self._epochs[slot:], self._starts[slot:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that ended before `start_offset`; the one at it now starts there."""
        slot = bisect_right(self._starts, start_offset) - 1
        if slot < 0 or (slot == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:slot], self._starts[:slot]
        self._starts[0] = start_offset
        assert len(self._starts) < 2 or start_offset < self._starts[1]
        self._changed()

    def clear(self) -> None:
        self._epochs, self._starts = [], []
        self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.dirty = True
