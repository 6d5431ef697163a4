"""Neighbouring records of a share-partition that have all been through the same.

Kafka keeps such states by batch, and by record where a batch's records differ. Here there is one
way: runs, which are cut where it must be and lie side by side without gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from ottla.coordinator.share.states import FINAL, RecordState, StateBatch

_first = attrgetter("first")


class Run:
    """Records `first` to `last`. `change` is one that is not stored yet, and may be taken back."""

    __slots__ = (
        "batch_count",
        "before",
        "change",
        "deadline_ms",
        "delayed",
        "delivery_count",
        "first",
        "last",
        "member_id",
        "state",
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
        self.member_id = ""  # who has acquired it
        self.deadline_ms = 0  # until when
        self.batch_count = batch_count or last - first + 1  # of the delivery it was first part of
        self.delayed = False  # available, but not before its time has come
        self.change: object | None = None
        self.before: tuple[RecordState, int, str, int] | None = None

    def __repr__(self) -> str:
        return f"Run({self.first}-{self.last} {self.state.name} {self.delivery_count})"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.change is None and not self.delayed

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
        """Acquired just now, but too early: nobody has seen it."""
        assert self.state is RecordState.ACQUIRED
        self.state = RecordState.AVAILABLE
        self.delivery_count -= 1
        self.member_id = ""
        self.delayed = True

    def become(self, state: RecordState, delivery_count: int, change: object) -> None:
        """Another state, which holds for good once `change` is stored."""
        assert self.change is None
        self.before = (self.state, self.delivery_count, self.member_id, self.deadline_ms)
        self.change = change
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = ""

    def keep(self) -> None:
        self.change = self.before = None

    def take_back(self) -> None:
        assert self.before is not None
        self.state, self.delivery_count, self.member_id, self.deadline_ms = self.before
        self.keep()

    def stored(self) -> StateBatch:
        return StateBatch(self.first, self.last, self.state, self.delivery_count)

    def split(self, offset: int) -> Run:
        """Cut before `offset`; gives the second part."""
        assert self.first < offset <= self.last
        rest = Run(offset, self.last, self.state, self.delivery_count, batch_count=self.batch_count)
        rest.member_id = self.member_id
        rest.deadline_ms = self.deadline_ms
        rest.delayed = self.delayed
        rest.change = self.change
        rest.before = self.before
        self.last = offset - 1
        return rest

    def joins(self, other: Run) -> bool:
        """Whether `other`, which follows, can be one with this one."""
        if self.state is not other.state or self.delivery_count != other.delivery_count:
            return False
        if self.change is not None or other.change is not None:
            return False
        if self.is_final:
            return True
        if self.batch_count != other.batch_count or self.member_id != other.member_id:
            return False
        if self.delayed is not other.delayed:
            return False
        return self.state is RecordState.AVAILABLE or self.deadline_ms == other.deadline_ms


class Runs:
    """Runs side by side: the end of each is the beginning of the next."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def append(self, run: Run) -> None:
        assert not self._runs or self._runs[-1].last + 1 == run.first
        self._runs.append(run)

    def carve(self, first: int, last: int) -> list[Run]:
        """The runs of exactly these records, cut where they reach beyond."""
        begin = self._cut(first)
        end = self._cut(last + 1)
        return self._runs[begin:end]

    def overlapping(self, first: int, last: int) -> list[Run]:
        runs = self._runs
        begin = max(bisect_right(runs, first, key=_first) - 1, 0)
        end = bisect_right(runs, last, key=_first)
        return runs[begin:end]

    def from_offset(self, offset: int) -> Iterator[Run]:
        """From the run that holds `offset` on."""
        begin = max(bisect_right(self._runs, offset, key=_first) - 1, 0)
        return islice(self._runs, begin, None)

    def drop_before(self, offset: int) -> None:
        del self._runs[: self._cut(offset)]

    def final_prefix_end(self, offset: int, change: object | None) -> int:
        """Where, from `offset` on, the records end that nobody will be given any more.

        Those that wait to be stored count only if they are of `change`.
        """
        for run in self._runs:
            if not run.is_final or (run.change is not None and run.change is not change):
                return run.first
            offset = run.last + 1
        return offset

    def join(self, first: int, last: int) -> None:
        """Make one of neighbours that differ no longer, from `first` to `last`."""
        begin = max(bisect_right(self._runs, first, key=_first) - 2, 0)
        end = bisect_right(self._runs, last, key=_first) + 1
        joined: list[Run] = []
        for run in self._runs[begin:end]:
            if joined and joined[-1].joins(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs[begin:end] = joined

    def _cut(self, offset: int) -> int:
        """Where in the list the run begins that begins with `offset`, after a cut if need be."""
        runs = self._runs
        index = bisect_right(runs, offset, key=_first) - 1
        if index < 0:
            return 0
        run = runs[index]
        if run.first == offset:
            return index
        if offset <= run.last:
            runs.insert(index + 1, run.split(offset))
        return index + 1
