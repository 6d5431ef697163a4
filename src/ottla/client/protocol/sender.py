"""Sends record batches to the leaders of their partitions, in order and without gaps.

Each partition has at most one batch in flight; the caller encodes the next one meanwhile. A batch
that may or may not have arrived is sent again with the same sequence number, so that the leader
recognizes a duplicate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.encoded_batch import EncodedBatch
from ottla.client.protocol.retries import RETRIABLE
from ottla.client.protocol.transactions import (
    FENCED,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    add_partitions,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import SEQUENCE_MASK
from ottla.wire.apis import ApiKey
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

# The last version in which clients add a transaction's partitions by a request of their own.
PRODUCE_MAX: Final = 11
ACKS_ALL: Final = -1
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
PRODUCE_TIMEOUT_MS: Final = 30_000

Partition = tuple[str, int]


@dataclass(slots=True)
class _ProducerBatch:
    """A batch and its sequence number, which stays the same in all retries."""

    batch: EncodedBatch
    sequence: int


@dataclass(slots=True)
class Sender:
    """`send` sends batches; `finish` waits for the last responses."""

    cluster: ClusterClient
    producer: ProducerIdAndEpoch = NO_PRODUCER_ID
    acks: int = ACKS_ALL
    sent: int = 0
    """Records that brokers have acknowledged."""
    _sequences: dict[Partition, int] = field(default_factory=dict)
    _added: set[Partition] = field(default_factory=set)
    _waiting: dict[Partition, deque[_ProducerBatch]] = field(default_factory=dict)
    """Batches without an acknowledgement, oldest first; only the oldest may be in flight."""
    _in_flight: list[tuple[BrokerConnection, list[Partition]]] = field(default_factory=list)

    def send(self, batches: Iterable[tuple[Partition, EncodedBatch]]) -> None:
        """Returns when no partition has more than one unacknowledged batch."""
        size = 0
        for where, batch in batches:
            sequence = self._sequences.get(where, 0)
            self._sequences[where] = (sequence + batch.count) & SEQUENCE_MASK
            self._waiting.setdefault(where, deque()).append(_ProducerBatch(batch, sequence))
            size += len(batch.payload)
            if size >= WAITING_BYTES_MAX:
                self._drain(left_max=1)
                size = 0
        self._drain(left_max=1)

    def finish(self) -> None:
        """Wait until everything is acknowledged; KafkaError if something is not."""
        self._drain(left_max=0)

    def drop(self) -> None:
        """Close connections with outstanding responses, which no other request may take."""
        self._waiting.clear()
        if self._in_flight:
            self._in_flight.clear()
            self.cluster.close()

    def _drain(self, *, left_max: int) -> None:
        """Send until each partition has at most `left_max` batches waiting, all in flight."""

        def attempt() -> None:
            while True:
                self._collect()
                self._ask()
                if max(map(len, self._waiting.values()), default=0) <= left_max:
                    return

        self.cluster.with_retries(attempt)

    def _ask(self) -> None:
        """Send the oldest batch of each partition, one request to each leader."""
        if self.producer.transactional_id and (new := self._waiting.keys() - self._added):
            add_partitions(self.cluster, self.producer, new)
            self._added |= new
        groups: dict[int, tuple[BrokerConnection, list[Partition]]] = {}
        for where in sorted(self._waiting):
            connection = self.cluster.leader(*where)
            groups.setdefault(id(connection), (connection, []))[1].append(where)
        for connection, partitions in groups.values():
            self._in_flight.append((connection, partitions))
            connection.send(self._request(partitions), ApiKey.PRODUCE, version_max=PRODUCE_MAX)

    def _request(self, partitions: Iterable[Partition]) -> ProduceRequest:
        producer = self.producer
        topics: dict[str, list[PartitionProduceData]] = {}
        for where in partitions:
            topic, partition = where
            piece = self._waiting[where][0]
            records = piece.batch.stamped(
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                sequence=piece.sequence if producer.id >= 0 else -1,
                transactional=bool(producer.transactional_id),
            )
            topics.setdefault(topic, []).append(PartitionProduceData(partition, records))
        return ProduceRequest(
            producer.transactional_id or None,
            self.acks,
            PRODUCE_TIMEOUT_MS,
            [TopicProduceData(name, partition_data=parts) for name, parts in topics.items()],
        )

    def _collect(self) -> None:
        """Wait for the responses. A retriable failure leaves its batch in the queue."""
        in_flight, self._in_flight = self._in_flight, []
        failure: KafkaError | None = None
        for connection, partitions in in_flight:
            try:
                codes = self._receive(connection, partitions)
            except KafkaError as error:
                if error.code not in RETRIABLE:
                    raise
                failure = error
                continue
            for where, code in codes.items():
                failure = self._judge(where, code) or failure
        if failure is not None:
            raise failure

    def _receive(
        self, connection: BrokerConnection, partitions: Iterable[Partition]
    ) -> Mapping[Partition, int]:
        if self.acks == 0:
            return dict.fromkeys(partitions, 0)
        answer = connection.receive(ApiKey.PRODUCE, ProduceResponse)
        return {
            (topic.name, part.index): part.error_code
            for topic in answer.responses
            for part in topic.partition_responses
        }

    def _judge(self, where: Partition, number: int) -> KafkaError | None:
        """What a response says about the oldest batch of a partition."""
        code = ErrorCode(number)
        pieces = self._waiting[where]
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.sent += pieces.popleft().batch.count
            if not pieces:
                del self._waiting[where]
            return None
        if code is ErrorCode.MESSAGE_TOO_LARGE and pieces[0].batch.count > 1:
            piece = pieces.popleft()
            first, second = piece.batch.halves()
            later = (piece.sequence + first.count) & SEQUENCE_MASK
            pieces.extendleft(
                [_ProducerBatch(second, later), _ProducerBatch(first, piece.sequence)]
            )
            return None
        error = KafkaError(code, _words(where, code))
        if code in RETRIABLE:
            return error
        raise error


def _words(where: Partition, code: ErrorCode) -> str:
    words = f"{where[0]}-{where[1]}: {code.name}"
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        return f"{words}: a record is larger than the topic's max.message.bytes"
    if code in FENCED:
        return (
            f"{words}: another attempt of this task has taken over, or the transaction took longer"
            " than kafka.transaction.timeout.ms"
        )
    return words
