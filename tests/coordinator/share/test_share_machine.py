"""Share-partitions under random orders of requests, time, and restarts.

A record is never with two members, and never early; an accepted one never returns, and in the end
each was accepted, or delivered up to the limit. If the group has a dead letter queue, it contains
each record that was rejected or given up.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.coordinator.share.partition import (
    AcquireLimits,
    BatchSpan,
    DeadRecords,
    ShareAcknowledgementBatch,
    SharePartition,
    SharePartitionLimits,
    StateTransition,
)
from ottla.coordinator.share.record_state import AcknowledgeType
from ottla.coordinator.share.shard import ShareCoordinatorShard, SharePartitionWrite
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

KEY = SharePartitionKey("g", b"t" * 16, 0)
LOCK_MS = 1_000
MEMBERS = st.sampled_from(["a", "b", "c"])


class ShareMachine(RuleBasedStateMachine):
    """A log, the group's share-partition, and the topic of its state."""

    @initialize(
        delivery_max=st.integers(2, 6), in_flight_max=st.integers(5, 40),
        dead_letters=st.booleans(), delayed_max=st.integers(1, 20),
    )  # fmt: skip
    def begin(
        self, delivery_max: int, in_flight_max: int, dead_letters: bool, delayed_max: int
    ) -> None:
        self.limits = SharePartitionLimits(
            LOCK_MS, delivery_max, in_flight_max, dead_letters, delayed_max
        )
        self.due_ms: dict[int, int] = {}  # when delayed records become due
        self.dead: list[DeadRecords] = []  # dead letters in flight
        self.letters: set[int] = set()  # in the queue
        self.gone: set[int] = set()  # acknowledged as gaps
        self.now_ms = 0
        self.batches: list[BatchSpan] = []
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.states = ShareCoordinatorShard(0, updates_per_snapshot=3)
        event = self.states.new_event(0)
        self.states.initialize(KEY, state_epoch=0, start_offset=0, event=event)
        self.stored += event.result.records
        self.states.appended(event.result.records, 0)
        self.partition = SharePartition(0, limits=self.limits)
        self.holders: dict[int, tuple[str, int]] = {}  # offset: member, end of its lock
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()
        self.deliveries: dict[int, int] = {}
        self.low_start = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    # -- events

    @rule(
        size=st.integers(1, 6), gap=st.integers(0, 2),
        delays=st.dictionaries(st.integers(0, 5), st.integers(0, 5 * LOCK_MS), max_size=4),
    )  # fmt: skip
    def produce(self, size: int, gap: int, delays: dict[int, int]) -> None:
        first = self.end + gap
        self.batches.append(BatchSpan(first, first + size - 1))
        for index, ms in delays.items():
            if index < size:
                self.due_ms[first + index] = self.now_ms + ms

    def delays(self, span: BatchSpan) -> list[tuple[int, int]]:
        return [due for due in self.due_ms.items() if span.first <= due[0] <= span.last]

    @rule(
        member=MEMBERS, most=st.integers(1, 12), size=st.integers(1, 8), strict=st.booleans(),
        batches=st.integers(1, 4),
    )  # fmt: skip
    def fetch(self, member: str, most: int, size: int, strict: bool, batches: int) -> None:
        offset = self.partition.fetch_offset()
        if offset is None:
            return
        spans = [span for span in self.batches if span.last >= offset][:batches]
        acquire_limits = AcquireLimits(most, size, strict)
        acquired = self.partition.acquire(
            member,
            spans,
            fetch_offset=offset,
            acquire_limits=acquire_limits,
            now_ms=self.now_ms,
            delays=self.delays,
        )
        given = [number for run in acquired for number in range(run.first, run.last + 1)]
        assert len(set(given)) == len(given)
        assert not strict or len(given) <= most
        for number in given:
            assert number not in self.accepted | self.rejected
            assert self.due_ms.get(number, 0) <= self.now_ms, f"{number} was delivered too early"
            held = self.holders.get(number)
            assert held is None, f"{number} is with {held}"
            self.holders[number] = (member, self.now_ms + LOCK_MS)
            self.deliveries[number] = self.deliveries.get(number, 0) + 1
        for run in acquired:
            assert run.delivery_count <= self.limits.delivery_count_max

    @rule(
        member=MEMBERS,
        kind=st.sampled_from(list(AcknowledgeType)),
        skip=st.integers(0, 5),
        count=st.integers(1, 8),
        works=st.booleans() | st.just(True),
    )
    def acknowledge(
        self, member: str, kind: AcknowledgeType, skip: int, count: int, works: bool
    ) -> None:
        mine = sorted(offset for offset, (who, _) in self.holders.items() if who == member)
        mine = mine[skip : skip + count]
        if not mine:
            return
        said = [ShareAcknowledgementBatch(offset, offset, [kind]) for offset in mine]
        change = self.partition.acknowledge(member, said, self.now_ms)
        if kind is AcknowledgeType.RENEW:
            self.partition.commit(change)
            for offset in mine:
                self.holders[offset] = (member, self.now_ms + LOCK_MS)
            return
        if not self._store(change, works):
            return
        for offset in mine:
            del self.holders[offset]
        if kind is AcknowledgeType.ACCEPT:
            self.accepted.update(mine)
        elif kind is not AcknowledgeType.RELEASE:
            self.rejected.update(mine)
            if kind is AcknowledgeType.GAP:
                self.gone.update(mine)

    @rule(
        member=MEMBERS, size=st.integers(1, 4), delays=st.dictionaries(
            st.integers(0, 3), st.integers(0, 2 * LOCK_MS), max_size=2
        ), kind=st.sampled_from(list(AcknowledgeType)),
    )  # fmt: skip
    def work(self, member: str, size: int, delays: dict[int, int], kind: AcknowledgeType) -> None:
        """Fetches and accepts, the usual case."""
        self.produce(size, 0, delays)
        self.fetch(member, 12, 8, False, 4)
        self.acknowledge(member, kind, 0, 8, True)

    @rule(member=MEMBERS, first=st.integers(0, 60), size=st.integers(0, 5))
    def acknowledge_what_is_not_ours(self, member: str, first: int, size: int) -> None:
        wanted = range(first, first + size + 1)
        if all(self.holders.get(offset, ("", 0))[0] == member for offset in wanted):
            return
        if any(offset < self.partition.start_offset for offset in wanted):
            return
        before = repr(self.partition)
        try:
            self.partition.acknowledge(
                member,
                [ShareAcknowledgementBatch(first, first + size, [AcknowledgeType.ACCEPT])],
                self.now_ms,
            )
        except KafkaError:
            assert len(repr(self.partition)) <= len(before)  # at most merged
        else:
            raise AssertionError("somebody else's records were acknowledged")

    @rule(member=MEMBERS)
    def close_session(self, member: str) -> None:
        self._store(self.partition.release(member), True)
        for offset in [offset for offset, (who, _) in self.holders.items() if who == member]:
            del self.holders[offset]

    @rule(ms=st.sampled_from([1, LOCK_MS // 2, LOCK_MS]))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        due_ms = self.partition.next_deadline_ms()
        earliest = min((until for _, until in self.holders.values()), default=None)
        assert earliest is None or (due_ms is not None and due_ms <= earliest)
        if due_ms is not None and due_ms <= self.now_ms:
            self._store(self.partition.expire(self.now_ms), True)
            for offset in [
                offset for offset, (_, until) in self.holders.items() if until <= self.now_ms
            ]:
                del self.holders[offset]

    @rule(works=st.booleans())
    def send_dead_letters(self, works: bool) -> None:
        if self.dead:
            letter = self.dead.pop()
            assert letter.cause
            self.letters |= _offsets([letter])
            if not self._store(self.partition.archive(letter.first, letter.last), works):
                self.dead.append(letter)

    @rule()
    def restart(self) -> None:
        self.states = ShareCoordinatorShard(0, updates_per_snapshot=3)
        self.states.load(
            Record(offset, key=key, value=value) for offset, (key, value) in enumerate(self.stored)
        )
        state = self.states.state(KEY)
        self.partition = SharePartition(
            max(state.start_offset, 0), batches=state.batches, limits=self.limits
        )
        assert self.partition.start_offset >= self.low_start
        self.holders.clear()
        self.dead = self.partition.unfinished()

    def _store(self, change: StateTransition, works: bool) -> bool:
        if not change.batches:
            self.partition.commit(change)
            return True
        write = SharePartitionWrite(
            0, 0, change.start_offset, change.delivery_complete_count, tuple(change.batches)
        )
        event = self.states.new_event(self.now_ms)
        self.states.write(KEY, write, event)
        assert event.result.records
        if not works:
            self.states.failed(event.result, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=self.now_ms)
            self.partition.rollback(change)
            return False
        self.states.appended(event.result.records, len(self.stored))
        self.stored += event.result.records
        self.partition.commit(change)
        assert self.partition.start_offset == change.start_offset
        self.low_start = change.start_offset
        self.dead += change.dead
        assert self.limits.dead_letters or not self.dead
        return True

    # -- invariants

    @invariant()
    def the_start_is_behind_everything_that_is_not_done(self) -> None:
        if not hasattr(self, "partition"):
            return
        for offset in self.holders:
            assert self.partition.start_offset <= offset < self.partition.end_offset

    @invariant()
    def what_is_counted_along_is_what_there_is(self) -> None:
        if hasattr(self, "partition"):
            runs = list(self.partition._batches)
            final = sum(len(run) for run in runs if run.is_final)
            assert self.partition._final_count == final
            assert self.partition.delayed_count == sum(len(run) for run in runs if run.delayed)
            available = [run.first for run in runs if run.is_available]
            if available:
                assert self.partition.fetch_offset() == available[0]

    @invariant()
    def dead_letters_are_exactly_what_is_being_archived(self) -> None:
        if hasattr(self, "partition"):
            assert _offsets(self.dead) == _offsets(self.partition.unfinished())

    def teardown(self) -> None:
        """In the end one member accepts everything left; nothing was lost."""
        if not hasattr(self, "partition"):
            return
        self.restart()
        self.now_ms = max(self.due_ms.values(), default=self.now_ms) + LOCK_MS
        self.partition.expire(self.now_ms)
        while self.dead:
            self.send_dead_letters(True)
        for _ in range(10_000):
            self.fetch("z", 100, 100, False, 100)
            mine = sorted(self.holders)
            if not mine:
                break
            said = [
                ShareAcknowledgementBatch(offset, offset, [AcknowledgeType.ACCEPT])
                for offset in mine
            ]
            assert self._store(self.partition.acknowledge("z", said, self.now_ms), True)
            self.accepted.update(mine)
            self.holders.clear()
        assert self.partition.start_offset == self.partition.end_offset == self.end
        limit = self.limits.delivery_count_max
        for span in self.batches:
            for offset in range(span.first, span.last + 1):
                done = offset in self.accepted or offset in self.rejected
                assert done or self.deliveries.get(offset, 0) >= limit, f"{offset} was lost"
                buried = offset in self.letters or offset in self.accepted or offset in self.gone
                assert buried or not self.limits.dead_letters, f"{offset} is no dead letter"


def _offsets(dead: list[DeadRecords]) -> set[int]:
    return {offset for letter in dead for offset in range(letter.first, letter.last + 1)}


TestShareMachine = ShareMachine.TestCase
TestShareMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
