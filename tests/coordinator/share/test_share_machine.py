"""Share-partitions under everything that can happen at once, members, time, and restarts.

Whatever comes, a record is never with two members nor before its time, one that was accepted never
comes back, and in the end each was accepted, or given out as often as the limit says. Where the
group has a dead letter queue, each that was rejected or given up is there.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.coordinator.share.partition import (
    Acknowledged,
    Change,
    DeadRecords,
    Limits,
    SharePartition,
    Span,
    Wanted,
)
from ottla.coordinator.share.persister import ShareStates, StateWrite
from ottla.coordinator.share.records import StateKey
from ottla.coordinator.share.states import Acknowledgement
from ottla.errors import KafkaError

KEY = StateKey("g", b"t" * 16, 0)
LOCK_MS = 1_000
MEMBERS = st.sampled_from(["a", "b", "c"])


class ShareMachine(RuleBasedStateMachine):
    """A log, the group's share-partition, and the topic which keeps its state."""

    @initialize(
        delivery_max=st.integers(2, 6), in_flight_max=st.integers(5, 40),
        dead_letters=st.booleans(), delayed_max=st.integers(1, 20),
    )  # fmt: skip
    def begin(
        self, delivery_max: int, in_flight_max: int, dead_letters: bool, delayed_max: int
    ) -> None:
        self.limits = Limits(LOCK_MS, delivery_max, in_flight_max, dead_letters, delayed_max)
        self.due_ms: dict[int, int] = {}  # when delayed records may be given out
        self.dead: list[DeadRecords] = []  # on their way to the queue
        self.letters: set[int] = set()  # in the queue
        self.gone: set[int] = set()  # said to be no records at all
        self.now_ms = 0
        self.batches: list[Span] = []
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.states = ShareStates(updates_per_snapshot=3)
        made = self.states.initialize(KEY, state_epoch=0, start_offset=0, now_ms=0)
        assert made.record is not None
        self.stored.append(made.record)
        self.states.appended(KEY, made.record, 0)
        self.partition = SharePartition(0, limits=self.limits)
        self.holders: dict[int, tuple[str, int]] = {}  # offset: who, until when
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()
        self.deliveries: dict[int, int] = {}
        self.low_start = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    # -- what happens

    @rule(
        size=st.integers(1, 6), gap=st.integers(0, 2),
        delays=st.dictionaries(st.integers(0, 5), st.integers(0, 5 * LOCK_MS), max_size=4),
    )  # fmt: skip
    def produce(self, size: int, gap: int, delays: dict[int, int]) -> None:
        first = self.end + gap
        self.batches.append(Span(first, first + size - 1))
        for index, ms in delays.items():
            if index < size:
                self.due_ms[first + index] = self.now_ms + ms

    def delays(self, span: Span) -> list[tuple[int, int]]:
        return [each for each in self.due_ms.items() if span.first <= each[0] <= span.last]

    @rule(
        member=MEMBERS, most=st.integers(1, 12), size=st.integers(1, 8), strict=st.booleans(),
        batches=st.integers(1, 4),
    )  # fmt: skip
    def fetch(self, member: str, most: int, size: int, strict: bool, batches: int) -> None:
        offset = self.partition.fetch_offset()
        if offset is None:
            return
        spans = [span for span in self.batches if span.last >= offset][:batches]
        wanted = Wanted(most, size, strict)
        acquired = self.partition.acquire(
            member,
            spans,
            fetch_offset=offset,
            wanted=wanted,
            now_ms=self.now_ms,
            delays=self.delays,
        )
        given = [each for run in acquired for each in range(run.first, run.last + 1)]
        assert len(set(given)) == len(given)
        assert not strict or len(given) <= most
        for each in given:
            assert each not in self.accepted | self.rejected
            assert self.due_ms.get(each, 0) <= self.now_ms, f"{each} comes too early"
            held = self.holders.get(each)
            assert held is None, f"{each} is with {held}"
            self.holders[each] = (member, self.now_ms + LOCK_MS)
            self.deliveries[each] = self.deliveries.get(each, 0) + 1
        for run in acquired:
            assert run.delivery_count <= self.limits.delivery_count_max

    @rule(
        member=MEMBERS,
        kind=st.sampled_from(list(Acknowledgement)),
        skip=st.integers(0, 5),
        count=st.integers(1, 8),
        works=st.booleans() | st.just(True),
    )
    def acknowledge(
        self, member: str, kind: Acknowledgement, skip: int, count: int, works: bool
    ) -> None:
        mine = sorted(each for each, (who, _) in self.holders.items() if who == member)
        mine = mine[skip : skip + count]
        if not mine:
            return
        said = [Acknowledged(each, each, [kind]) for each in mine]
        change = self.partition.acknowledge(member, said, self.now_ms)
        if kind is Acknowledgement.RENEW:
            self.partition.commit(change)
            for each in mine:
                self.holders[each] = (member, self.now_ms + LOCK_MS)
            return
        if not self._store(change, works):
            return
        for each in mine:
            del self.holders[each]
        if kind is Acknowledgement.ACCEPT:
            self.accepted.update(mine)
        elif kind is not Acknowledgement.RELEASE:
            self.rejected.update(mine)
            if kind is Acknowledgement.GAP:
                self.gone.update(mine)

    @rule(
        member=MEMBERS, size=st.integers(1, 4), delays=st.dictionaries(
            st.integers(0, 3), st.integers(0, 2 * LOCK_MS), max_size=2
        ), kind=st.sampled_from(list(Acknowledgement)),
    )  # fmt: skip
    def work(self, member: str, size: int, delays: dict[int, int], kind: Acknowledgement) -> None:
        """What members do most of the time."""
        self.produce(size, 0, delays)
        self.fetch(member, 12, 8, False, 4)
        self.acknowledge(member, kind, 0, 8, True)

    @rule(member=MEMBERS, first=st.integers(0, 60), size=st.integers(0, 5))
    def acknowledge_what_is_not_ours(self, member: str, first: int, size: int) -> None:
        wanted = range(first, first + size + 1)
        if all(self.holders.get(each, ("", 0))[0] == member for each in wanted):
            return
        if any(each < self.partition.start_offset for each in wanted):
            return
        before = repr(self.partition)
        try:
            self.partition.acknowledge(
                member, [Acknowledged(first, first + size, [Acknowledgement.ACCEPT])], self.now_ms
            )
        except KafkaError:
            assert len(repr(self.partition)) <= len(before)  # joined, perhaps, but nothing else
        else:
            raise AssertionError("somebody else's records were acknowledged")

    @rule(member=MEMBERS)
    def close_session(self, member: str) -> None:
        self._store(self.partition.release(member), True)
        for each in [each for each, (who, _) in self.holders.items() if who == member]:
            del self.holders[each]

    @rule(ms=st.sampled_from([1, LOCK_MS // 2, LOCK_MS]))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        due_ms = self.partition.next_deadline_ms()
        earliest = min((until for _, until in self.holders.values()), default=None)
        assert earliest is None or (due_ms is not None and due_ms <= earliest)
        if due_ms is not None and due_ms <= self.now_ms:
            self._store(self.partition.expire(self.now_ms), True)
            for each in [each for each, (_, until) in self.holders.items() if until <= self.now_ms]:
                del self.holders[each]

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
        self.states = ShareStates(updates_per_snapshot=3)
        for offset, (key, value) in enumerate(self.stored):
            self.states.load(key, value, offset)
        state = self.states.state(KEY)
        self.partition = SharePartition(
            max(state.start_offset, 0), batches=state.batches, limits=self.limits
        )
        assert self.partition.start_offset >= self.low_start
        self.holders.clear()
        self.dead = self.partition.unfinished()

    def _store(self, change: Change, works: bool) -> bool:
        if not change.batches:
            self.partition.commit(change)
            return True
        write = StateWrite(
            0, 0, change.start_offset, change.delivery_complete_count, tuple(change.batches)
        )
        stored = self.states.write(KEY, write, self.now_ms)
        assert stored.record is not None
        if not works:
            stored.undo()
            self.partition.rollback(change)
            return False
        self.stored.append(stored.record)
        self.states.appended(KEY, stored.record, len(self.stored) - 1)
        self.partition.commit(change)
        assert self.partition.start_offset == change.start_offset
        self.low_start = change.start_offset
        self.dead += change.dead
        assert self.limits.dead_letters or not self.dead
        return True

    # -- what always holds

    @invariant()
    def the_start_is_behind_everything_that_is_not_done(self) -> None:
        if not hasattr(self, "partition"):
            return
        for each in self.holders:
            assert self.partition.start_offset <= each < self.partition.end_offset

    @invariant()
    def what_is_counted_along_is_what_there_is(self) -> None:
        if hasattr(self, "partition"):
            runs = list(self.partition._runs)
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
        """In the end one member takes everything that is left; nothing was lost."""
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
            said = [Acknowledged(each, each, [Acknowledgement.ACCEPT]) for each in mine]
            assert self._store(self.partition.acknowledge("z", said, self.now_ms), True)
            self.accepted.update(mine)
            self.holders.clear()
        assert self.partition.start_offset == self.partition.end_offset == self.end
        limit = self.limits.delivery_count_max
        for span in self.batches:
            for each in range(span.first, span.last + 1):
                done = each in self.accepted or each in self.rejected
                assert done or self.deliveries.get(each, 0) >= limit, f"{each} was lost"
                buried = each in self.letters or each in self.accepted or each in self.gone
                assert buried or not self.limits.dead_letters, f"{each} is no dead letter"


def _offsets(dead: list[DeadRecords]) -> set[int]:
    return {each for letter in dead for each in range(letter.first, letter.last + 1)}


TestShareMachine = ShareMachine.TestCase
TestShareMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
