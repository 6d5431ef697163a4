"""Where each leader epoch starts in a log (KIP-101, KIP-279).

A follower asks the leader where an epoch ended, and cuts off what it has beyond; a consumer asks
to learn whether its records were lost. What was not flushed is read from the batches again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

NO_EPOCH = -1
NO_OFFSET = -1


class Epochs:
    """(epoch, start offset), both rising."""

    __slots__ = ("_epochs", "_starts", "dirty", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self._epochs.append(epoch)
            self._starts.append(start_offset)
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.dirty = False  # has something that the file has not

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` starts at `start_offset`; whatever contradicts it is forgotten."""
        if epoch < 0 or (epoch == self.latest and start_offset >= self._starts[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed()

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch known that is not above `epoch`, and the offset after its last record.

        (-1, -1) where nothing is known: an epoch from before the log's start, or later than ours.
        """
        if epoch < 0 or not self._epochs or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        end_offset = self._starts[slot]
        # Older than all we know: the requested epoch itself ended where our first one starts.
        return (self._epochs[slot - 1] if slot else epoch), end_offset

    def epoch_at(self, offset: int) -> int:
        """The epoch in which `offset` was written; -1 if unknown."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that start at or after `end_offset`."""
        slot = bisect_left(self._starts, end_offset)
        if slot < len(self._starts):
            del self._epochs[slot:], self._starts[slot:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before `start_offset`; the one it lies in starts there."""
        slot = bisect_right(self._starts, start_offset) - 1
        if slot < 0 or (slot == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:slot], self._starts[:slot]
        self._starts[0] = start_offset
        self._changed()

    def clear(self) -> None:
        self._epochs, self._starts = [], []
        self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.dirty = True
