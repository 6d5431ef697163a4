"""A share-partition: one partition as one share group reads it, and which member has which record.

    start_offset   all records before it are final: acknowledged or archived
    end_offset     no record from here on has been acquired yet

What lies between is in flight (`in_flight_batches.py`). A change that has to be stored before its
request gets a response is a `StateTransition`: `commit` it when it is stored, `rollback` if it
cannot be. Until then its records are neither acquired nor acknowledged again.

For a group with a dead letter queue a transition has `dead`: records that are ARCHIVING once it is
stored. `archive` is called when their dead letters are written, or cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from ottla.coordinator.share.in_flight_batches import InFlightBatch, InFlightBatches
from ottla.coordinator.share.record_state import (
    AcknowledgeType,
    RecordState,
    StateBatch,
    merge,
)
from ottla.errors import ErrorCode, KafkaError

_NEVER_MS: Final = 1 << 62
_THROTTLE_FROM_MIN: Final = 2

_STATES: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}

# Why a record is dead, in Kafka's words, which the dead letter has in a header.
REJECTED: Final = "Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."


class SharePartitionLimits(NamedTuple):
    """From the configs of the broker and the group; the defaults are Kafka's."""

    lock_duration_ms: int = 30_000
    delivery_count_max: int = 5
    in_flight_max: int = 2_000
    dead_letters: bool = False  # the group has a dead letter queue (KIP-1191)
    delayed_max: int = 10_000  # records that are not due yet; they are not in flight

    @property
    def throttle_from(self) -> int:
        """From this delivery count on records are acquired in ever smaller numbers.

        Otherwise one record that no member can process would get its whole batch archived.
        """
        return max(_THROTTLE_FROM_MIN, (self.delivery_count_max + 1) // 2)


class BatchSpan(NamedTuple):
    """The offsets of a batch of the log."""

    first: int
    last: int
    aborted: bool = False  # its transaction was; read_committed skips it


class AcquiredRecords(NamedTuple):
    """Records that a member has acquired, all with the same delivery count."""

    first: int
    last: int
    delivery_count: int


class ShareAcknowledgementBatch(NamedTuple):
    """Acknowledgements of a range: one type for all records, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class DeadRecords(NamedTuple):
    """Records for the dead letter queue, and why."""

    first: int
    last: int
    delivery_count: int
    cause: str


class StateTransition:
    """What has to be stored: the states of `batches`, and the new start offset.

    Once it is stored, `dead` goes to the dead letter queue.
    """

    __slots__ = ("batches", "dead", "delivery_complete_count", "start_offset")

    def __init__(self) -> None:
        self.dead: list[DeadRecords] = []
        self.start_offset = -1
        self.delivery_complete_count = 0
        self.batches: list[StateBatch] = []


class AcquireLimits(NamedTuple):
    """How much a fetch takes. `strict`: no more than that, even to complete a batch."""

    records_max: int
    batch_size: int
    strict: bool = False  # KIP-1206: share.acquire.mode=record_limit


Delays = Callable[[BatchSpan], Iterable[tuple[int, int]]]
"""The delayed records of a batch: the offset of each, and when it is due (epoch ms)."""


class SharePartition:
    """`batches` are the stored states; records that they leave out are available."""

    __slots__ = (
        "_batches",
        "_deadline_ms",
        "_delayed",
        "_final_count",
        "_log_start_offset",
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
        limits: SharePartitionLimits | None = None,
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.limits = limits or SharePartitionLimits()
        self._batches = InFlightBatches()
        self._deadline_ms = _NEVER_MS  # no lock expires earlier
        self._delayed: list[tuple[int, int]] = []  # a heap: when due, and which offset
        self._log_start_offset = 0
        self._final_count = 0  # final records of `_batches`
        self._search_from = start_offset  # no record before it is available
        for batch in sorted(batches):
            if batch.last_offset >= self.end_offset:
                self._grow(batch.first_offset - 1, RecordState.AVAILABLE)
                self._grow(batch.last_offset, batch.state, batch.delivery_count)
        self._advance(self.start_offset, self.end_offset)

    def __repr__(self) -> str:
        return f"SharePartition({self.start_offset}, {list(self._batches)}, {self.end_offset})"

    # -- acquiring

    @property
    def delayed_count(self) -> int:
        return len(self._delayed)

    @property
    def in_flight_count(self) -> int:
        """As in Kafka, final records count until the start has passed them.

        Not so where records are delayed: the start stays before them, and neither they nor the
        final records behind them may hold up the others.
        """
        count = self.end_offset - self.start_offset
        if self._delayed:
            count -= self._final_count + len(self._delayed)
        return count

    @property
    def window_end(self) -> int:
        """No record from here on can be acquired now."""
        return self.end_offset + max(self.limits.in_flight_max - self.in_flight_count, 0)

    def fetch_offset(self) -> int | None:
        """Where the next fetch begins to read; None while too many records are in flight."""
        for batch in self._batches.from_offset(self._search_from):
            if batch.is_available:
                self._search_from = batch.first
                return batch.first
        self._search_from = self.end_offset
        if len(self._delayed) >= self.limits.delayed_max:
            return None
        if self.in_flight_count < self.limits.in_flight_max:
            return self.end_offset
        return None

    def acquire(
        self,
        member_id: str,
        spans: Sequence[BatchSpan],
        *,
        fetch_offset: int,
        acquire_limits: AcquireLimits,
        now_ms: int,
        delays: Delays | None = None,
    ) -> list[AcquiredRecords]:
        """Acquire records of what was read from `fetch_offset` on, for this member.

        A member gets whole batches of the log, even if these are a few records more than it wants.
        `delays` is only called for batches of which records would be acquired.
        """
        if not spans or acquire_limits.records_max <= 0:
            return []
        first = max(spans[0].first, self.start_offset)
        self._archive_missing(fetch_offset, first - 1)
        due_ms = now_ms + self.limits.lock_duration_ms
        taken, more = self._acquire_again(member_id, first, spans[-1].last, acquire_limits, due_ms)
        count = sum(map(len, taken))
        if more and count < acquire_limits.records_max:
            left = acquire_limits._replace(records_max=acquire_limits.records_max - count)
            taken += self._acquire_new(member_id, spans, left, due_ms)
        if taken:
            self._deadline_ms = min(self._deadline_ms, due_ms)
        ranges = [(batch.first, batch.last) for batch in taken]
        self._archive_aborted(ranges, spans)
        if delays is not None:
            self._delay(ranges, spans, delays, now_ms)
        result = [
            AcquiredRecords(batch.first, batch.last, batch.delivery_count)
            for first, last in ranges
            for batch in self._batches.overlapping(first, last)
            if batch.state is RecordState.ACQUIRED
        ]
        self._advance(fetch_offset, self.end_offset)
        return result

    def _acquire_again(
        self, member_id: str, first: int, last: int, acquire_limits: AcquireLimits, due_ms: int
    ) -> tuple[list[InFlightBatch], bool]:
        """Records that were delivered before. False: acquire no more, these are sent alone."""
        taken: list[InFlightBatch] = []
        count = 0
        for batch in self._batches.overlapping(first, last):
            if count >= acquire_limits.records_max:
                break
            if not batch.is_available or batch.last < first:
                continue
            throttled = batch.delivery_count >= self.limits.throttle_from
            if throttled and taken:
                return taken, False
            begin, end = max(batch.first, first), min(batch.last, last)
            end = min(end, begin + self._count_together(batch, acquire_limits, count) - 1)
            for part in self._batches.carve(begin, end):
                part.acquire(member_id, due_ms)
                taken.append(part)
                count += len(part)
            if throttled:
                return taken, False
        return taken, True

    def _count_together(
        self, batch: InFlightBatch, acquire_limits: AcquireLimits, count: int
    ) -> int:
        """How many records of a batch may be acquired together."""
        left = acquire_limits.records_max - count
        most = min(len(batch), left if acquire_limits.strict else max(left, batch.batch_count))
        limits = self.limits
        if limits.delivery_count_max > 2 and batch.delivery_count >= limits.delivery_count_max - 1:
            return 1  # each record gets its last delivery alone
        if batch.delivery_count >= limits.throttle_from:
            halvings = batch.delivery_count - limits.throttle_from + 1
            most = min(most, max(1, batch.batch_count >> halvings))
        return most

    def _acquire_new(
        self, member_id: str, spans: Sequence[BatchSpan], acquire_limits: AcquireLimits, due_ms: int
    ) -> list[InFlightBatch]:
        """Records that were never acquired, within the limit of records in flight."""
        room = self.limits.in_flight_max - self.in_flight_count
        count = min(acquire_limits.records_max, room)
        spans = [span for span in spans if span.last >= self.end_offset]
        if not spans or count <= 0:
            return []
        self._grow(spans[0].first - 1, RecordState.ARCHIVED)  # offsets that the log does not have
        begin = self.end_offset
        last = spans[-1].last
        if count < last - begin + 1:
            last = begin + count - 1
            if not acquire_limits.strict:
                last = next(span.last for span in spans if span.last >= last)
        taken = []
        for end in _batch_ends(spans, begin, last, acquire_limits):
            batch = self._grow(end, RecordState.AVAILABLE)
            assert batch is not None
            batch.acquire(member_id, due_ms)
            taken.append(batch)
        return taken

    def _archive_missing(self, first: int, last: int) -> None:
        """Available records that are no longer in the log: they were compacted away."""
        first = max(first, self.start_offset)
        last = min(last, self.end_offset - 1)
        if first <= last:
            for batch in self._batches.carve(first, last):
                if batch.is_available:
                    batch.state = RecordState.ARCHIVED
                    self._final_count += len(batch)

    def _archive_aborted(self, ranges: list[tuple[int, int]], spans: Sequence[BatchSpan]) -> None:
        """Of records just acquired, those of aborted transactions are archived."""
        for span in spans:
            if not span.aborted:
                continue
            for first, last in ranges:
                if span.first <= last and first <= span.last:
                    for batch in self._batches.carve(max(span.first, first), min(span.last, last)):
                        batch.state = RecordState.ARCHIVED
                        batch.member_id = ""
                        self._final_count += len(batch)

    def _delay(
        self,
        ranges: list[tuple[int, int]],
        spans: Sequence[BatchSpan],
        delays: Delays,
        now_ms: int,
    ) -> None:
        """Of records just acquired, those that are not due yet are set aside."""
        for span in spans:
            parts = [part for part in ranges if span.first <= part[1] and part[0] <= span.last]
            for offset, due_ms in delays(span) if parts else ():
                if due_ms <= now_ms or not any(a <= offset <= b for a, b in parts):
                    continue
                (batch,) = self._batches.carve(offset, offset)
                if batch.state is RecordState.ACQUIRED:  # and not of an aborted transaction
                    batch.delay()
                    heappush(self._delayed, (due_ms, offset))

    # -- acknowledging

    def acknowledge(
        self, member_id: str, acknowledged: Iterable[ShareAcknowledgementBatch], now_ms: int
    ) -> StateTransition:
        """All of them; or a KafkaError, and none of them."""
        transition = StateTransition()
        renewed: list[InFlightBatch] = []
        try:
            for acknowledgement in acknowledged:
                self._acknowledge(member_id, acknowledgement, transition, renewed)
        except KafkaError:
            self.rollback(transition)
            raise
        for batch in renewed:
            batch.deadline_ms = now_ms + self.limits.lock_duration_ms
        return self._complete_transition(transition)

    def _acknowledge(
        self,
        member_id: str,
        acknowledgement: ShareAcknowledgementBatch,
        transition: StateTransition,
        renewed: list[InFlightBatch],
    ) -> None:
        if acknowledgement.last < self._log_start_offset:
            return  # retention deleted them while the member processed them
        if acknowledgement.last < self.start_offset:
            raise _invalid_state("those records are done with, or were never given out")
        if acknowledgement.last >= self.end_offset:
            message = f"nothing from offset {self.end_offset} on was given out"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        for first, last, kind in _pieces(acknowledgement):
            if last < self.start_offset:
                continue
            for batch in self._batches.carve(max(first, self.start_offset), last):
                if batch.state is not RecordState.ACQUIRED:
                    raise _invalid_state(f"offset {batch.first} is not acquired")
                if batch.member_id != member_id:
                    raise _invalid_state(f"offset {batch.first} is acquired by another member")
                if kind is AcknowledgeType.RENEW:
                    renewed.append(batch)
                else:
                    cause = REJECTED if kind is AcknowledgeType.REJECT else ""
                    self._transition(batch, _STATES[kind], transition, cause)

    def release(self, member_id: str) -> StateTransition:
        """The member's session is over: what it has acquired is available again."""
        transition = StateTransition()
        for batch in self._batches:
            if batch.state is RecordState.ACQUIRED and batch.member_id == member_id:
                self._transition(batch, RecordState.AVAILABLE, transition)
        return self._complete_transition(transition)

    # -- the dead letter queue

    def unfinished(self) -> list[DeadRecords]:
        """Records that were ARCHIVING when the state was loaded.

        Why they are dead is not stored. As in Kafka, it is derived from the delivery count.
        """
        return [
            DeadRecords(batch.first, batch.last, batch.delivery_count, self._guess(batch))
            for batch in self._batches
            if batch.state is RecordState.ARCHIVING
        ]

    def _guess(self, batch: InFlightBatch) -> str:
        spent = batch.delivery_count >= self.limits.delivery_count_max
        return DELIVERED_TOO_OFTEN if spent else REJECTED

    def archive(self, first: int, last: int) -> StateTransition:
        """The dead letters of these records are written, or cannot be: the records are final."""
        transition = StateTransition()
        first, last = max(first, self.start_offset), min(last, self.end_offset - 1)
        for batch in self._batches.carve(first, last) if first <= last else ():
            if batch.state is RecordState.ARCHIVING:
                batch.become(RecordState.ARCHIVED, batch.delivery_count, transition)
                self._final_count += len(batch)
        return self._complete_transition(transition)

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called; an earlier call does no harm."""
        due_ms = self._delayed[0][0] if self._delayed else _NEVER_MS
        due_ms = min(due_ms, self._deadline_ms)
        return None if due_ms == _NEVER_MS else due_ms

    def clock_set(self, step_ms: int) -> None:
        """Locks keep the time that they had left. Delayed records are due at a time of the day."""
        if self._deadline_ms != _NEVER_MS:
            self._deadline_ms += step_ms
        for batch in self._batches:
            batch.clock_set(step_ms)

    def expire(self, now_ms: int) -> StateTransition:
        """Locks that have expired: their records are available again, or archived if spent.

        Delayed records that are due become available. That is not stored.
        """
        self._release_delayed(now_ms)
        transition = StateTransition()
        self._deadline_ms = _NEVER_MS
        for batch in self._batches:
            if batch.state is RecordState.ACQUIRED:
                if batch.deadline_ms <= now_ms:
                    self._transition(batch, RecordState.AVAILABLE, transition)
                else:
                    self._deadline_ms = min(self._deadline_ms, batch.deadline_ms)
        return self._complete_transition(transition)

    def _release_delayed(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, offset = heappop(self._delayed)
            for batch in self._batches.carve(offset, offset):
                batch.delayed = False
            self._search_from = min(self._search_from, offset)

    # -- the log

    def move_log_start(self, offset: int) -> None:
        """The log begins here now: records before it cannot be acquired any more."""
        if offset <= self.start_offset:
            return
        self._log_start_offset = offset
        self._batches.drop_before(offset)
        if self._delayed:
            self._delayed = [entry for entry in self._delayed if entry[1] >= offset]
            heapify(self._delayed)
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._final_count = sum(len(batch) for batch in self._batches if batch.is_final)
        self._advance(offset, self.end_offset)

    # -- changes

    def commit(self, transition: StateTransition) -> None:
        first, last = self._extent(transition)
        for batch in self._batches.overlapping(first, last):
            if batch.transition is transition:
                batch.keep()
        self._search_from = min(self._search_from, first)
        self._advance(first, last)

    def rollback(self, transition: StateTransition) -> None:
        """It could not be stored: members keep what they had acquired, until their locks expire."""
        first, last = self._extent(transition)
        for batch in self._batches.overlapping(first, last):
            if batch.transition is transition:
                if batch.is_final:
                    self._final_count -= len(batch)
                batch.take_back()
                self._deadline_ms = min(self._deadline_ms, batch.deadline_ms)
        self._batches.join(first, last)

    def _extent(self, transition: StateTransition) -> tuple[int, int]:
        """Where its records lie; everywhere, if it has no batches yet."""
        if transition.batches:
            return transition.batches[0].first_offset, transition.batches[-1].last_offset
        return self.start_offset, self.end_offset

    def _transition(
        self, batch: InFlightBatch, state: RecordState, transition: StateTransition, cause: str = ""
    ) -> None:
        spent = batch.delivery_count >= self.limits.delivery_count_max
        if state is RecordState.AVAILABLE and spent:
            state, cause = RecordState.ARCHIVED, DELIVERED_TOO_OFTEN
        if cause and self.limits.dead_letters:
            state = RecordState.ARCHIVING
            transition.dead.append(
                DeadRecords(batch.first, batch.last, batch.delivery_count, cause)
            )
        batch.become(state, batch.delivery_count, transition)
        if batch.is_final:
            self._final_count += len(batch)

    def _complete_transition(self, transition: StateTransition) -> StateTransition:
        transition.batches = merge(
            batch.stored() for batch in self._batches if batch.transition is transition
        )
        transition.start_offset = self._batches.final_prefix_end(self.start_offset, transition)
        passed = transition.start_offset - self.start_offset  # all of them final
        transition.delivery_complete_count = self._final_count - passed
        return transition

    def _advance(self, first: int, last: int) -> None:
        """The start moves over final records, after a change from `first` to `last`."""
        offset = self._batches.final_prefix_end(self.start_offset, None)
        if offset > self.start_offset:
            self._final_count -= offset - self.start_offset
            self._batches.drop_before(offset)
            self.start_offset = offset
        self._batches.join(first, last)

    def _grow(self, last: int, state: RecordState, delivery_count: int = 0) -> InFlightBatch | None:
        """Append records in this state, up to `last`."""
        if last < self.end_offset:
            return None
        batch = InFlightBatch(self.end_offset, last, state, delivery_count)
        self._batches.append(batch)
        self.end_offset = last + 1
        if batch.is_final:
            self._final_count += len(batch)
        return batch


def _batch_ends(
    spans: Iterable[BatchSpan], begin: int, last: int, acquire_limits: AcquireLimits
) -> list[int]:
    """Where to split what is acquired, so that no part has many more records than requested.

    Split only between batches of the log.
    """
    ends = []
    if not acquire_limits.strict:
        for span in spans:
            if begin + acquire_limits.batch_size <= span.first <= last:
                ends.append(span.first - 1)
                begin = span.first
    return [*ends, last]


def _pieces(acknowledgement: ShareAcknowledgementBatch) -> list[tuple[int, int, AcknowledgeType]]:
    """Ranges with the same acknowledgement type."""
    if len(acknowledgement.types) == 1:
        return [
            (acknowledgement.first, acknowledgement.last, AcknowledgeType(acknowledgement.types[0]))
        ]
    pieces: list[tuple[int, int, AcknowledgeType]] = []
    for offset, kind in enumerate(acknowledgement.types, acknowledgement.first):
        if pieces and pieces[-1][2] == kind:
            pieces[-1] = (pieces[-1][0], offset, pieces[-1][2])
        else:
            pieces.append((offset, offset, AcknowledgeType(kind)))
    return pieces


def _invalid_state(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
