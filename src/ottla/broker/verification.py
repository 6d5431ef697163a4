"""KIP-890: the first write of a transaction to a partition is checked with its coordinator.

Else a record that comes late, after its transaction has ended, would open another one that nobody
ends, and hold up all readers of committed records. Once the log has the transaction open there is
no need to ask: its marker has not come.

The coordinator may be another broker, which is asked with AddPartitionsToTxn, or be waiting for its
replicas. If the transaction's marker comes before the answer, what was asked about is too late. The
marker of the transaction before is another matter: with transaction version 2 the producer goes on
as soon as the end is decided, and its next write may be here before that marker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.courier import Courier
from ottla.broker.journal import Answer
from ottla.cluster.image import NO_LEADER
from ottla.coordinator.keys import partition_for
from ottla.coordinator.transactions.keys import TRANSACTIONS_TOPIC
from ottla.coordinator.transactions.outcome import Result
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

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ANSWER_S_MAX: Final = 15.0  # longer than a coordinator waits for its replicas

Place = tuple[str, int]  # topic, index
Codes = dict[Place, ErrorCode]


class Writer(NamedTuple):
    """Who writes in a transaction, and what its version of the request can do."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool  # transaction version 2: a partition is added by being written to
    knows_abortable: bool  # TRANSACTION_ABORTABLE, which came before that

    def is_known_to(self, partition: Partition) -> bool:
        """Whether the transaction is open in the partition's log."""
        producer = partition.log.producer(self.producer_id)
        return producer is not None and producer.in_transaction(self.producer_epoch)


class _Question(NamedTuple):
    """May this writer write to these?"""

    writer: Writer
    places: tuple[Place, ...]
    answer: Answer[Codes]


class _Guard:
    """A partition that is asked about. `marked`: meanwhile its transaction's marker came."""

    __slots__ = ("leader_epoch", "marked", "partition", "producer_epoch")

    def __init__(self, partition: Partition, producer_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.producer_epoch = producer_epoch
        self.marked = False

    def check(self, code: ErrorCode) -> ErrorCode:
        """What the coordinator's answer is worth by now."""
        if code is not ErrorCode.NONE:
            return code
        if self.marked:
            return ErrorCode.INVALID_TXN_STATE
        if not self.partition.leads or self.partition.leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE


class Verification:
    """Asks coordinators, here or elsewhere, whether transactions may write to partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._courier = Courier(self._carry, _lost)
        self._stopped = False
        self._guards: dict[tuple[str, int, int], list[_Guard]] = {}  # topic, index, producer id

    def stop(self) -> None:
        self._stopped = True
        self._courier.stop()

    def verify(self, writer: Writer, partitions: Iterable[Partition], now_ms: int) -> Answer[Codes]:
        """Partitions that may not be written to, by the code that says why.

        It holds in the moment in which the answer comes, and has to be acted upon there and then.
        """
        verified = Answer[Codes]()
        unknown = [each for each in partitions if not writer.is_known_to(each)]
        enabled = self._broker.config.transaction_partition_verification_enable
        if not unknown or not (writer.adds or enabled):
            verified.give({})
            return verified
        answer = self._ask_until_complete(
            writer, tuple((each.topic, each.index) for each in unknown), now_ms
        )
        guards = [] if answer.given else self._guard(writer, unknown)
        answer.when(lambda codes: verified.give(self._verified(writer, codes, guards)))
        return verified

    def _verified(self, writer: Writer, codes: Codes, guards: list[_Guard]) -> Codes:
        for guard in guards:
            place = (guard.partition.topic, guard.partition.index)
            self._release((*place, writer.producer_id), guard)
            codes[place] = guard.check(codes[place])
        return {
            place: _told(code, writer)
            for place, code in codes.items()
            if code is not ErrorCode.NONE
        }

    def _guard(self, writer: Writer, partitions: list[Partition]) -> list[_Guard]:
        guards = [_Guard(each, writer.producer_epoch) for each in partitions]
        for each, guard in zip(partitions, guards, strict=True):
            key = (each.topic, each.index, writer.producer_id)
            self._guards.setdefault(key, []).append(guard)
        return guards

    def marked(self, topic: str, index: int, producer_id: int, ended_epoch: int) -> None:
        """The transaction that this producer had in this epoch has its marker in the partition.

        Writes of a later epoch belong to a later transaction, and are not too late.
        """
        for guard in self._guards.get((topic, index, producer_id), ()):
            if guard.producer_epoch <= ended_epoch:
                guard.marked = True

    def _ask_until_complete(
        self, writer: Writer, places: tuple[Place, ...], now_ms: int
    ) -> Answer[Codes]:
        """Ask again while markers of the transaction before are under way (KAFKA-18575).

        A producer of version 2 goes on as soon as its commit is decided, so CONCURRENT_TRANSACTIONS
        is its ordinary case. The markers take a few milliseconds; a client that has to retry waits
        for its own back-off, which is longer.
        """
        answer = Answer[Codes]()
        config = self._broker.config
        give_up_ms = now_ms + config.add_partitions_to_txn_retry_backoff_max_ms
        backoff_s = config.add_partitions_to_txn_retry_backoff_ms / 1000

        def ask(asked_ms: int) -> None:
            self._ask(writer, places, asked_ms).when(settle)

        def settle(codes: Codes) -> None:
            concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            late = self._broker.clock.now_ms() >= give_up_ms
            if not writer.adds or not concurrent or late or self._stopped:
                answer.give(codes)
                return
            loop = asyncio.get_running_loop()
            loop.call_later(backoff_s, lambda: ask(self._broker.clock.now_ms()))

        ask(now_ms)
        return answer

    def _ask(self, writer: Writer, places: tuple[Place, ...], now_ms: int) -> Answer[Codes]:
        answer = Answer[Codes]()
        question = _Question(writer, places, answer)
        coordinator = self._coordinator(writer.transactional_id)
        if coordinator == self._broker.node_id:
            self._ask_here(question, now_ms)
        elif coordinator == NO_LEADER:
            answer.give(dict.fromkeys(places, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._courier.send(coordinator, question)
        return answer

    def _coordinator(self, transactional_id: str) -> int:
        topic = self._broker.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return self._broker.node_id  # which says what there is to say
        return topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader

    def _ask_here(self, question: _Question, now_ms: int) -> None:
        writer, places, answer = question
        transactions = self._broker.transactions
        if not writer.adds:
            codes = transactions.coordinator.verify(
                writer.transactional_id,
                places,
                producer_id=writer.producer_id,
                epoch=writer.producer_epoch,
            )
            answer.give(codes)
            return
        added = Answer[Result]()
        outcome = transactions.coordinator.add_partitions(
            writer.transactional_id,
            places,
            producer_id=writer.producer_id,
            epoch=writer.producer_epoch,
            client_version=EPOCH_BUMP_FROM,
            token=added,
            now_ms=now_ms,
        )
        transactions.carry_out(outcome, now_ms)
        added.when(lambda result: answer.give(dict.fromkeys(places, result.code)))

    def _release(self, key: tuple[str, int, int], guard: _Guard) -> None:
        held = self._guards[key]
        held.remove(guard)
        if not held:
            del self._guards[key]

    # -- other brokers

    async def _carry(self, broker_id: int, questions: list[_Question]) -> None:
        response = await self._broker.neighbours.call(
            broker_id,
            AddPartitionsToTxnRequest(transactions=[_transaction(each) for each in questions]),
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnResponse,
            timeout_s=ANSWER_S_MAX,
        )
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        found = [
            {
                (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
            for result in response.results_by_transaction
        ]
        for question, codes in zip(questions, found, strict=True):
            question.answer.give({place: codes.get(place, missing) for place in question.places})


def _transaction(question: _Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in question.places:
        topics.setdefault(topic, []).append(index)
    writer = question.writer
    return AddPartitionsToTxnTransaction(
        writer.transactional_id,
        writer.producer_id,
        writer.producer_epoch,
        not writer.adds,
        [AddPartitionsToTxnTopic(*each) for each in topics.items()],
    )


def _lost(questions: list[_Question], error: KafkaError) -> None:
    """Whoever asked is to ask again: nothing is known of the transaction."""
    for question in questions:
        question.answer.give(dict.fromkeys(question.places, ErrorCode.NETWORK_EXCEPTION))


def _told(code: ErrorCode, writer: Writer) -> ErrorCode:
    """Two codes of the coordinator are not for all who write to partitions."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not writer.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
