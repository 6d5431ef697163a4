"""A producer's transaction, request by request, as every broker since Kafka 2.5 serves it.

Partitions and groups are added explicitly. Brokers with KIP-890 can do without, if the cluster's
transaction.version allows it; the explicit requests work everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.client.protocol.cluster_client import GROUP, TRANSACTION, ClusterClient, check
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

# The last versions in which clients add partitions and groups to a transaction, and in which EndTxn
# does not change the producer's epoch.
ADD_PARTITIONS_MAX: Final = 3
TXN_OFFSET_COMMIT_MAX: Final = 4
END_TXN_MAX: Final = 4

FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
DESCRIBED_AT_ONCE: Final = 100
"""How many transactional ids one DescribeTransactions asks for."""

ONGOING: Final = "Ongoing"
UNKNOWN: Final = ""
"""The state of a transactional id that the coordinator does not have, or not any more."""


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    """A producer's identity; `transactional_id` is empty without transactions."""

    transactional_id: str
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransactionStatus:
    state: str
    producer_id: int
    producer_epoch: int


NO_PRODUCER_ID: Final = ProducerIdAndEpoch("", -1, -1)
"""Without a producer id: a retry may store records twice."""


def idempotent_producer(cluster: ClusterClient) -> ProducerIdAndEpoch:
    """A producer id without transactions: brokers drop duplicates of a retry."""

    def ask() -> ProducerIdAndEpoch:
        answer = cluster.any().call(
            InitProducerIdRequest(None, 0), ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse
        )
        check(answer.error_code, "a producer id")
        return ProducerIdAndEpoch("", answer.producer_id, answer.producer_epoch)

    return cluster.with_retries(ask)


def init_transactions(
    cluster: ClusterClient, transactional_id: str, timeout_ms: int
) -> ProducerIdAndEpoch:
    """InitProducerId: fences the previous producer of this id, and aborts its open transaction."""

    def ask() -> ProducerIdAndEpoch:
        answer = cluster.coordinated(
            TRANSACTION,
            transactional_id,
            InitProducerIdRequest(transactional_id, timeout_ms),
            ApiKey.INIT_PRODUCER_ID,
            InitProducerIdResponse,
        )
        if answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"the broker allows no transaction to take {timeout_ms} ms: set the option"
                " kafka.transaction.timeout.ms to at most its transaction.max.timeout.ms",
            )
        check(answer.error_code, f"transactional id {transactional_id}")
        return ProducerIdAndEpoch(transactional_id, answer.producer_id, answer.producer_epoch)

    return cluster.with_retries(ask)


def add_partitions(
    cluster: ClusterClient, producer: ProducerIdAndEpoch, partitions: Iterable[tuple[str, int]]
) -> None:
    """Must come before the first batch for a partition."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(*added) for added in topics.items()],
    )

    def ask() -> None:
        answer = cluster.coordinated(
            TRANSACTION,
            producer.transactional_id,
            request,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnResponse,
            version_max=ADD_PARTITIONS_MAX,
        )
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                check(result.partition_error_code, f"{topic.name}-{result.partition_index}")

    cluster.with_retries(ask)


def commit_offset(
    cluster: ClusterClient,
    producer: ProducerIdAndEpoch,
    *,
    group: str,
    topic: str,
    offset: int,
    metadata: str,
) -> None:
    """Add an offset of a group, for partition 0 of a topic, to the transaction."""
    cluster.with_retries(lambda: _add_group(cluster, producer, group))
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        generation_id=-1,
        member_id="",
        topics=[
            TxnOffsetCommitRequestTopic(
                topic, partitions=[TxnOffsetCommitRequestPartition(0, offset, -1, metadata)]
            )
        ],
    )

    def ask() -> None:
        answer = cluster.coordinated(
            GROUP,
            group,
            request,
            ApiKey.TXN_OFFSET_COMMIT,
            TxnOffsetCommitResponse,
            version_max=TXN_OFFSET_COMMIT_MAX,
        )
        for found in answer.topics:
            for partition in found.partitions:
                check(partition.error_code, f"offset of group {group} at {found.name}")

    cluster.with_retries(ask)


def end_transaction(cluster: ClusterClient, producer: ProducerIdAndEpoch, *, commit: bool) -> None:
    """Commit or abort. A retry after a lost response is safe: the coordinator knows."""

    def ask() -> None:
        answer = cluster.coordinated(
            TRANSACTION,
            producer.transactional_id,
            _ending(producer, commit),
            ApiKey.END_TXN,
            EndTxnResponse,
            version_max=END_TXN_MAX,
        )
        check(answer.error_code, f"end of transaction {producer.transactional_id}")

    cluster.with_retries(ask)


def abort_now(cluster: ClusterClient, producer: ProducerIdAndEpoch) -> None:
    """Abort without retries, so that readers need not wait for the transaction's timeout."""
    with suppress(KafkaError):  # nothing was added to it, or its coordinator is away
        cluster.coordinated(
            TRANSACTION,
            producer.transactional_id,
            _ending(producer, False),
            ApiKey.END_TXN,
            EndTxnResponse,
            version_max=END_TXN_MAX,
        )


def end_transactions(
    cluster: ClusterClient, producers: Sequence[ProducerIdAndEpoch], *, commit: bool
) -> None:
    """End many transactions: all requests are sent before the first response is awaited."""
    try:
        codes = _end_at_once(cluster, producers, commit)
    except KafkaError as error:
        cluster.forget(error)
        cluster.close()  # responses are outstanding that nobody waits for
        codes = [-1] * len(producers)
    for producer, code in zip(producers, codes, strict=True):
        if code:
            end_transaction(cluster, producer, commit=commit)


def describe_transactions(
    cluster: ClusterClient, transactional_ids: Sequence[str]
) -> dict[str, TransactionStatus]:
    """The coordinators' state of these ids; UNKNOWN where they have none."""
    found: dict[str, TransactionStatus] = {}
    for start in range(0, len(transactional_ids), DESCRIBED_AT_ONCE):
        chunk = transactional_ids[start : start + DESCRIBED_AT_ONCE]
        found |= cluster.with_retries(partial(_describe, cluster, chunk))
    return found


def _describe(
    cluster: ClusterClient, transactional_ids: Sequence[str]
) -> dict[str, TransactionStatus]:
    cluster.find(TRANSACTION, transactional_ids)
    connections = {id_: cluster.coordinator(TRANSACTION, id_) for id_ in transactional_ids}
    found = {}
    for connection in set(connections.values()):
        ids = [id_ for id_, its in connections.items() if its is connection]
        answer = connection.call(
            DescribeTransactionsRequest(ids),
            ApiKey.DESCRIBE_TRANSACTIONS,
            DescribeTransactionsResponse,
        )
        for state in answer.transaction_states:
            if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                found[state.transactional_id] = TransactionStatus(UNKNOWN, -1, -1)
                continue
            check(state.error_code, f"transactional id {state.transactional_id}")
            found[state.transactional_id] = TransactionStatus(
                state.transaction_state, state.producer_id, state.producer_epoch
            )
    return found


def _end_at_once(
    cluster: ClusterClient, producers: Sequence[ProducerIdAndEpoch], commit: bool
) -> list[int]:
    cluster.find(TRANSACTION, [fenced.transactional_id for fenced in producers])
    connections = [
        cluster.coordinator(TRANSACTION, fenced.transactional_id) for fenced in producers
    ]
    for connection, producer in zip(connections, producers, strict=True):
        connection.send(_ending(producer, commit), ApiKey.END_TXN, version_max=END_TXN_MAX)
    return [
        connection.receive(ApiKey.END_TXN, EndTxnResponse).error_code for connection in connections
    ]


def _add_group(cluster: ClusterClient, producer: ProducerIdAndEpoch, group: str) -> None:
    request = AddOffsetsToTxnRequest(producer.transactional_id, producer.id, producer.epoch, group)
    answer = cluster.coordinated(
        TRANSACTION,
        producer.transactional_id,
        request,
        ApiKey.ADD_OFFSETS_TO_TXN,
        AddOffsetsToTxnResponse,
    )
    check(answer.error_code, f"group {group}")


def _ending(producer: ProducerIdAndEpoch, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(producer.transactional_id, producer.id, producer.epoch, commit)
