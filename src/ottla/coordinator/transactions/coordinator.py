"""All transactional ids that this broker coordinates: requests find their shard here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.coordinator.keys import is_recordable
from ottla.coordinator.outcome import Token
from ottla.coordinator.shards import Shards
from ottla.coordinator.transactions.describing import described, listed
from ottla.coordinator.transactions.outcome import Outcome, Reply, Result, answered
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionShard
from ottla.coordinator.transactions.transaction import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages import describe_transactions as describing
from ottla.wire.messages.describe_transactions import DescribeTransactionsResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


class TransactionCoordinator(Shards[TransactionShard]):
    """`partition_count` is that of `__transaction_state`, and can never change."""

    __slots__ = ("_ids", "config")

    def __init__(
        self, *, partition_count: int, config: TransactionConfig, ids: Callable[[], int]
    ) -> None:
        super().__init__(partition_count)
        self.config = config
        self._ids = ids

    def configure(self, config: TransactionConfig) -> None:
        """Holds from the next event on; deadlines that are set stay as they are."""
        self.config = config
        for shard in self.all_shards():
            shard.config = config

    # -- partitions

    def begin_load(self, partition: int, coordinator_epoch: int) -> TransactionShard:
        """This broker leads the partition: give the shard its records, then call `end_load`."""
        return self.add_loading(
            TransactionShard(
                partition, coordinator_epoch=coordinator_epoch, config=self.config, ids=self._ids
            )
        )

    def end_load(self, partition: int, now_ms: int) -> Outcome:
        return self.add_loaded(partition).loaded(now_ms)

    def unload(self, partition: int) -> None:
        """Another broker leads the partition, or its log cannot be read any more."""
        self.remove(partition)

    def failed(self, outcome: Outcome, code: ErrorCode, *, now_ms: int) -> list[Reply]:
        """See TransactionShard.failed."""
        return self.shards[outcome.partition].failed(outcome, code, now_ms=now_ms)

    def expire(self, now_ms: int) -> list[Outcome]:
        """Whatever is due by now; each outcome is of another partition."""
        return [shard.expire(now_ms) for shard in self.due(now_ms)]

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
        if not 0 < timeout_ms <= self.config.max_timeout_ms:
            return answered(token, Result(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        try:
            shard = self._shard(transactional_id)
        except KafkaError as error:
            return answered(token, Result(error.code))
        return shard.init_producer_id(
            transactional_id,
            timeout_ms=timeout_ms,
            expected=expected,
            token=token,
            now_ms=now_ms,
        )

    def add_partitions(
        self,
        transactional_id: str,
        partitions: Iterable[Partition],
        *,
        producer_id: int,
        epoch: int,
        client_version: int,
        token: Token,
        now_ms: int,
    ) -> Outcome:
        try:
            shard = self._shard(transactional_id)
        except KafkaError as error:
            return answered(token, Result(error.code))
        return shard.add_partitions(
            transactional_id,
            frozenset(partitions),
            producer_id=producer_id,
            epoch=epoch,
            client_version=client_version,
            token=token,
            now_ms=now_ms,
        )

    def verify(
        self,
        transactional_id: str,
        partitions: Iterable[Partition],
        *,
        producer_id: int,
        epoch: int,
    ) -> dict[Partition, ErrorCode]:
        try:
            shard = self._shard(transactional_id)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return shard.verify(transactional_id, partitions, producer_id=producer_id, epoch=epoch)

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
        try:
            shard = self._shard(transactional_id)
        except KafkaError as error:
            return answered(token, Result(error.code))
        return shard.end(
            transactional_id,
            producer_id=producer_id,
            epoch=epoch,
            commit=commit,
            client_version=client_version,
            token=token,
            now_ms=now_ms,
        )

    def _shard(self, transactional_id: str) -> TransactionShard:
        if not transactional_id or not is_recordable(transactional_id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id has 1 to 32767 bytes")
        return self.shard_of(transactional_id)

    # -- reading

    def describe(self, transactional_ids: list[str]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[self._describe(each) for each in transactional_ids]
        )

    def _describe(self, transactional_id: str) -> describing.TransactionState:
        try:
            transaction = self._shard(transactional_id).transactions.get(transactional_id)
            if transaction is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        except KafkaError as error:
            return describing.TransactionState(
                error_code=error.code, transactional_id=transactional_id
            )
        return described(transactional_id, transaction)

    def list_transactions(
        self,
        request: ListTransactionsRequest,
        *,
        now_ms: int,
        visible: Callable[[str], bool] = lambda transactional_id: True,
    ) -> ListTransactionsResponse:
        if self._loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        transactions = (shard.transactions.items() for shard in self.shards.values())
        every = (item for items in transactions for item in items)
        return listed(every, request, now_ms=now_ms, visible=visible)
