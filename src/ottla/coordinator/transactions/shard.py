"""The transactional ids of one partition of `__transaction_state`.

An event (a request, a time, markers that were written) changes a shard and gives a
CoordinatorResult. A shard never waits. Producer ids come from `ids`, which raises KafkaError when
there is none at hand.

    load(records)... -> loaded(now_ms) -> requests, marked(...), expire(now_ms), ...
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.coordinator.latest_records import NO_PRODUCER_ID as NO_TRANSACTION
from ottla.coordinator.latest_records import LatestRecords
from ottla.coordinator.result import CoordinatorEvent, CoordinatorResult, Token
from ottla.coordinator.runtime import CoordinatorShard
from ottla.coordinator.timer import TimerKey
from ottla.coordinator.transactions.end_txn import check_end_txn
from ottla.coordinator.transactions.init_producer_id import check_producer, init_producer_id
from ottla.coordinator.transactions.records import (
    TRANSACTIONS_TOPIC,
    read_key,
    read_value,
    write_key,
    write_value,
)
from ottla.coordinator.transactions.result import (
    TransactionMarkers,
    TransactionResult,
    error_response,
)
from ottla.coordinator.transactions.transaction import (
    AT_REST,
    EPOCH_BUMP_FROM,
    NO_PRODUCER_ID,
    PREPARED,
    TWO_PHASE_TIMEOUT_MS,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

_log = logging.getLogger("ottla.coordinator")

MARKER_RETRY_INTERVAL_MS: Final = 500
_TIMEOUT: Final = "timeout"
_MARKERS: Final = "markers"
_EXPIRATION: Final[TimerKey] = ("expiration", "", "")
_CHANGED_COUNT_MAX: Final = 1_000  # ids that timers change in one result; the next has the rest

# The codes that end the wait for a partition's marker. A marker is fenced if the partition has seen
# a later epoch of the producer; as that cannot be while the transaction is open there, an earlier
# attempt has written the marker.
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


class TransactionCoordinatorShard(CoordinatorShard):
    """The transactional ids of one partition. The coordinator epoch goes into every marker."""

    __slots__ = (
        "_ids",
        "_latest",
        "_loaded_ms",
        "config",
        "coordinator_epoch",
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
        super().__init__(partition)
        self.coordinator_epoch = coordinator_epoch
        self.config = config
        self.transactions: dict[str, TransactionMetadata] = {}
        self._ids = ids
        self._latest = LatestRecords()  # while it is loaded
        self._loaded_ms = 0

    # -- loading

    def load(self, records: Iterable[Record], producer_id: int = NO_TRANSACTION) -> None:
        self._latest.add(records, producer_id)

    def load_marker(self, producer_id: int, *, commit: bool) -> None:
        self._latest.end(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> CoordinatorResult:
        """Complete the prepared transactions: write their markers, perhaps for the second time."""
        event = self.new_event(now_ms)
        self._loaded_ms = now_ms
        for key, value in self._latest.latest.items():
            if value is not None:
                with self.skipping_unreadable(TRANSACTIONS_TOPIC):
                    self._restore(key, value, event)
        self._latest = LatestRecords()
        self.timer.schedule(_EXPIRATION, now_ms + self.config.expiration_interval_ms)
        return event.result

    def _restore(self, key: bytes, value: bytes, event: CoordinatorEvent) -> None:
        transactional_id = read_key(key)
        if transactional_id is None:
            return
        transaction = read_value(value)
        self.transactions[transactional_id] = transaction
        if transaction.state in PREPARED:
            event.result.markers.append(self._markers(transactional_id, transaction))
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
    ) -> CoordinatorResult:
        """`expected` is the id and epoch of a producer that continues (KIP-360).

        A transaction that the previous producer has left open is aborted first; until that is
        complete the new producer gets CONCURRENT_TRANSACTIONS, and retries.
        """
        event = self.new_event(now_ms)
        transaction = self.transactions.get(transactional_id)
        try:
            if transaction is not None and transaction.state is TransactionState.ONGOING:
                check_producer(transaction, expected)
                self._fence(transactional_id, transaction, event)
                result = TransactionResult(ErrorCode.CONCURRENT_TRANSACTIONS)
            else:
                next_state = init_producer_id(
                    transaction, timeout_ms, expected, ids=self._ids, now_ms=now_ms
                )
                self._change(transactional_id, next_state, event)
                result = TransactionResult(ErrorCode.NONE, next_state.producer_id, next_state.epoch)
        except KafkaError as error:
            result = TransactionResult(error.code)
        event.reply(token, result)
        return event.result

    def add_partitions(
        self,
        transactional_id: str,
        partitions: frozenset[TopicPartition],
        *,
        producer_id: int,
        epoch: int,
        client_version: int,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        """The transaction will write to these partitions; it begins with the first of them."""
        event = self.new_event(now_ms)
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state in PREPARED:
            # Checked before the producer, which may send its next id, which is not valid yet.
            code = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            code = _check_producer(transaction, producer_id, epoch)
        if transaction is not None and code is ErrorCode.NONE:
            ongoing = transaction.state is TransactionState.ONGOING
            if not (ongoing and partitions <= transaction.partitions):
                added = transaction.with_partitions(partitions, client_version, now_ms)
                self._change(transactional_id, added, event)
        event.reply(token, TransactionResult(code))
        return event.result

    def verify(
        self,
        transactional_id: str,
        partitions: Iterable[TopicPartition],
        *,
        producer_id: int,
        epoch: int,
    ) -> dict[TopicPartition, ErrorCode]:
        """NONE for partitions that are in this producer's transaction (KIP-890)."""
        transaction = self.transactions.get(transactional_id)
        code = _check_producer(transaction, producer_id, epoch)
        if transaction is None or code is not ErrorCode.NONE:
            return dict.fromkeys(partitions, code)
        known = transaction.partitions
        return {
            partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
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
    ) -> CoordinatorResult:
        """EndTxn: once PrepareCommit or PrepareAbort is stored, the transaction is decided.

        From then on it can end in this way only: a coordinator that loads the record writes the
        markers again. So the client gets its response as soon as the record is committed, and the
        markers follow. A response before that could be lost with the record; one after the markers
        would make the producer wait for every leader of its partitions.
        """
        event = self.new_event(now_ms)
        transaction = self.transactions.get(transactional_id)
        code: ErrorCode | None = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction is not None:
            code = check_end_txn(
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
                        event,
                        commit=commit,
                        client_version=client_version,
                    )
                    code = ErrorCode.NONE
                except KafkaError as error:
                    code = error.code
        assert code is not None
        result = TransactionResult(code)
        if code is ErrorCode.NONE and client_version >= EPOCH_BUMP_FROM:
            assert transaction is not None
            result = TransactionResult(code, transaction.producer_after, transaction.epoch_after)
        event.reply(token, result)
        return event.result

    # -- markers

    def marked(
        self, markers: TransactionMarkers, codes: Mapping[TopicPartition, ErrorCode], *, now_ms: int
    ) -> CoordinatorResult:
        """The result of writing these markers, for some or all of their partitions.

        With the last marker the transaction is complete. A marker that could not be written is in a
        later result again.
        """
        event = self.new_event(now_ms)
        transactional_id = markers.transactional_id
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state not in PREPARED:
            return event.result
        if (transaction.producer_id, transaction.epoch) != markers[1:3]:
            return event.result
        done = frozenset(partition for partition, code in codes.items() if code in _MARKED)
        transaction = transaction.without(done)
        self.transactions[transactional_id] = transaction
        if len(done) < len(codes):
            self._retry_markers(transactional_id, now_ms)
        elif not transaction.partitions:
            self._change(transactional_id, transaction.completed(now_ms), event)
        return event.result

    def _markers(
        self, transactional_id: str, transaction: TransactionMetadata
    ) -> TransactionMarkers:
        return TransactionMarkers(
            transactional_id,
            transaction.producer_id,
            transaction.epoch,
            self.coordinator_epoch,
            transaction.commits,
            transaction.client_version,
            tuple(sorted(transaction.partitions)),
        )

    def _retry_markers(self, transactional_id: str, now_ms: int) -> None:
        self.timer.schedule((_MARKERS, transactional_id, ""), now_ms + MARKER_RETRY_INTERVAL_MS)

    # -- time

    def clock_set(self, step_ms: int) -> None:
        """Open transactions have the time that they had left. Their records keep the old start,
        which counts again if another broker loads them."""
        super().clock_set(step_ms)
        self._loaded_ms += step_ms
        for transactional_id, transaction in self.transactions.items():
            if transaction.state is TransactionState.ONGOING:
                moved = transaction._replace(start_ms=transaction.start_ms + step_ms)
                self.transactions[transactional_id] = moved

    def expire(self, now_ms: int) -> CoordinatorResult:
        event = self.new_event(now_ms)
        while len(event.result.records) < _CHANGED_COUNT_MAX:
            due = self.timer.pop_due(now_ms)
            if due is None:
                break
            if due == _EXPIRATION:
                self._expire_ids(event)
                continue
            kind, transactional_id, _ = due
            transaction = self.transactions.get(transactional_id)
            if transaction is None:
                continue
            if kind == _MARKERS and transaction.state in PREPARED:
                # Once more if this result is lost to an append that fails.
                self._retry_markers(transactional_id, now_ms)
                event.result.markers.append(self._markers(transactional_id, transaction))
            elif kind == _TIMEOUT and transaction.state is TransactionState.ONGOING:
                self._time_out(transactional_id, transaction, event)
        return event.result

    def _time_out(
        self, transactional_id: str, transaction: TransactionMetadata, event: CoordinatorEvent
    ) -> None:
        if transaction.start_ms + transaction.timeout_ms >= event.now_ms:
            # The timer was that of an earlier transaction.
            self._watch(transactional_id, transaction)
            return
        again_ms = event.now_ms + self.config.abort_interval_ms
        self.timer.schedule((_TIMEOUT, transactional_id, ""), again_ms)
        try:
            self._fence(transactional_id, transaction, event)
        except KafkaError as error:
            _log.warning(
                "Transactional id %s timed out and can't be aborted yet, will retry: %s",
                transactional_id,
                error,
            )

    def _expire_ids(self, event: CoordinatorEvent) -> None:
        """Delete ids that were not used for transactional.id.expiration.ms.

        If that cannot be stored, the next check is an interval later, however many are left.
        """
        next_ms = event.now_ms + self.config.expiration_interval_ms
        self.timer.schedule(_EXPIRATION, next_ms)
        event.undo(lambda undo, code: self.timer.schedule(_EXPIRATION, next_ms))
        latest_ms = event.now_ms - self.config.id_expiration_ms
        for transactional_id, transaction in list(self.transactions.items()):
            if transaction.state in AT_REST and transaction.update_ms <= latest_ms:
                if len(event.result.records) == _CHANGED_COUNT_MAX:
                    self.timer.schedule(_EXPIRATION, event.now_ms)
                    return
                event.record(write_key(transactional_id), None)
                del self.transactions[transactional_id]
                self._undo_to(transactional_id, transaction, event)

    def _watch(self, transactional_id: str, transaction: TransactionMetadata) -> None:
        """Set the timer that aborts an open transaction when it times out.

        Kafka checks all of them every abort_interval_ms; this timer is due when it would.
        """
        ongoing = transaction.state is TransactionState.ONGOING
        if ongoing and transaction.timeout_ms < TWO_PHASE_TIMEOUT_MS:
            late_ms = transaction.start_ms + transaction.timeout_ms + 1 - self._loaded_ms
            interval_ms = self.config.abort_interval_ms
            looks = max(-(-late_ms // interval_ms), 1)
            self.timer.schedule(
                (_TIMEOUT, transactional_id, ""), self._loaded_ms + looks * interval_ms
            )

    # -- changes

    def _fence(
        self, transactional_id: str, transaction: TransactionMetadata, event: CoordinatorEvent
    ) -> None:
        """Abort the open transaction without a request of its producer, which is fenced."""
        version = EPOCH_BUMP_FROM
        self._prepare(transactional_id, transaction, event, commit=False, client_version=version)

    def _prepare(
        self,
        transactional_id: str,
        transaction: TransactionMetadata,
        event: CoordinatorEvent,
        *,
        commit: bool,
        client_version: int,
    ) -> TransactionMetadata:
        next_id = NO_PRODUCER_ID
        if client_version >= EPOCH_BUMP_FROM and transaction.is_exhausted:
            next_id = self._ids()
        prepared = transaction.prepared(
            commit=commit,
            client_version=client_version,
            next_producer_id=next_id,
            now_ms=event.now_ms,
        )
        self._change(transactional_id, prepared, event)
        event.result.markers.append(self._markers(transactional_id, prepared))
        return prepared

    def _change(
        self, transactional_id: str, transaction: TransactionMetadata, event: CoordinatorEvent
    ) -> None:
        self._undo_to(transactional_id, self.transactions.get(transactional_id), event)
        event.record(write_key(transactional_id), write_value(transaction))
        self.transactions[transactional_id] = transaction
        self._watch(transactional_id, transaction)

    def _undo_to(
        self, transactional_id: str, previous: TransactionMetadata | None, event: CoordinatorEvent
    ) -> None:
        def restore(undo: CoordinatorEvent, code: ErrorCode) -> None:
            if previous is None:
                del self.transactions[transactional_id]
                return
            self.transactions[transactional_id] = previous
            if previous.state in PREPARED:
                # The result that is undone may have been the one that had its markers written.
                self._retry_markers(transactional_id, undo.now_ms)

        event.undo(restore)

    @staticmethod
    def error_reply(response: Any, code: ErrorCode) -> Any:
        return error_response(response, code)


def _check_producer(
    transaction: TransactionMetadata | None, producer_id: int, epoch: int
) -> ErrorCode:
    """NONE if this producer may add partitions to the transaction."""
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE
