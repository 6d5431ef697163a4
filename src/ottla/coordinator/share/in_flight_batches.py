"""Ranges of neighbouring records of a share-partition with the same delivery state.

Kafka keeps such states by batch, and by record where the records of a batch differ. Here there is
one way: ranges that lie side by side without gaps, and are split where their states diverge.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from ottla.coordinator.share.record_state import FINAL, RecordState, StateBatch

_first = attrgetter("first")


class InFlightBatch:
    """Records `first` to `last`. `transition` is one that is not stored yet."""

    __slots__ = (
        "batch_count",
        "before",
        "deadline_ms",
        "delayed",
        "delivery_count",
        "first",
        "last",
        "member_id",
        "state",
        "transition",
    )

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int = 0,
        *,
        batch_count: int = 0,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = ""  # that has acquired it
        self.deadline_ms = 0  # when its lock expires
        # The records of its first delivery: the throttle halves this number with each delivery.
        self.batch_count = batch_count or last - first + 1
        self.delayed = False  # available, but not due yet (delayed delivery)
        self.transition: object | None = None
        self.before: tuple[RecordState, int, str, int] | None = None

    def __repr__(self) -> str:
        return f"InFlightBatch({self.first}-{self.last} {self.state.name} {self.delivery_count})"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.transition is None and not self.delayed

    def acquire(self, member_id: str, deadline_ms: int) -> None:
        assert self.is_available
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.deadline_ms = deadline_ms

    def clock_set(self, step_ms: int) -> None:
        self.deadline_ms += step_ms
        if self.before is not None:
            self.before = (*self.before[:3], self.before[3] + step_ms)

    def delay(self) -> None:
        """Acquired just now, but not due yet: it has not been sent."""
        assert self.state is RecordState.ACQUIRED
        self.state = RecordState.AVAILABLE
        self.delivery_count -= 1
        self.member_id = ""
        self.delayed = True

    def become(self, state: RecordState, delivery_count: int, transition: object) -> None:
        """Enter another state, which holds once `transition` is stored."""
        assert self.transition is None
        self.before = (self.state, self.delivery_count, self.member_id, self.deadline_ms)
        self.transition = transition
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = ""

    def keep(self) -> None:
        self.transition = self.before = None

    def take_back(self) -> None:
        assert self.before is not None
        self.state, self.delivery_count, self.member_id, self.deadline_ms = self.before
        self.keep()

    def stored(self) -> StateBatch:
        return StateBatch(self.first, self.last, self.state, self.delivery_count)

    def split(self, offset: int) -> InFlightBatch:
        """Split before `offset`; returns the second part."""
        assert self.first < offset <= self.last
        rest = InFlightBatch(
            offset, self.last, self.state, self.delivery_count, batch_count=self.batch_count
        )
        rest.member_id = self.member_id
        rest.deadline_ms = self.deadline_ms
        rest.delayed = self.delayed
        rest.transition = self.transition
        rest.before = self.before
        self.last = offset - 1
        return rest

    def joins(self, other: InFlightBatch) -> bool:
        """True if `other`, which follows, can be joined to this one."""
        if self.state is not other.state or self.delivery_count != other.delivery_count:
            return False
        if self.transition is not None or other.transition is not None:
            return False
        if self.is_final:
            return True
        if self.batch_count != other.batch_count or self.member_id != other.member_id:
            return False
        if self.delayed is not other.delayed:
            return False
        return self.state is RecordState.AVAILABLE or self.deadline_ms == other.deadline_ms


class InFlightBatches:
    """Batches side by side: each begins where the one before ends."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def append(self, batch: InFlightBatch) -> None:
        assert not self._batches or self._batches[-1].last + 1 == batch.first
        self._batches.append(batch)

    def carve(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches of exactly these records, split where they reach beyond."""
        begin = self._cut(first)
        end = self._cut(last + 1)
        return self._batches[begin:end]

    def overlapping(self, first: int, last: int) -> list[InFlightBatch]:
        batches = self._batches
        begin = max(bisect_right(batches, first, key=_first) - 1, 0)
        end = bisect_right(batches, last, key=_first)
        return batches[begin:end]

    def from_offset(self, offset: int) -> Iterator[InFlightBatch]:
        """From the batch that has `offset` on."""
        begin = max(bisect_right(self._batches, offset, key=_first) - 1, 0)
        return islice(self._batches, begin, None)

    def drop_before(self, offset: int) -> None:
        del self._batches[: self._cut(offset)]

    def final_prefix_end(self, offset: int, transition: object | None) -> int:
        """The end of the records from `offset` on that are final.

        Records whose transition is not stored yet count only if it is `transition`.
        """
        for batch in self._batches:
            if not batch.is_final or batch.transition not in (None, transition):
                return batch.first
            offset = batch.last + 1
        return offset

    def join(self, first: int, last: int) -> None:
        """Join neighbours that do not differ any more, from `first` to `last`."""
        begin = max(bisect_right(self._batches, first, key=_first) - 2, 0)
        end = bisect_right(self._batches, last, key=_first) + 1
        joined: list[InFlightBatch] = []
        for batch in self._batches[begin:end]:
            if joined and joined[-1].joins(batch):
                joined[-1].last = batch.last
            else:
                joined.append(batch)
        self._batches[begin:end] = joined

    def _cut(self, offset: int) -> int:
        """The index of the batch that begins with `offset`, split off if need be."""
        batches = self._batches
        index = bisect_right(batches, offset, key=_first) - 1
        if index < 0:
            return 0
        batch = batches[index]
        if batch.first == offset:
            return index
        if offset <= batch.last:
            batches.insert(index + 1, batch.split(offset))
        return index + 1
