"""All transactional ids of this broker; each request is handed to the shard of its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.coordinator.records import is_recordable
from ottla.coordinator.result import CoordinatorResult, Token
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.transactions.describe import describe_transaction, transaction_listings
from ottla.coordinator.transactions.result import TransactionResult
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionCoordinatorShard
from ottla.coordinator.transactions.transaction import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages import describe_transactions as describing
from ottla.wire.messages.describe_transactions import DescribeTransactionsResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


class TransactionCoordinator(CoordinatorRuntime[TransactionCoordinatorShard]):
    """`partition_count` is that of `__transaction_state`, and can never change."""

    __slots__ = ("_ids", "config")

    shard_class = TransactionCoordinatorShard

    def __init__(
        self, *, partition_count: int, config: TransactionConfig, ids: Callable[[], int]
    ) -> None:
        super().__init__(partition_count)
        self.config = config
        self._ids = ids

    def configure(self, config: TransactionConfig) -> None:
        """Holds from the next event on; timers that run are not changed."""
        self.config = config
        for shard in self.all_shards():
            shard.config = config

    def new_shard(self, partition: int, leader_epoch: int) -> TransactionCoordinatorShard:
        """The coordinator epoch in markers is the leader epoch of the partition."""
        return TransactionCoordinatorShard(
            partition, coordinator_epoch=leader_epoch, config=self.config, ids=self._ids
        )

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
        if not 0 < timeout_ms <= self.config.max_timeout_ms:
            return CoordinatorResult.of_reply(
                token, TransactionResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            )
        try:
            shard = self._shard(transactional_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, TransactionResult(error.code))
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
        partitions: Iterable[TopicPartition],
        *,
        producer_id: int,
        epoch: int,
        client_version: int,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        try:
            shard = self._shard(transactional_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, TransactionResult(error.code))
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
        partitions: Iterable[TopicPartition],
        *,
        producer_id: int,
        epoch: int,
    ) -> dict[TopicPartition, ErrorCode]:
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
    ) -> CoordinatorResult:
        try:
            shard = self._shard(transactional_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, TransactionResult(error.code))
        return shard.end(
            transactional_id,
            producer_id=producer_id,
            epoch=epoch,
            commit=commit,
            client_version=client_version,
            token=token,
            now_ms=now_ms,
        )

    def _shard(self, transactional_id: str) -> TransactionCoordinatorShard:
        if not transactional_id or not is_recordable(transactional_id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id has 1 to 32767 bytes")
        return self.shard_of(transactional_id)

    # -- reading

    def describe(self, transactional_ids: list[str]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[
                self._describe(transactional_id) for transactional_id in transactional_ids
            ]
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
        return describe_transaction(transactional_id, transaction)

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
        return transaction_listings(every, request, now_ms=now_ms, visible=visible)
