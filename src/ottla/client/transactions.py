"""Transactions: which there are, where they stand, and how to end one that hangs (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.client.protocol.connection import check
from ottla.client.protocol.coordinators import KeyType, by_coordinator, coordinators_of
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, patiently
from ottla.client.record import TopicPartition
from ottla.client.session import Session
from ottla.client.topics import TopicDescription, Topics
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

HANGING_AFTER_MS: Final = 15 * 60 * 1000  # the default of transaction.max.timeout.ms
FENCE_TIMEOUT_MS: Final = 1  # of the transaction that nobody will begin
NEVER: Final = -1

# What shows that a coordinator still cares for a partition's transaction.
UNFINISHED: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})


@dataclass(slots=True, frozen=True)
class TransactionListing:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(slots=True, frozen=True)
class TransactionDescription:
    """`start_ms` is None while no transaction has begun."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True, frozen=True)
class ActiveProducer:
    """A producer that a partition remembers; `start_offset` is that of its open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int | None


@dataclass(slots=True, frozen=True)
class HangingTransaction:
    """Open in a partition's log, and no coordinator will ever end it."""

    partition: TopicPartition
    producer: ActiveProducer


Ids = list[str]
Partitions = list[TopicPartition]
Listings = list[TransactionListing]
Hanging = list[HangingTransaction]
Described = dict[str, TransactionDescription | KafkaError]
Producers = dict[TopicPartition, list[ActiveProducer] | KafkaError]
"""For each partition its producers, or why nobody can say."""


class Transactions:
    def __init__(self, session: Session) -> None:
        self._session = session

    def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> Listings:
        """All that the cluster's coordinators know, or those that match (KIP-994, KIP-1152)."""
        request = ListTransactionsRequest([*states], [*producer_ids], longer_than_ms, pattern)
        found: Listings = []
        for node_id in sorted(self._session.lines.nodes()):
            ask = partial(self._list_on, node_id, request)
            found += patiently(self._session.timeout_s, ask)
        return found

    def describe(self, *names: str) -> Described:
        """For each transactional id where it stands, or why nobody knows."""
        results: Described = {}
        session = self._session
        for node_id, ids in by_coordinator(session, KeyType.TRANSACTION, names).items():

            def ask(node_id: int = node_id, ids: Ids = ids) -> Described:
                return self._describe_on(node_id, ids)

            results |= patiently(session.timeout_s, ask)
        return results

    def producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Producers:
        """Who writes to partitions, as their leaders know it, or one broker's replica."""
        results: Producers = {}
        wanted = list(partitions)
        if broker_id is not None:
            return self._producers_on(broker_id, wanted)
        for leader, group in self._by_leader(wanted, results).items():
            results |= self._producers_on(leader, group)
        return results

    def abort(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
    ) -> None:
        """Write the marker that aborts a transaction into one partition, as a coordinator would."""
        session = self._session

        def attempt() -> None:
            failures: Producers = {}
            leaders = self._by_leader([partition], failures)
            for failure in failures.values():
                assert isinstance(failure, KafkaError)
                raise failure
            topic = WritableTxnMarkerTopic(partition.topic, [partition.partition])
            marker = WritableTxnMarker(
                producer_id, producer_epoch, False, [topic], coordinator_epoch
            )
            answer = session.lines.call(
                WriteTxnMarkersRequest([marker]),
                ApiKey.WRITE_TXN_MARKERS,
                WriteTxnMarkersResponse,
                node_id=next(iter(leaders)),
            )
            for result in answer.markers:
                for found in result.topics:
                    for each in found.partitions:
                        check(each.error_code, "", ApiKey.WRITE_TXN_MARKERS)

        patiently(session.timeout_s, attempt)

    def terminate(self, transactional_id: str) -> None:
        """Fence a transactional id: its open transaction is aborted, its producer can't go on."""
        session = self._session

        def attempt() -> None:
            request = InitProducerIdRequest(transactional_id, FENCE_TIMEOUT_MS)
            kind = KeyType.TRANSACTION
            node_id = coordinators_of(session, kind, [transactional_id])[transactional_id]
            answer = session.lines.call(
                request, ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse, node_id=node_id
            )
            check(answer.error_code, "", ApiKey.INIT_PRODUCER_ID, transactional_id)

        patiently(session.timeout_s, attempt)

    def hanging(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        older_than_ms: int = HANGING_AFTER_MS,
        now_ms: int | None = None,
    ) -> Hanging:
        """Transactions open for longer than any may be, which no coordinator will end."""
        now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        suspects = []
        for partition, found in self.producers(partitions, broker_id=broker_id).items():
            if isinstance(found, KafkaError):
                raise found
            suspects += [
                HangingTransaction(partition, each)
                for each in found
                if each.start_offset is not None and now_ms - each.last_timestamp_ms > older_than_ms
            ]
        cared_for = self._cared_for({each.producer.producer_id for each in suspects})
        return [
            each
            for each in suspects
            if each.partition not in cared_for.get(each.producer.producer_id, ())
        ]

    def _cared_for(self, producer_ids: Iterable[int]) -> dict[int, set[TopicPartition]]:
        """For each producer the partitions that its coordinator has in a transaction."""
        wanted = sorted(producer_ids)
        if not wanted:
            return {}
        owners = {each.transactional_id for each in self.list(producer_ids=wanted)}
        partitions: dict[int, set[TopicPartition]] = {}
        for found in self.describe(*owners).values():
            if isinstance(found, TransactionDescription) and found.state in UNFINISHED:
                partitions.setdefault(found.producer_id, set()).update(found.partitions)
        return partitions

    def _by_leader(
        self,
        partitions: Iterable[TopicPartition],
        failures: Producers,
    ) -> dict[int, Partitions]:
        wanted = [*partitions]
        if not wanted:
            return {}
        described = Topics(self._session).describe(*{each.topic for each in wanted})
        leaders: dict[int, Partitions] = {}
        for each in wanted:
            topic = described[each.topic]
            if isinstance(topic, TopicDescription):
                known = {part.partition: part.leader for part in topic.partitions}
                if known.get(each.partition, NEVER) >= 0:
                    leaders.setdefault(known[each.partition], []).append(each)
                    continue
                topic = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            failures[each] = topic
        return leaders

    def _list_on(self, node_id: int, request: ListTransactionsRequest) -> Listings:
        answer = self._session.lines.call(
            request, ApiKey.LIST_TRANSACTIONS, ListTransactionsResponse, node_id=node_id
        )
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            words = f"ListTransactions request sent to broker {node_id} failed: {code.name}"
            raise KafkaError(code, words)
        return [
            TransactionListing(
                each.transactional_id, node_id, each.producer_id, each.transaction_state
            )
            for each in answer.transaction_states
        ]

    def _describe_on(self, node_id: int, ids: Ids) -> Described:
        answer = self._session.lines.call(
            DescribeTransactionsRequest(ids),
            ApiKey.DESCRIBE_TRANSACTIONS,
            DescribeTransactionsResponse,
            node_id=node_id,
        )
        for each in answer.transaction_states:
            if each.error_code in COORDINATOR_RETRIABLE:
                raise KafkaError(ErrorCode(each.error_code))
        return {
            each.transactional_id: _description(each, node_id) for each in answer.transaction_states
        }

    def _producers_on(self, node_id: int, partitions: Partitions) -> Producers:
        topics: dict[str, list[int]] = {}
        for each in partitions:
            topics.setdefault(each.topic, []).append(each.partition)
        answer = self._session.lines.call(
            DescribeProducersRequest([TopicRequest(name, parts) for name, parts in topics.items()]),
            ApiKey.DESCRIBE_PRODUCERS,
            DescribeProducersResponse,
            node_id=node_id,
        )
        return {
            TopicPartition(topic.name, part.partition_index): (
                KafkaError(ErrorCode(part.error_code), part.error_message or "")
                if part.error_code
                else [
                    ActiveProducer(
                        each.producer_id,
                        each.producer_epoch,
                        each.last_sequence,
                        each.last_timestamp,
                        each.coordinator_epoch,
                        None
                        if each.current_txn_start_offset < 0
                        else each.current_txn_start_offset,
                    )
                    for each in part.active_producers
                ]
            )
            for topic in answer.topics
            for part in topic.partitions
        }


def _description(found: TransactionState, node_id: int) -> TransactionDescription | KafkaError:
    if found.error_code:
        return KafkaError(ErrorCode(found.error_code))
    start_ms = found.transaction_start_time
    return TransactionDescription(
        found.transactional_id,
        node_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout,
        None if start_ms < 0 else start_ms,
        tuple(
            TopicPartition(topic.topic, each) for topic in found.topics for each in topic.partitions
        ),
    )
