"""The transactional ids of one partition of `__transaction_state`.

A shard is told what happens (a request, a time, markers that were written) and gives an Outcome. It
never waits. Producer ids come from `ids`, which raises KafkaError when there is none at hand.

    load(records)... -> loaded(now_ms) -> requests, marked(...), expire(now_ms), ...
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.deadlines import Deadlines, Key
from ottla.coordinator.outcome import Token, coordinator_code
from ottla.coordinator.transactions.ending import check_end
from ottla.coordinator.transactions.initializing import check_known, initialize
from ottla.coordinator.transactions.keys import (
    TRANSACTIONS_TOPIC,
    read_key,
    read_value,
    write_key,
    write_value,
)
from ottla.coordinator.transactions.outcome import Markers, Outcome, Reply, Result
from ottla.coordinator.transactions.transaction import (
    AT_REST,
    EPOCH_BUMP_FROM,
    NO_PRODUCER_ID,
    PREPARED,
    TWO_PHASE_TIMEOUT_MS,
    Partition,
    State,
    Transaction,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

_log = logging.getLogger("ottla.coordinator")

MARKER_RETRY_INTERVAL_MS: Final = 500
_TIMEOUT: Final = "timeout"
_MARKERS: Final = "markers"
_EXPIRATION: Final[Key] = ("expiration", "", "")
_CHANGED_COUNT_MAX: Final = 1_000  # ids that time changes in one outcome; the rest in the next

# What ends the wait for a partition's marker. It is fenced where a later epoch of this producer was
# seen, which cannot be while its transaction is open there: an earlier attempt has written it.
_MARKED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """What `server.properties` says about transactions; the defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    abort_interval_ms: int = 10_000
    expiration_interval_ms: int = 3_600_000


class TransactionShard:
    """One owner of one partition's transactional ids. Its epoch goes into every marker."""

    __slots__ = (
        "_deadlines",
        "_ids",
        "_latest",
        "_loaded_ms",
        "config",
        "coordinator_epoch",
        "partition",
        "transactions",
    )

    def __init__(
        self,
        partition: int,
        *,
        coordinator_epoch: int,
        config: TransactionConfig,
        ids: Callable[[], int],
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        self._deadlines = Deadlines()
        self._ids = ids
        self._latest: dict[bytes, bytes | None] = {}  # while loading: the last value of each key
        self._loaded_ms = 0

    # -- loading

    def load(self, records: Iterable[Record]) -> None:
        """The next records of the partition, oldest first."""
        for record in records:
            if record.key is not None:
                self._latest[record.key] = record.value

    def loaded(self, now_ms: int) -> Outcome:
        """That was all of it. What was decided and not finished goes on with its markers."""
        outcome = Outcome(self.partition)
        self._loaded_ms = now_ms
        for key, value in self._latest.items():
            if value is not None:
                try:
                    self._restore(key, value, outcome)
                except KafkaError as error:
                    _log.warning("%s-%d: skipped: %s", TRANSACTIONS_TOPIC, self.partition, error)
        self._latest = {}
        self._deadlines.set(_EXPIRATION, now_ms + self.config.expiration_interval_ms)
        return outcome

    def _restore(self, key: bytes, value: bytes, outcome: Outcome) -> None:
        transactional_id = read_key(key)
        if transactional_id is None:
            return
        transaction = read_value(value)
        self.transactions[transactional_id] = transaction
        if transaction.state in PREPARED:
            outcome.markers.append(self._markers(transactional_id, transaction))
        self._watch(transactional_id, transaction)

    # -- requests

    def init_producer_id(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """A new producer speaks for this id. `expected` is who it says it was (KIP-360).

        A transaction that the one before has left open is aborted first; until that is complete
        the new one is told CONCURRENT_TRANSACTIONS, and asks again.
        """
        outcome = Outcome(self.partition)
        found = self.transactions.get(transactional_id)
        try:
            if found is not None and found.state is State.ONGOING:
                check_known(found, expected)
                self._fence(transactional_id, found, outcome, now_ms)
                result = Result(ErrorCode.CONCURRENT_TRANSACTIONS)
            else:
                now = initialize(found, timeout_ms, expected, ids=self._ids, now_ms=now_ms)
                self._change(transactional_id, now, outcome)
                result = Result(ErrorCode.NONE, now.producer_id, now.epoch)
        except KafkaError as error:
            result = Result(error.code)
        outcome.replies.append((token, result))
        return outcome

    def add_partitions(
        self,
        transactional_id: str,
        partitions: frozenset[Partition],
        *,
        producer_id: int,
        epoch: int,
        client_version: int,
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """The transaction will write to these; it begins with the first of them."""
        outcome = Outcome(self.partition)
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state in PREPARED:
            # Before the producer is checked: it may know its next id, which is not in force yet.
            code = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            code = _check_producer(transaction, producer_id, epoch)
        if transaction is not None and code is ErrorCode.NONE:
            ongoing = transaction.state is State.ONGOING
            if not (ongoing and partitions <= transaction.partitions):
                added = transaction.with_partitions(partitions, client_version, now_ms)
                self._change(transactional_id, added, outcome)
        outcome.replies.append((token, Result(code)))
        return outcome

    def verify(
        self,
        transactional_id: str,
        partitions: Iterable[Partition],
        *,
        producer_id: int,
        epoch: int,
    ) -> dict[Partition, ErrorCode]:
        """Whether each partition is in this producer's transaction (KIP-890)."""
        transaction = self.transactions.get(transactional_id)
        code = _check_producer(transaction, producer_id, epoch)
        if transaction is None or code is not ErrorCode.NONE:
            return dict.fromkeys(partitions, code)
        known = transaction.partitions
        return {
            each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }

    def end(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        epoch: int,
        commit: bool,
        client_version: int,
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """Decided, once it is stored; the markers follow."""
        outcome = Outcome(self.partition)
        transaction = self.transactions.get(transactional_id)
        code: ErrorCode | None = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction is not None:
            code = check_end(
                transaction,
                producer_id=producer_id,
                epoch=epoch,
                commit=commit,
                client_version=client_version,
            )
            if code is None:
                try:
                    transaction = self._prepare(
                        transactional_id,
                        transaction,
                        outcome,
                        commit=commit,
                        client_version=client_version,
                        now_ms=now_ms,
                    )
                    code = ErrorCode.NONE
                except KafkaError as error:
                    code = error.code
        assert code is not None
        result = Result(code)
        if code is ErrorCode.NONE and client_version >= EPOCH_BUMP_FROM:
            assert transaction is not None
            result = Result(code, transaction.producer_after, transaction.epoch_after)
        outcome.replies.append((token, result))
        return outcome

    # -- markers

    def marked(
        self, markers: Markers, codes: Mapping[Partition, ErrorCode], *, now_ms: int
    ) -> Outcome:
        """How the writing of these markers went, for some or all of their partitions.

        With the last one the transaction is complete. One that could not be written now is in a
        later outcome again.
        """
        outcome = Outcome(self.partition)
        transactional_id = markers.transactional_id
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state not in PREPARED:
            return outcome
        if (transaction.producer_id, transaction.epoch) != markers[1:3]:
            return outcome
        done = frozenset(each for each, code in codes.items() if code in _MARKED)
        transaction = transaction.without(done)
        self.transactions[transactional_id] = transaction
        if len(done) < len(codes):
            self._retry_markers(transactional_id, now_ms)
        elif not transaction.partitions:
            self._change(transactional_id, transaction.completed(now_ms), outcome)
        return outcome

    def _markers(self, transactional_id: str, transaction: Transaction) -> Markers:
        return Markers(
            transactional_id,
            transaction.producer_id,
            transaction.epoch,
            self.coordinator_epoch,
            transaction.commits,
            transaction.client_version,
            tuple(sorted(transaction.partitions)),
        )

    def _retry_markers(self, transactional_id: str, now_ms: int) -> None:
        self._deadlines.set((_MARKERS, transactional_id, ""), now_ms + MARKER_RETRY_INTERVAL_MS)

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called next; an earlier or needless call does no harm."""
        return self._deadlines.next_ms()

    def clock_set(self, step_ms: int) -> None:
        """Open transactions have the time that they had left. Their records keep the old start,
        which counts again if another broker loads them."""
        self._deadlines.shift(step_ms)
        self._loaded_ms += step_ms
        for transactional_id, each in self.transactions.items():
            if each.state is State.ONGOING:
                moved = each._replace(start_ms=each.start_ms + step_ms)
                self.transactions[transactional_id] = moved

    def expire(self, now_ms: int) -> Outcome:
        outcome = Outcome(self.partition)
        while len(outcome.before) < _CHANGED_COUNT_MAX:
            due = self._deadlines.pop_due(now_ms)
            if due is None:
                break
            if due == _EXPIRATION:
                self._expire_ids(outcome, now_ms)
                continue
            kind, transactional_id, _ = due
            transaction = self.transactions.get(transactional_id)
            if transaction is None:
                continue
            if kind == _MARKERS and transaction.state in PREPARED:
                # Once more if this outcome is lost to an append that fails.
                self._retry_markers(transactional_id, now_ms)
                outcome.markers.append(self._markers(transactional_id, transaction))
            elif kind == _TIMEOUT and transaction.state is State.ONGOING:
                self._time_out(transactional_id, transaction, outcome, now_ms)
        return outcome

    def _time_out(
        self, transactional_id: str, transaction: Transaction, outcome: Outcome, now_ms: int
    ) -> None:
        if transaction.start_ms + transaction.timeout_ms >= now_ms:
            self._watch(transactional_id, transaction)  # a later transaction than the one meant
            return
        again_ms = now_ms + self.config.abort_interval_ms
        self._deadlines.set((_TIMEOUT, transactional_id, ""), again_ms)
        try:
            self._fence(transactional_id, transaction, outcome, now_ms)
        except KafkaError as error:
            _log.warning("%s timed out and cannot be aborted yet: %s", transactional_id, error)

    def _expire_ids(self, outcome: Outcome, now_ms: int) -> None:
        """Forget ids that nobody has used for long."""
        self._deadlines.set(_EXPIRATION, now_ms + self.config.expiration_interval_ms)
        latest_ms = now_ms - self.config.id_expiration_ms
        for transactional_id, transaction in list(self.transactions.items()):
            if transaction.state in AT_REST and transaction.update_ms <= latest_ms:
                if len(outcome.before) == _CHANGED_COUNT_MAX:
                    self._deadlines.set(_EXPIRATION, now_ms)
                    return
                outcome.before[transactional_id] = transaction
                outcome.records.append((write_key(transactional_id), None))
                del self.transactions[transactional_id]

    def _watch(self, transactional_id: str, transaction: Transaction) -> None:
        """See to it that an open transaction is looked at when its time is over.

        Kafka looks at all of them every abort_interval_ms; this deadline is when it would.
        """
        if transaction.state is State.ONGOING and transaction.timeout_ms < TWO_PHASE_TIMEOUT_MS:
            late_ms = transaction.start_ms + transaction.timeout_ms + 1 - self._loaded_ms
            interval_ms = self.config.abort_interval_ms
            looks = max(-(-late_ms // interval_ms), 1)
            self._deadlines.set(
                (_TIMEOUT, transactional_id, ""), self._loaded_ms + looks * interval_ms
            )

    # -- changes

    def _fence(
        self, transactional_id: str, transaction: Transaction, outcome: Outcome, now_ms: int
    ) -> None:
        """Abort on the coordinator's own account; whoever has it open finds its epoch too old."""
        self._prepare(
            transactional_id,
            transaction,
            outcome,
            commit=False,
            client_version=EPOCH_BUMP_FROM,
            now_ms=now_ms,
        )

    def _prepare(
        self,
        transactional_id: str,
        transaction: Transaction,
        outcome: Outcome,
        *,
        commit: bool,
        client_version: int,
        now_ms: int,
    ) -> Transaction:
        next_id = NO_PRODUCER_ID
        if client_version >= EPOCH_BUMP_FROM and transaction.is_exhausted:
            next_id = self._ids()
        prepared = transaction.prepared(
            commit=commit, client_version=client_version, next_producer_id=next_id, now_ms=now_ms
        )
        self._change(transactional_id, prepared, outcome)
        outcome.markers.append(self._markers(transactional_id, prepared))
        return prepared

    def _change(self, transactional_id: str, now: Transaction, outcome: Outcome) -> None:
        outcome.before.setdefault(transactional_id, self.transactions.get(transactional_id))
        outcome.records.append((write_key(transactional_id), write_value(now)))
        self.transactions[transactional_id] = now
        self._watch(transactional_id, now)

    def failed(self, outcome: Outcome, code: ErrorCode, *, now_ms: int) -> list[Reply]:
        """Nothing of this outcome could be appended: go back, and say so.

        To be called at once, before any other event, with the code that the append ended in. None
        of the outcome's markers may be written then.
        """
        if any(each not in self.transactions for each in outcome.before):
            # Forgotten for their age, which has time until the next look, however many are left.
            self._deadlines.set(_EXPIRATION, now_ms + self.config.expiration_interval_ms)
        for transactional_id, before in outcome.before.items():
            if before is None:
                del self.transactions[transactional_id]
                continue
            self.transactions[transactional_id] = before
            if before.state in PREPARED:
                self._retry_markers(transactional_id, now_ms)
        if not outcome.records:
            return outcome.replies
        told = Result(coordinator_code(code))
        return [(token, told) for token, _ in outcome.replies]


def _check_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """Whether this producer may add to the transaction, or is in it."""
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE
