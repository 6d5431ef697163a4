"""Share-partitions under everything that can happen at once, members, time, and restarts.

Whatever comes, a record is never with two members, one that was accepted never comes back, and in
the end each was accepted, or given out as often as the limit says.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.coordinator.share.partition import (
    Acknowledged,
    Change,
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

    @initialize(delivery_max=st.integers(2, 6), in_flight_max=st.integers(5, 40))
    def begin(self, delivery_max: int, in_flight_max: int) -> None:
        self.limits = Limits(LOCK_MS, delivery_max, in_flight_max)
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

    @rule(size=st.integers(1, 6), gap=st.integers(0, 2))
    def produce(self, size: int, gap: int) -> None:
        first = self.end + gap
        self.batches.append(Span(first, first + size - 1))

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
            member, spans, fetch_offset=offset, wanted=wanted, now_ms=self.now_ms
        )
        given = [each for run in acquired for each in range(run.first, run.last + 1)]
        assert len(set(given)) == len(given)
        assert not strict or len(given) <= most
        for each in given:
            assert each not in self.accepted | self.rejected
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
        return True

    # -- what always holds

    @invariant()
    def the_start_is_behind_everything_that_is_not_done(self) -> None:
        if not hasattr(self, "partition"):
            return
        for each in self.holders:
            assert self.partition.start_offset <= each < self.partition.end_offset

    def teardown(self) -> None:
        """In the end one member takes everything that is left; nothing was lost."""
        if not hasattr(self, "partition"):
            return
        self.restart()
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


TestShareMachine = ShareMachine.TestCase
TestShareMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
