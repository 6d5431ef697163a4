"""A share-partition: one partition as one share group reads it, and who holds which record.

    start_offset   everything before it is done: acknowledged, or archived
    end_offset     nothing from here on has been given to anybody yet

What lies between is in flight, in runs of records (`runs.py`). Changes that have to be stored
before anybody is told come as a `Change`: `commit` it when it is, `rollback` if it cannot be.
Until then its records are neither given out nor acknowledged again.

A group with a dead letter queue gets `change.dead` on top: records that are ARCHIVING once the
change is stored. Whoever has brought them to the queue, or knows that it can't, calls `archive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from ottla.coordinator.share.runs import Run, Runs
from ottla.coordinator.share.states import (
    Acknowledgement,
    RecordState,
    StateBatch,
    merge,
)
from ottla.errors import ErrorCode, KafkaError

_NEVER_MS: Final = 1 << 62
_THROTTLE_FROM_MIN: Final = 2

_STATES: Final = {
    Acknowledgement.GAP: RecordState.ARCHIVED,
    Acknowledgement.ACCEPT: RecordState.ACKNOWLEDGED,
    Acknowledgement.RELEASE: RecordState.AVAILABLE,
    Acknowledgement.REJECT: RecordState.ARCHIVED,
}

# Why a record is dead, in Kafka's words: they stand in a header of the dead letter.
REJECTED: Final = "Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."


class Limits(NamedTuple):
    """What the broker's and the group's configs say; the defaults are Kafka's."""

    lock_duration_ms: int = 30_000
    delivery_count_max: int = 5
    in_flight_max: int = 2_000
    dead_letters: bool = False  # the group has a dead letter queue (KIP-1191)
    delayed_max: int = 10_000  # records that wait for their time; they are not in flight

    @property
    def throttle_from(self) -> int:
        """Records that were delivered so often are given out in ever smaller numbers.

        One record that nobody can digest would else take its whole batch along to the archive.
        """
        return max(_THROTTLE_FROM_MIN, (self.delivery_count_max + 1) // 2)


class Span(NamedTuple):
    """A batch of the log, as far as a share-partition cares."""

    first: int
    last: int
    aborted: bool = False  # of a transaction that was; a reader of committed records skips it


class Acquired(NamedTuple):
    """Records that a member now holds, all for the same number of times."""

    first: int
    last: int
    delivery_count: int


class Acknowledged(NamedTuple):
    """What a member says of a range: once for all of it, or once for each record."""

    first: int
    last: int
    types: Sequence[int]


class DeadRecords(NamedTuple):
    """Records for the dead letter queue, and why."""

    first: int
    last: int
    delivery_count: int
    cause: str


class Change:
    """What has to be stored: the states of `batches`, and from where on states are of interest.

    Once it is, `dead` goes to the dead letter queue.
    """

    __slots__ = ("batches", "dead", "delivery_complete_count", "start_offset")

    def __init__(self) -> None:
        self.dead: list[DeadRecords] = []
        self.start_offset = -1
        self.delivery_complete_count = 0
        self.batches: list[StateBatch] = []


class Wanted(NamedTuple):
    """How much a fetch would take. `strict`: not one more for the sake of whole batches."""

    records_max: int
    batch_size: int
    strict: bool = False  # KIP-1206: share.acquire.mode=record_limit


Delays = Callable[[Span], Iterable[tuple[int, int]]]
"""Which records of a batch have to wait: the offset of each, and until when (epoch ms)."""


class SharePartition:
    """`batches` are what was stored of it; what they leave out is available."""

    __slots__ = (
        "_deadline_ms",
        "_delayed",
        "_final_count",
        "_log_start_offset",
        "_runs",
        "_search_from",
        "end_offset",
        "leader_epoch",
        "limits",
        "start_offset",
        "state_epoch",
    )

    def __init__(
        self,
        start_offset: int,
        *,
        batches: Iterable[StateBatch] = (),
        state_epoch: int = 0,
        leader_epoch: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.limits = limits or Limits()
        self._runs = Runs()
        self._deadline_ms = _NEVER_MS  # no lock ends earlier
        self._delayed: list[tuple[int, int]] = []  # a heap: when, and which offset
        self._log_start_offset = 0
        self._final_count = 0  # records of `_runs` that are done with
        self._search_from = start_offset  # no record before it is available
        for batch in sorted(batches):
            if batch.last_offset >= self.end_offset:
                self._grow(batch.first_offset - 1, RecordState.AVAILABLE)
                self._grow(batch.last_offset, batch.state, batch.delivery_count)
        self._advance(self.start_offset, self.end_offset)

    def __repr__(self) -> str:
        return f"SharePartition({self.start_offset}, {list(self._runs)}, {self.end_offset})"

    # -- giving records out

    @property
    def delayed_count(self) -> int:
        return len(self._delayed)

    @property
    def in_flight_count(self) -> int:
        """As in Kafka, what is done with counts as long as the start has not passed it.

        Not so where records are delayed: the start stays before them, and neither they nor all
        that is done behind them may hold up the others.
        """
        count = self.end_offset - self.start_offset
        if self._delayed:
            count -= self._final_count + len(self._delayed)
        return count

    @property
    def window_end(self) -> int:
        """Nothing from here on can be given out now."""
        return self.end_offset + max(self.limits.in_flight_max - self.in_flight_count, 0)

    def fetch_offset(self) -> int | None:
        """From where to read for the next who asks; None while too much is in flight."""
        for run in self._runs.from_offset(self._search_from):
            if run.is_available:
                self._search_from = run.first
                return run.first
        self._search_from = self.end_offset
        if len(self._delayed) >= self.limits.delayed_max:
            return None
        if self.in_flight_count < self.limits.in_flight_max:
            return self.end_offset
        return None

    def acquire(
        self,
        member_id: str,
        spans: Sequence[Span],
        *,
        fetch_offset: int,
        wanted: Wanted,
        now_ms: int,
        delays: Delays | None = None,
    ) -> list[Acquired]:
        """Records out of what was read from `fetch_offset` on, for this member until its lock ends.

        A member is given whole batches of the log, even if these are a few more than it wanted.
        `delays` is asked only about batches of which records would be given out.
        """
        if not spans or wanted.records_max <= 0:
            return []
        first = max(spans[0].first, self.start_offset)
        self._archive_missing(fetch_offset, first - 1)
        due_ms = now_ms + self.limits.lock_duration_ms
        taken, more = self._acquire_again(member_id, first, spans[-1].last, wanted, due_ms)
        count = sum(map(len, taken))
        if more and count < wanted.records_max:
            left = wanted._replace(records_max=wanted.records_max - count)
            taken += self._acquire_new(member_id, spans, left, due_ms)
        if taken:
            self._deadline_ms = min(self._deadline_ms, due_ms)
        ranges = [(run.first, run.last) for run in taken]
        self._archive_aborted(ranges, spans)
        if delays is not None:
            self._delay(ranges, spans, delays, now_ms)
        result = [
            Acquired(run.first, run.last, run.delivery_count)
            for first, last in ranges
            for run in self._runs.overlapping(first, last)
            if run.state is RecordState.ACQUIRED
        ]
        self._advance(fetch_offset, self.end_offset)
        return result

    def _acquire_again(
        self, member_id: str, first: int, last: int, wanted: Wanted, due_ms: int
    ) -> tuple[list[Run], bool]:
        """Of what was given out before. False: no more for now, these are to be alone."""
        taken: list[Run] = []
        count = 0
        for run in self._runs.overlapping(first, last):
            if count >= wanted.records_max:
                break
            if not run.is_available or run.last < first:
                continue
            throttled = run.delivery_count >= self.limits.throttle_from
            if throttled and taken:
                return taken, False
            begin, end = max(run.first, first), min(run.last, last)
            end = min(end, begin + self._at_once(run, wanted, count) - 1)
            for part in self._runs.carve(begin, end):
                part.acquire(member_id, due_ms)
                taken.append(part)
                count += len(part)
            if throttled:
                return taken, False
        return taken, True

    def _at_once(self, run: Run, wanted: Wanted, count: int) -> int:
        """How many records of a run may be given out together."""
        left = wanted.records_max - count
        most = min(len(run), left if wanted.strict else max(left, run.batch_count))
        limits = self.limits
        if limits.delivery_count_max > 2 and run.delivery_count >= limits.delivery_count_max - 1:
            return 1  # its last chance it has alone
        if run.delivery_count >= limits.throttle_from:
            halvings = run.delivery_count - limits.throttle_from + 1
            most = min(most, max(1, run.batch_count >> halvings))
        return most

    def _acquire_new(
        self, member_id: str, spans: Sequence[Span], wanted: Wanted, due_ms: int
    ) -> list[Run]:
        """Of what nobody has seen yet, within what may be in flight."""
        room = self.limits.in_flight_max - self.in_flight_count
        count = min(wanted.records_max, room)
        spans = [span for span in spans if span.last >= self.end_offset]
        if not spans or count <= 0:
            return []
        self._grow(spans[0].first - 1, RecordState.ARCHIVED)  # what the log does not have
        begin = self.end_offset
        last = spans[-1].last
        if count < last - begin + 1:
            last = begin + count - 1
            if not wanted.strict:
                last = next(span.last for span in spans if span.last >= last)
        taken = []
        for end in _batch_ends(spans, begin, last, wanted):
            run = self._grow(end, RecordState.AVAILABLE)
            assert run is not None
            run.acquire(member_id, due_ms)
            taken.append(run)
        return taken

    def _archive_missing(self, first: int, last: int) -> None:
        """What was available and is not in the log any more: it was compacted away."""
        first = max(first, self.start_offset)
        last = min(last, self.end_offset - 1)
        if first <= last:
            for run in self._runs.carve(first, last):
                if run.is_available:
                    run.state = RecordState.ARCHIVED
                    self._final_count += len(run)

    def _archive_aborted(self, ranges: list[tuple[int, int]], spans: Sequence[Span]) -> None:
        """Of records just acquired, those that were never committed are for nobody."""
        for span in spans:
            if not span.aborted:
                continue
            for first, last in ranges:
                if span.first <= last and first <= span.last:
                    for run in self._runs.carve(max(span.first, first), min(span.last, last)):
                        run.state = RecordState.ARCHIVED
                        run.member_id = ""
                        self._final_count += len(run)

    def _delay(
        self,
        ranges: list[tuple[int, int]],
        spans: Sequence[Span],
        delays: Delays,
        now_ms: int,
    ) -> None:
        """Of records just acquired, those whose time has not come are set aside until then."""
        for span in spans:
            parts = [each for each in ranges if span.first <= each[1] and each[0] <= span.last]
            for offset, due_ms in delays(span) if parts else ():
                if due_ms <= now_ms or not any(a <= offset <= b for a, b in parts):
                    continue
                (run,) = self._runs.carve(offset, offset)
                if run.state is RecordState.ACQUIRED:  # and not of an aborted transaction
                    run.delay()
                    heappush(self._delayed, (due_ms, offset))

    # -- what members say

    def acknowledge(
        self, member_id: str, acknowledged: Iterable[Acknowledged], now_ms: int
    ) -> Change:
        """All of it, or a KafkaError and nothing of it."""
        change = Change()
        renewed: list[Run] = []
        try:
            for each in acknowledged:
                self._acknowledge(member_id, each, change, renewed)
        except KafkaError:
            self.rollback(change)
            raise
        for run in renewed:
            run.deadline_ms = now_ms + self.limits.lock_duration_ms
        return self._changed(change)

    def _acknowledge(
        self, member_id: str, each: Acknowledged, change: Change, renewed: list[Run]
    ) -> None:
        if each.last < self._log_start_offset:
            return  # the log lost them while they were being worked on
        if each.last < self.start_offset:
            raise _invalid_state("those records are done with, or were never given out")
        if each.last >= self.end_offset:
            message = f"nothing from offset {self.end_offset} on was given out"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        for first, last, kind in _pieces(each):
            if last < self.start_offset:
                continue
            for run in self._runs.carve(max(first, self.start_offset), last):
                if run.state is not RecordState.ACQUIRED:
                    raise _invalid_state(f"offset {run.first} is not acquired")
                if run.member_id != member_id:
                    raise _invalid_state(f"offset {run.first} is acquired by another member")
                if kind is Acknowledgement.RENEW:
                    renewed.append(run)
                else:
                    cause = REJECTED if kind is Acknowledgement.REJECT else ""
                    self._settle(run, _STATES[kind], change, cause)

    def release(self, member_id: str) -> Change:
        """The member's session is over: what it held is for others."""
        change = Change()
        for run in self._runs:
            if run.state is RecordState.ACQUIRED and run.member_id == member_id:
                self._settle(run, RecordState.AVAILABLE, change)
        return self._changed(change)

    # -- the dead letter queue

    def unfinished(self) -> list[DeadRecords]:
        """Records that were on their way to the queue when the state was loaded.

        Why they are dead is not stored. As in Kafka, the delivery count has to tell.
        """
        return [
            DeadRecords(run.first, run.last, run.delivery_count, self._guess(run))
            for run in self._runs
            if run.state is RecordState.ARCHIVING
        ]

    def _guess(self, run: Run) -> str:
        spent = run.delivery_count >= self.limits.delivery_count_max
        return DELIVERED_TOO_OFTEN if spent else REJECTED

    def archive(self, first: int, last: int) -> Change:
        """These records are in the queue, or will never be: they are done with."""
        change = Change()
        first, last = max(first, self.start_offset), min(last, self.end_offset - 1)
        for run in self._runs.carve(first, last) if first <= last else ():
            if run.state is RecordState.ARCHIVING:
                run.become(RecordState.ARCHIVED, run.delivery_count, change)
                self._final_count += len(run)
        return self._changed(change)

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called; an earlier call does no harm."""
        due_ms = self._delayed[0][0] if self._delayed else _NEVER_MS
        due_ms = min(due_ms, self._deadline_ms)
        return None if due_ms == _NEVER_MS else due_ms

    def clock_set(self, step_ms: int) -> None:
        """Locks last as long as they would have. Delayed records are due at an hour of the day."""
        if self._deadline_ms != _NEVER_MS:
            self._deadline_ms += step_ms
        for run in self._runs:
            run.clock_set(step_ms)

    def expire(self, now_ms: int) -> Change:
        """Locks that end by now: their records are for somebody else, or were given out enough.

        Delayed records whose time has come are for anybody. That is not stored.
        """
        self._release_delayed(now_ms)
        change = Change()
        self._deadline_ms = _NEVER_MS
        for run in self._runs:
            if run.state is RecordState.ACQUIRED:
                if run.deadline_ms <= now_ms:
                    self._settle(run, RecordState.AVAILABLE, change)
                else:
                    self._deadline_ms = min(self._deadline_ms, run.deadline_ms)
        return self._changed(change)

    def _release_delayed(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, offset = heappop(self._delayed)
            for run in self._runs.carve(offset, offset):
                run.delayed = False
            self._search_from = min(self._search_from, offset)

    # -- the log

    def move_log_start(self, offset: int) -> None:
        """The log begins here now: what came before cannot be given to anybody any more."""
        if offset <= self.start_offset:
            return
        self._log_start_offset = offset
        self._runs.drop_before(offset)
        if self._delayed:
            self._delayed = [each for each in self._delayed if each[1] >= offset]
            heapify(self._delayed)
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._final_count = sum(len(run) for run in self._runs if run.is_final)
        self._advance(offset, self.end_offset)

    # -- changes

    def commit(self, change: Change) -> None:
        first, last = self._extent(change)
        for run in self._runs.overlapping(first, last):
            if run.change is change:
                run.keep()
        self._search_from = min(self._search_from, first)
        self._advance(first, last)

    def rollback(self, change: Change) -> None:
        """It could not be stored: members hold what they held, as long as their locks last."""
        first, last = self._extent(change)
        for run in self._runs.overlapping(first, last):
            if run.change is change:
                if run.is_final:
                    self._final_count -= len(run)
                run.take_back()
                self._deadline_ms = min(self._deadline_ms, run.deadline_ms)
        self._runs.join(first, last)

    def _extent(self, change: Change) -> tuple[int, int]:
        """Where its records lie; anywhere, if it is not made yet or has none to be stored."""
        if change.batches:
            return change.batches[0].first_offset, change.batches[-1].last_offset
        return self.start_offset, self.end_offset

    def _settle(self, run: Run, state: RecordState, change: Change, cause: str = "") -> None:
        spent = run.delivery_count >= self.limits.delivery_count_max
        if state is RecordState.AVAILABLE and spent:
            state, cause = RecordState.ARCHIVED, DELIVERED_TOO_OFTEN
        if cause and self.limits.dead_letters:
            state = RecordState.ARCHIVING
            change.dead.append(DeadRecords(run.first, run.last, run.delivery_count, cause))
        run.become(state, run.delivery_count, change)
        if run.is_final:
            self._final_count += len(run)

    def _changed(self, change: Change) -> Change:
        change.batches = merge(run.stored() for run in self._runs if run.change is change)
        change.start_offset = self._runs.final_prefix_end(self.start_offset, change)
        passed = change.start_offset - self.start_offset  # all of them done
        change.delivery_complete_count = self._final_count - passed
        return change

    def _advance(self, first: int, last: int) -> None:
        """The start moves over all that is done, after a change from `first` to `last`."""
        offset = self._runs.final_prefix_end(self.start_offset, None)
        if offset > self.start_offset:
            self._final_count -= offset - self.start_offset
            self._runs.drop_before(offset)
            self.start_offset = offset
        self._runs.join(first, last)

    def _grow(self, last: int, state: RecordState, delivery_count: int = 0) -> Run | None:
        """Up to `last`, records in this state."""
        if last < self.end_offset:
            return None
        run = Run(self.end_offset, last, state, delivery_count)
        self._runs.append(run)
        self.end_offset = last + 1
        if run.is_final:
            self._final_count += len(run)
        return run


def _batch_ends(spans: Iterable[Span], begin: int, last: int, wanted: Wanted) -> list[int]:
    """Where to cut what is given out, so that no part has many more records than wanted.

    Cut between batches of the log only.
    """
    ends = []
    if not wanted.strict:
        for span in spans:
            if begin + wanted.batch_size <= span.first <= last:
                ends.append(span.first - 1)
                begin = span.first
    return [*ends, last]


def _pieces(each: Acknowledged) -> list[tuple[int, int, Acknowledgement]]:
    """Ranges of which the same is said."""
    if len(each.types) == 1:
        return [(each.first, each.last, Acknowledgement(each.types[0]))]
    pieces: list[tuple[int, int, Acknowledgement]] = []
    for offset, kind in enumerate(each.types, each.first):
        if pieces and pieces[-1][2] == kind:
            pieces[-1] = (pieces[-1][0], offset, pieces[-1][2])
        else:
            pieces.append((offset, offset, Acknowledgement(kind)))
    return pieces


def _invalid_state(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
