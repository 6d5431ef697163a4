"""Producers, restarted coordinators, failing appends and markers, in any order.

A model beside the shard checks what clients may rely on: a decision that a client has received
stands, all partitions of a transaction get the same one, and a fenced producer is refused.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.transactions.records import read_key, read_value
from ottla.coordinator.transactions.result import (
    TransactionMarkers,
    TransactionResult,
)
from ottla.coordinator.transactions.shard import (
    MARKER_RETRY_INTERVAL_MS,
    TransactionConfig,
    TransactionCoordinatorShard,
)
from ottla.coordinator.transactions.transaction import (
    EPOCH_MAX,
    PREPARED,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

IDS = ("x", "y")
TIMEOUT_MS = 20_000
ids = st.sampled_from(IDS)
versions = st.sampled_from((0, 2))
producers = st.sampled_from(("first", "second"))
partitions = st.frozensets(st.sampled_from([("t", 0), ("t", 1), ("u", 0)]), min_size=1, max_size=3)


class Producer:
    """A client's own state, which may be outdated."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.epoch = -1


class ResponseToken(NamedTuple):
    """The client that a response is for, and its request."""

    name: tuple[str, str]
    what: str


def _unmarked(transaction: TransactionMetadata | None) -> TransactionMetadata | None:
    """Written markers are not stored, so a failed append does not undo them."""
    if transaction is None or transaction.state not in PREPARED:
        return transaction
    return transaction._replace(partitions=frozenset())


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.numbers = itertools.count(0)
        self.has_ids = True
        self.fails = False  # the next append
        self.away: set[TopicPartition] = set()
        self.producers = {
            (transactional_id, who): Producer()
            for transactional_id in IDS
            for who in ("first", "second")
        }
        self.asked: set[int] = set()
        self.tokens = itertools.count(0)
        self.last: TransactionResult | None = None
        self.before: dict[str, TransactionMetadata] = {}  # as the log has it
        # What partitions have received: the decision of each producer id and epoch.
        self.heard: dict[tuple[int, int], bool] = {}
        self.load()

    # -- the world around the shard

    def load(self) -> None:
        self.shard = TransactionCoordinatorShard(
            0, coordinator_epoch=0, config=TransactionConfig(), ids=self.take
        )
        self.shard.load(Record(key=key, value=value) for key, value in self.log)
        self.carry_out(self.shard.loaded(self.now_ms))

    def take(self) -> int:
        if not self.has_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return next(self.numbers)

    def carry_out(self, outcome: CoordinatorResult) -> None:
        replies = outcome.replies
        markers = outcome.markers
        if outcome.records and self.fails:
            self.fails = False
            replies = self.shard.failed(outcome, ErrorCode.NOT_ENOUGH_REPLICAS, now_ms=self.now_ms)
            assert all(r.code is ErrorCode.COORDINATOR_NOT_AVAILABLE for _, r in replies)
            for name in IDS:
                was, now = self.before.get(name), self.shard.transactions.get(name)
                assert _unmarked(now) == _unmarked(was)
            markers = []
        else:
            self.log.extend(outcome.records)
            self.before = dict(self.shard.transactions)
        for token, result in replies:
            assert token in self.asked
            self.asked.discard(token)  # type: ignore[arg-type]
            self.last = result
        for wanted in markers:
            codes = {where: self.write(wanted, where) for where in wanted.partitions}
            self.carry_out(self.shard.marked(wanted, codes, now_ms=self.now_ms))

    def write(self, markers: TransactionMarkers, partition: TopicPartition) -> ErrorCode:
        if partition in self.away:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if markers.transaction_version >= 2:  # otherwise several transactions share an epoch
            key = (markers.producer_id, markers.producer_epoch)
            assert self.heard.setdefault(key, markers.commit) == markers.commit
        return ErrorCode.NONE

    def ask(self) -> int:
        token = next(self.tokens)
        self.asked.add(token)
        self.last = None
        return token

    def reply(self) -> TransactionResult:
        """Every request is answered once and immediately."""
        assert self.last is not None
        assert not self.asked
        return self.last

    # -- events

    @rule(transactional_id=ids, who=producers, resume=st.booleans(), hears=st.booleans())
    def init(self, transactional_id: str, who: str, resume: bool, hears: bool) -> None:
        producer = self.producers[transactional_id, who]
        before = self.shard.transactions.get(transactional_id)
        expected = None
        if resume and producer.producer_id >= 0:
            expected = (producer.producer_id, producer.epoch)
        outcome = self.shard.init_producer_id(
            transactional_id,
            timeout_ms=TIMEOUT_MS,
            expected=expected,
            token=self.ask(),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)
        result = self.reply()
        if result.code is ErrorCode.NONE:
            assert before is None or before.state not in (TransactionState.ONGOING, *PREPARED)
            if before is not None and expected is None:
                old, new = (before.producer_id, before.epoch), result[1:]
                assert new[0] != old[0] or new[1] > old[1]
            if hears:
                producer.producer_id, producer.epoch = result.producer_id, result.producer_epoch

    @rule(transactional_id=ids, who=producers, added=partitions, version=versions)
    def add(
        self, transactional_id: str, who: str, added: frozenset[TopicPartition], version: int
    ) -> None:
        producer = self.producers[transactional_id, who]
        outcome = self.shard.add_partitions(
            transactional_id,
            added,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            client_version=version,
            token=self.ask(),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)
        result = self.reply()
        if result.code is ErrorCode.NONE:
            transaction = self.shard.transactions[transactional_id]
            assert transaction.state is TransactionState.ONGOING
            assert added <= transaction.partitions
            assert (transaction.producer_id, transaction.epoch) == (
                producer.producer_id,
                producer.epoch,
            )

    @rule(
        transactional_id=ids,
        who=producers,
        commit=st.booleans(),
        version=versions,
        hears=st.booleans(),
    )
    def end(self, transactional_id: str, who: str, commit: bool, version: int, hears: bool) -> None:
        producer = self.producers[transactional_id, who]
        before = self.shard.transactions.get(transactional_id)
        outcome = self.shard.end(
            transactional_id,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            commit=commit,
            client_version=version,
            token=self.ask(),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)
        result = self.reply()
        if result.code is not ErrorCode.NONE:
            return
        after = self.shard.transactions[transactional_id]
        assert after.commits == commit
        assert after.state is not TransactionState.ONGOING
        if before is not None and before.state is TransactionState.ONGOING:
            assert before.epoch == producer.epoch  # no producer ends another's transaction
        if version == 2:
            assert (result.producer_id, result.producer_epoch) == (
                after.producer_after,
                after.epoch_after,
            )
            if hears:
                producer.producer_id, producer.epoch = result.producer_id, result.producer_epoch

    @rule(away=st.sets(st.sampled_from([("t", 0), ("t", 1), ("u", 0)])))
    def leaders(self, away: set[TopicPartition]) -> None:
        self.away = away

    @rule()
    def fail_the_next_append(self) -> None:
        self.fails = True

    @rule(has_ids=st.booleans())
    def producer_ids(self, has_ids: bool) -> None:
        self.has_ids = has_ids

    @rule(wait_ms=st.sampled_from((0, MARKER_RETRY_INTERVAL_MS, 10_000, 31_000)))
    def wait(self, wait_ms: int) -> None:
        end_ms = self.now_ms + wait_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.carry_out(self.shard.expire(self.now_ms))
        self.now_ms = end_ms

    @rule()
    def restart(self) -> None:
        before = self.shard.transactions
        self.fails = False
        self.load()
        for transactional_id, was in before.items():
            now = self.shard.transactions[transactional_id]
            if was.state in PREPARED:
                assert now.commits == was.commits  # decisions are final
            else:
                assert now == was._replace(last_epoch=-1)

    @precondition(lambda self: self.shard.transactions)
    @rule(transactional_id=ids)
    def come_to_the_last_epochs(self, transactional_id: str) -> None:
        transaction = self.shard.transactions.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.EMPTY:
            return
        for who in ("first", "second"):
            producer = self.producers[transactional_id, who]
            if (producer.producer_id, producer.epoch) == transaction[:2]:
                producer.epoch = EPOCH_MAX - 2
        if transaction.epoch < EPOCH_MAX - 2:
            now = transaction._replace(epoch=EPOCH_MAX - 2, last_epoch=-1)
            event = self.shard.new_event(self.now_ms)
            self.shard._change(transactional_id, now, event)
            self.carry_out(event.result)

    def teardown(self) -> None:
        """Once everything works again, every decision is executed, and all others are aborted."""
        self.away, self.fails, self.has_ids = set(), False, True
        self.wait(TIMEOUT_MS + 20_000)
        self.wait(20_000)
        for transaction in self.shard.transactions.values():
            assert transaction.state in (
                TransactionState.EMPTY,
                TransactionState.COMPLETE_COMMIT,
                TransactionState.COMPLETE_ABORT,
            )

    # -- invariants

    @invariant()
    def the_log_says_what_is_known(self) -> None:
        stored: dict[str, TransactionMetadata] = {}
        for key, value in self.log:
            transactional_id = read_key(key)
            assert transactional_id is not None
            assert value is not None
            stored[transactional_id] = read_value(value)
        assert stored.keys() == self.shard.transactions.keys()
        for name, known in self.shard.transactions.items():
            # Which markers were written, and the epoch before, are not stored.
            assert known.partitions <= stored[name].partitions
            same = {"partitions": frozenset[TopicPartition](), "last_epoch": -1}
            assert known._replace(**same) == stored[name]._replace(**same)  # type: ignore[arg-type]

    @invariant()
    def epochs_are_in_range(self) -> None:
        for transaction in self.shard.transactions.values():
            assert 0 <= transaction.epoch <= EPOCH_MAX
            if transaction.state is TransactionState.EMPTY:
                assert not transaction.partitions


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
