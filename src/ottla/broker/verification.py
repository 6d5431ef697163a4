"""KIP-890: the first write of a transaction to a partition is checked with its coordinator.

Otherwise a record that arrives after its transaction has ended would open a hanging transaction,
which nobody ends and which holds up all read_committed consumers. If the transaction is open in the
log there is no need to ask, because its marker has not been written.

The coordinator may be another broker, which is asked with AddPartitionsToTxn, or it may wait for
its replicas. If the transaction's marker arrives before the answer, the write is too late. The
marker of the previous transaction does not count: with transaction version 2 the producer goes on
as soon as the end is decided, so its next write may be here before that marker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.broker.broker_connections import BrokerConnections
from ottla.broker.promise import Promise
from ottla.broker.request_batcher import RequestBatcher
from ottla.broker.transaction_coordinator_service import TransactionCoordinatorService
from ottla.clock import Clock
from ottla.cluster.image import NO_LEADER
from ottla.cluster.metadata_cache import MetadataCache
from ottla.config import ServerConfig
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.coordinator.transactions.result import TransactionResult
from ottla.coordinator.transactions.transaction import EPOCH_BUMP_FROM
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ANSWER_S_MAX: Final = 15.0  # longer than a coordinator waits for its replicas

TopicPartitionKey = tuple[str, int]  # topic, index
VerificationErrors = dict[TopicPartitionKey, ErrorCode]


class TransactionProducer(NamedTuple):
    """The producer of a transactional batch, and what its version of Produce supports."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool  # transaction version 2: Produce adds the partition
    knows_abortable: bool  # TRANSACTION_ABORTABLE, which older versions do not know

    def is_known_to(self, partition: Partition) -> bool:
        """True if the transaction is open in the partition's log."""
        producer = partition.log.producer(self.producer_id)
        return producer is not None and producer.in_transaction(self.producer_epoch)


class _VerificationRequest(NamedTuple):
    """A request to the coordinator: may this producer write to these partitions?"""

    producer: TransactionProducer
    topic_partitions: tuple[TopicPartitionKey, ...]
    answer: Promise[VerificationErrors]


class _VerificationGuard:
    """A partition whose check is under way. `marked`: the transaction's marker came meanwhile."""

    __slots__ = ("leader_epoch", "marked", "partition", "producer_epoch")

    def __init__(self, partition: Partition, producer_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.producer_epoch = producer_epoch
        self.marked = False

    def check(self, code: ErrorCode) -> ErrorCode:
        """The result, if the coordinator's answer still holds; else the error."""
        if code is not ErrorCode.NONE:
            return code
        if self.marked:
            return ErrorCode.INVALID_TXN_STATE
        if not self.partition.leads or self.partition.leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE


class Verification:
    """Asks coordinators, on this or other brokers, whether transactions may write to partitions."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        connections: BrokerConnections,
        transactions: TransactionCoordinatorService,
        *,
        config: Callable[[], ServerConfig],
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._connections = connections
        self._transactions = transactions
        self._config = config
        self._clock = clock
        self._batcher = RequestBatcher(self._send_request, _fail_items)
        self._stopped = False
        # By topic, index and producer id.
        self._guards: dict[tuple[str, int, int], list[_VerificationGuard]] = {}

    def stop(self) -> None:
        self._stopped = True
        self._batcher.stop()

    def verify(
        self, producer: TransactionProducer, partitions: Iterable[Partition], now_ms: int
    ) -> Promise[VerificationErrors]:
        """The error for each partition that may not be written to.

        It holds only at the moment at which the promise is resolved: append there and then.
        """
        verified = Promise[VerificationErrors]()
        unknown = [partition for partition in partitions if not producer.is_known_to(partition)]
        enabled = self._config().transaction_partition_verification_enable
        if not unknown or not (producer.adds or enabled):
            verified.resolve({})
            return verified
        answer = self._ask_until_complete(
            producer, tuple((partition.topic, partition.index) for partition in unknown), now_ms
        )
        guards = [] if answer.is_resolved else self._guard(producer, unknown)
        answer.then(lambda codes: verified.resolve(self._verified(producer, codes, guards)))
        return verified

    def _verified(
        self,
        producer: TransactionProducer,
        codes: VerificationErrors,
        guards: list[_VerificationGuard],
    ) -> VerificationErrors:
        for guard in guards:
            topic_partition = (guard.partition.topic, guard.partition.index)
            self._release((*topic_partition, producer.producer_id), guard)
            codes[topic_partition] = guard.check(codes[topic_partition])
        return {
            topic_partition: _code_for_client(code, producer)
            for topic_partition, code in codes.items()
            if code is not ErrorCode.NONE
        }

    def _guard(
        self, producer: TransactionProducer, partitions: list[Partition]
    ) -> list[_VerificationGuard]:
        guards = [
            _VerificationGuard(partition, producer.producer_epoch) for partition in partitions
        ]
        for partition, guard in zip(partitions, guards, strict=True):
            key = (partition.topic, partition.index, producer.producer_id)
            self._guards.setdefault(key, []).append(guard)
        return guards

    def marked(self, topic: str, index: int, producer_id: int, ended_epoch: int) -> None:
        """The marker that ends this producer's transaction of this epoch is in the partition.

        Writes with a later epoch belong to a later transaction, and are not too late.
        """
        for guard in self._guards.get((topic, index, producer_id), ()):
            if guard.producer_epoch <= ended_epoch:
                guard.marked = True

    def _ask_until_complete(
        self,
        producer: TransactionProducer,
        topic_partitions: tuple[TopicPartitionKey, ...],
        now_ms: int,
    ) -> Promise[VerificationErrors]:
        """Ask again while markers of the previous transaction are under way (KAFKA-18575).

        With transaction version 2 a producer goes on as soon as its commit is decided, so
        CONCURRENT_TRANSACTIONS is the common case. The markers take a few milliseconds. A client
        that has to retry would wait for its own back-off, which is longer.
        """
        answer = Promise[VerificationErrors]()
        config = self._config()
        give_up_ms = now_ms + config.add_partitions_to_txn_retry_backoff_max_ms
        backoff_s = config.add_partitions_to_txn_retry_backoff_ms / 1000

        def ask(asked_ms: int) -> None:
            self._ask(producer, topic_partitions, asked_ms).then(settle)

        def settle(codes: VerificationErrors) -> None:
            concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            late = self._clock.now_ms() >= give_up_ms
            if not producer.adds or not concurrent or late or self._stopped:
                answer.resolve(codes)
                return
            loop = asyncio.get_running_loop()
            loop.call_later(backoff_s, lambda: ask(self._clock.now_ms()))

        ask(now_ms)
        return answer

    def _ask(
        self,
        producer: TransactionProducer,
        topic_partitions: tuple[TopicPartitionKey, ...],
        now_ms: int,
    ) -> Promise[VerificationErrors]:
        answer = Promise[VerificationErrors]()
        request = _VerificationRequest(producer, topic_partitions, answer)
        coordinator = self._coordinator(producer.transactional_id)
        if coordinator == self._node_id:
            self._ask_here(request, now_ms)
        elif coordinator == NO_LEADER:
            answer.resolve(dict.fromkeys(topic_partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._batcher.send(coordinator, request)
        return answer

    def _coordinator(self, transactional_id: str) -> int:
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return self._node_id  # which answers with the right error
        index = self._transactions.coordinator.partition_of(transactional_id)
        return topic.partitions[index].leader

    def _ask_here(self, request: _VerificationRequest, now_ms: int) -> None:
        producer, topic_partitions, answer = request
        transactions = self._transactions
        if not producer.adds:
            codes = transactions.coordinator.verify(
                producer.transactional_id,
                topic_partitions,
                producer_id=producer.producer_id,
                epoch=producer.producer_epoch,
            )
            answer.resolve(codes)
            return
        added = Promise[TransactionResult]()
        outcome = transactions.coordinator.add_partitions(
            producer.transactional_id,
            topic_partitions,
            producer_id=producer.producer_id,
            epoch=producer.producer_epoch,
            client_version=EPOCH_BUMP_FROM,
            token=added,
            now_ms=now_ms,
        )
        transactions.carry_out(outcome, now_ms)
        added.then(lambda result: answer.resolve(dict.fromkeys(topic_partitions, result.code)))

    def _release(self, key: tuple[str, int, int], guard: _VerificationGuard) -> None:
        held = self._guards[key]
        held.remove(guard)
        if not held:
            del self._guards[key]

    # -- other brokers

    async def _send_request(self, broker_id: int, requests: list[_VerificationRequest]) -> None:
        response = await self._connections.call(
            broker_id,
            AddPartitionsToTxnRequest(transactions=[_transaction(request) for request in requests]),
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnResponse,
            timeout_s=ANSWER_S_MAX,
        )
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        found = [
            {
                (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
            for result in response.results_by_transaction
        ]
        for request, codes in zip(requests, found, strict=True):
            request.answer.resolve(
                {
                    topic_partition: codes.get(topic_partition, missing)
                    for topic_partition in request.topic_partitions
                }
            )


def _transaction(request: _VerificationRequest) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in request.topic_partitions:
        topics.setdefault(topic, []).append(index)
    producer = request.producer
    return AddPartitionsToTxnTransaction(
        producer.transactional_id,
        producer.producer_id,
        producer.producer_epoch,
        not producer.adds,
        [AddPartitionsToTxnTopic(*topic) for topic in topics.items()],
    )


def _fail_items(requests: list[_VerificationRequest], error: KafkaError) -> None:
    """The request failed: the producer has to retry, because nothing is known."""
    for request in requests:
        request.answer.resolve(dict.fromkeys(request.topic_partitions, ErrorCode.NETWORK_EXCEPTION))


def _code_for_client(code: ErrorCode, producer: TransactionProducer) -> ErrorCode:
    """Two codes of the coordinator are translated for Produce."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not producer.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
