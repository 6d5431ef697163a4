"""Transactions: list, describe, and abort those that hang (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.client.protocol.coordinators import KeyType, by_coordinator, coordinators_of
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, with_retries
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicAdmin, TopicDescription
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
FENCE_TIMEOUT_MS: Final = 1  # of the transaction that nobody begins
NEVER: Final = -1

# States in which a coordinator still takes care of its transaction.
UNFINISHED: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})


@dataclass(slots=True, frozen=True)
class TransactionListing:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(slots=True, frozen=True)
class TransactionDescription:
    """`start_ms` is None until the first transaction begins."""

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
    """A producer in a partition's state; `start_offset` is that of its open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int | None


@dataclass(slots=True, frozen=True)
class HangingTransaction:
    """Open in a partition's log, but unknown to every coordinator: nothing will end it."""

    partition: TopicPartition
    producer: ActiveProducer


Ids = list[str]
Partitions = list[TopicPartition]
Listings = list[TransactionListing]
Hanging = list[HangingTransaction]
Described = dict[str, TransactionDescription | KafkaError]
Producers = dict[TopicPartition, list[ActiveProducer] | KafkaError]
"""For each partition its producers, or the error."""


class TransactionAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> Listings:
        """The transactions of all coordinators, or those that match (KIP-994, KIP-1152)."""
        request = ListTransactionsRequest([*states], [*producer_ids], longer_than_ms, pattern)
        found: Listings = []
        for node_id in sorted(self._session.connections.nodes()):
            ask = partial(self._list_on, node_id, request)
            found += with_retries(self._session.timeout_s, ask)
        return found

    def describe(self, *names: str) -> Described:
        """For each transactional id its state, or the error."""
        results: Described = {}
        session = self._session
        for node_id, ids in by_coordinator(session, KeyType.TRANSACTION, names).items():

            def ask(node_id: int = node_id, ids: Ids = ids) -> Described:
                return self._describe_on(node_id, ids)

            results |= with_retries(session.timeout_s, ask)
        return results

    def producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Producers:
        """The producers of partitions, as their leaders or one broker's replicas know them."""
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
        """Write an abort marker into one partition, as a coordinator would."""
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
            answer = session.connections.call(
                WriteTxnMarkersRequest([marker]),
                ApiKey.WRITE_TXN_MARKERS,
                WriteTxnMarkersResponse,
                node_id=next(iter(leaders)),
            )
            for result in answer.markers:
                for found in result.topics:
                    for result_partition in found.partitions:
                        check(result_partition.error_code, "", ApiKey.WRITE_TXN_MARKERS)

        with_retries(session.timeout_s, attempt)

    def terminate(self, transactional_id: str) -> None:
        """Fence a transactional id: abort its open transaction, and stop its producer."""
        session = self._session

        def attempt() -> None:
            request = InitProducerIdRequest(transactional_id, FENCE_TIMEOUT_MS)
            kind = KeyType.TRANSACTION
            node_id = coordinators_of(session, kind, [transactional_id])[transactional_id]
            answer = session.connections.call(
                request, ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse, node_id=node_id
            )
            check(answer.error_code, "", ApiKey.INIT_PRODUCER_ID, transactional_id)

        with_retries(session.timeout_s, attempt)

    def hanging(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        older_than_ms: int = HANGING_AFTER_MS,
        now_ms: int | None = None,
    ) -> Hanging:
        """Open transactions that are too old and have no coordinator."""
        now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        suspects = []
        for partition, found in self.producers(partitions, broker_id=broker_id).items():
            if isinstance(found, KafkaError):
                raise found
            suspects += [
                HangingTransaction(partition, producer)
                for producer in found
                if producer.start_offset is not None
                and now_ms - producer.last_timestamp_ms > older_than_ms
            ]
        cared_for = self._cared_for({suspect.producer.producer_id for suspect in suspects})
        return [
            suspect
            for suspect in suspects
            if suspect.partition not in cared_for.get(suspect.producer.producer_id, ())
        ]

    def _cared_for(self, producer_ids: Iterable[int]) -> dict[int, set[TopicPartition]]:
        """The partitions that coordinators have in a transaction, by producer id."""
        wanted = sorted(producer_ids)
        if not wanted:
            return {}
        owners = {listing.transactional_id for listing in self.list(producer_ids=wanted)}
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
        described = TopicAdmin(self._session).describe(*{partition.topic for partition in wanted})
        leaders: dict[int, Partitions] = {}
        for partition in wanted:
            topic = described[partition.topic]
            if isinstance(topic, TopicDescription):
                known = {part.partition: part.leader for part in topic.partitions}
                if known.get(partition.partition, NEVER) >= 0:
                    leaders.setdefault(known[partition.partition], []).append(partition)
                    continue
                topic = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            failures[partition] = topic
        return leaders

    def _list_on(self, node_id: int, request: ListTransactionsRequest) -> Listings:
        answer = self._session.connections.call(
            request, ApiKey.LIST_TRANSACTIONS, ListTransactionsResponse, node_id=node_id
        )
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            words = f"ListTransactions request sent to broker {node_id} failed: {code.name}"
            raise KafkaError(code, words)
        return [
            TransactionListing(
                state.transactional_id, node_id, state.producer_id, state.transaction_state
            )
            for state in answer.transaction_states
        ]

    def _describe_on(self, node_id: int, ids: Ids) -> Described:
        answer = self._session.connections.call(
            DescribeTransactionsRequest(ids),
            ApiKey.DESCRIBE_TRANSACTIONS,
            DescribeTransactionsResponse,
            node_id=node_id,
        )
        for state in answer.transaction_states:
            if state.error_code in COORDINATOR_RETRIABLE:
                raise KafkaError(ErrorCode(state.error_code))
        return {
            state.transactional_id: _description(state, node_id)
            for state in answer.transaction_states
        }

    def _producers_on(self, node_id: int, partitions: Partitions) -> Producers:
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        answer = self._session.connections.call(
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
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.coordinator_epoch,
                        None
                        if producer.current_txn_start_offset < 0
                        else producer.current_txn_start_offset,
                    )
                    for producer in part.active_producers
                ]
            )
            for topic in answer.topics
            for part in topic.partitions
        }


def _description(state: TransactionState, node_id: int) -> TransactionDescription | KafkaError:
    if state.error_code:
        return KafkaError(ErrorCode(state.error_code))
    start_ms = state.transaction_start_time
    return TransactionDescription(
        state.transactional_id,
        node_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout,
        None if start_ms < 0 else start_ms,
        tuple(
            TopicPartition(topic.topic, partition)
            for topic in state.topics
            for partition in topic.partitions
        ),
    )
