"""A producer's transaction, request by request, as every broker since Kafka 2.5 serves it.

Partitions and groups are added by requests of their own. Brokers with KIP-890 can do without, but
whether one does is a matter of the cluster's features; this way is the same everywhere.
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

# The last versions in which a client names what is part of its transaction, and in which ending one
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
"""Of a transactional id that the coordinator does not have, or has no more."""


@dataclass(frozen=True, slots=True)
class Producer:
    """Who writes: `transactional_id` is empty where there is no transaction."""

    transactional_id: str
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Described:
    state: str
    producer_id: int
    producer_epoch: int


NOBODY: Final = Producer("", -1, -1)
"""Writes without numbers: what is sent twice is there twice."""


def idempotent(cluster: ClusterClient) -> Producer:
    """A producer without transactions: what it sends again is not stored again."""

    def ask() -> Producer:
        answer = cluster.any().call(
            InitProducerIdRequest(None, 0), ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse
        )
        check(answer.error_code, "a producer id")
        return Producer("", answer.producer_id, answer.producer_epoch)

    return cluster.patiently(ask)


def initialize(cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> Producer:
    """The producer of an id. Who was it before is fenced, and what it left open is aborted."""

    def ask() -> Producer:
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
        return Producer(transactional_id, answer.producer_id, answer.producer_epoch)

    return cluster.patiently(ask)


def add_partitions(
    cluster: ClusterClient, producer: Producer, partitions: Iterable[tuple[str, int]]
) -> None:
    """Before the first batch for a partition."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(*each) for each in topics.items()],
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
            for each in topic.results_by_partition:
                check(each.partition_error_code, f"{topic.name}-{each.partition_index}")

    cluster.patiently(ask)


def commit_offset(
    cluster: ClusterClient,
    producer: Producer,
    *,
    group: str,
    topic: str,
    offset: int,
    metadata: str,
) -> None:
    """An offset of a group, of partition 0 of a topic, as a part of the transaction."""
    cluster.patiently(lambda: _add_group(cluster, producer, group))
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
            for each in found.partitions:
                check(each.error_code, f"offset of group {group} at {found.name}")

    cluster.patiently(ask)


def end(cluster: ClusterClient, producer: Producer, *, commit: bool) -> None:
    """Commit or abort. Asking again after a lost answer is safe: the coordinator knows."""

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

    cluster.patiently(ask)


def abort_now(cluster: ClusterClient, producer: Producer) -> None:
    """Readers need not wait for the timeout of what nobody will commit. One try."""
    with suppress(KafkaError):  # nothing was added to it, or its coordinator is away
        cluster.coordinated(
            TRANSACTION,
            producer.transactional_id,
            _ending(producer, False),
            ApiKey.END_TXN,
            EndTxnResponse,
            version_max=END_TXN_MAX,
        )


def end_all(cluster: ClusterClient, producers: Sequence[Producer], *, commit: bool) -> None:
    """The same of many: all are asked before the first answer is waited for."""
    try:
        codes = _end_at_once(cluster, producers, commit)
    except KafkaError as error:
        cluster.forget(error)
        cluster.close()  # answers are under way that nobody waits for any more
        codes = [-1] * len(producers)
    for producer, code in zip(producers, codes, strict=True):
        if code:
            end(cluster, producer, commit=commit)


def describe(cluster: ClusterClient, transactional_ids: Sequence[str]) -> dict[str, Described]:
    """What the coordinators know of ids; state UNKNOWN where they know nothing."""
    found: dict[str, Described] = {}
    for start in range(0, len(transactional_ids), DESCRIBED_AT_ONCE):
        some = transactional_ids[start : start + DESCRIBED_AT_ONCE]
        found |= cluster.patiently(partial(_describe, cluster, some))
    return found


def _describe(cluster: ClusterClient, transactional_ids: Sequence[str]) -> dict[str, Described]:
    cluster.find(TRANSACTION, transactional_ids)
    lines = {each: cluster.coordinator(TRANSACTION, each) for each in transactional_ids}
    found = {}
    for line in set(lines.values()):
        ids = [each for each, its in lines.items() if its is line]
        answer = line.call(
            DescribeTransactionsRequest(ids),
            ApiKey.DESCRIBE_TRANSACTIONS,
            DescribeTransactionsResponse,
        )
        for each in answer.transaction_states:
            if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                found[each.transactional_id] = Described(UNKNOWN, -1, -1)
                continue
            check(each.error_code, f"transactional id {each.transactional_id}")
            found[each.transactional_id] = Described(
                each.transaction_state, each.producer_id, each.producer_epoch
            )
    return found


def _end_at_once(cluster: ClusterClient, producers: Sequence[Producer], commit: bool) -> list[int]:
    cluster.find(TRANSACTION, [each.transactional_id for each in producers])
    lines = [cluster.coordinator(TRANSACTION, each.transactional_id) for each in producers]
    for line, producer in zip(lines, producers, strict=True):
        line.send(_ending(producer, commit), ApiKey.END_TXN, version_max=END_TXN_MAX)
    return [line.receive(ApiKey.END_TXN, EndTxnResponse).error_code for line in lines]


def _add_group(cluster: ClusterClient, producer: Producer, group: str) -> None:
    request = AddOffsetsToTxnRequest(producer.transactional_id, producer.id, producer.epoch, group)
    answer = cluster.coordinated(
        TRANSACTION,
        producer.transactional_id,
        request,
        ApiKey.ADD_OFFSETS_TO_TXN,
        AddOffsetsToTxnResponse,
    )
    check(answer.error_code, f"group {group}")


def _ending(producer: Producer, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(producer.transactional_id, producer.id, producer.epoch, commit)
