"""Writes the markers that end a transaction, into all of its partitions on any broker.

`MarkerWriter` is the leader's side: it appends the marker to the log, and read_committed consumers
go on once that is committed. `TransactionMarkerChannel` is the coordinator's side: it writes
markers for partitions of this broker at once, and sends the others to their leaders with
WriteTxnMarkers. If it is not known whether a marker arrived, it is written again, which does no
harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.broker_connections import BrokerConnections
from ottla.broker.commit_wait import when_committed
from ottla.broker.request_batcher import RequestBatcher
from ottla.cluster.image import NO_LEADER
from ottla.cluster.metadata_cache import MetadataCache
from ottla.coordinator.transactions.result import TransactionMarkers
from ottla.coordinator.transactions.transaction import EPOCH_BUMP_FROM
from ottla.errors import ErrorCode, KafkaError
from ottla.records.control import Marker
from ottla.replica.partitions import Partitions
from ottla.wire.apis import ApiKey
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# How long a leader waits for its replicas before it answers with a timeout. The coordinator waits
# longer for the leader.
COMMIT_TIMEOUT_MS: Final = 10_000
ANSWER_S_MAX: Final = 15.0

TopicPartitionKey = tuple[str, int]  # topic, index
MarkerErrors = dict[TopicPartitionKey, ErrorCode]

log = logging.getLogger("ottla.broker")


class TransactionEnd(NamedTuple):
    """How a producer's transaction ends, as its marker says in each partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int

    @property
    def ended_epoch(self) -> int:
        """The transaction's epoch: with version 2 the marker has the next one (KIP-890)."""
        return self.producer_epoch - (self.transaction_version >= EPOCH_BUMP_FROM)


class MarkerWriter:
    """Writes the ends of transactions into partitions that this broker leads."""

    def __init__(
        self, partitions: Partitions, on_written: Callable[[str, int, TransactionEnd], None]
    ) -> None:
        """`on_written` gets topic, index and end of each marker, before that is committed."""
        self._partitions = partitions
        self._on_written = on_written

    def write(
        self,
        topic: str,
        index: int,
        end: TransactionEnd,
        *,
        now_ms: int,
        callback: Callable[[ErrorCode], None],
    ) -> None:
        """Commit or abort a producer's transaction in a partition.

        A marker may be written twice: if no transaction is open, it ends none. With transaction
        version 2 (KIP-890) it has the epoch after the transaction's.
        """
        try:
            partition = self._partitions.leading(topic, index)
            partition.check_min_isr()
            partition.append_marker(
                Marker(end.commit, end.coordinator_epoch),
                producer_id=end.producer_id,
                producer_epoch=end.producer_epoch,
                transaction_version=end.transaction_version,
                now_ms=now_ms,
            )
        except KafkaError as error:
            callback(error.code)
            return
        self._on_written(topic, index, end)
        when_committed(partition, callback, timeout_ms=COMMIT_TIMEOUT_MS)


class _PendingMarkers(NamedTuple):
    """A transaction's end for partitions of one other broker, and the callback for results."""

    end: TransactionEnd
    topic_partitions: tuple[TopicPartitionKey, ...]
    callback: Callable[[MarkerErrors], None]


class TransactionMarkerChannel:
    """Sends the ends of transactions to the leaders of their partitions."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        connections: BrokerConnections,
        writer: MarkerWriter,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._connections = connections
        self._writer = writer
        # Producer id, producer epoch, topic, index.
        self._under_way: set[tuple[int, int, str, int]] = set()
        self._batcher = RequestBatcher(self._send_request, self._fail_items)

    def stop(self) -> None:
        self._batcher.stop()

    def send(
        self, markers: TransactionMarkers, now_ms: int, callback: Callable[[MarkerErrors], None]
    ) -> None:
        """Call `callback` with results, for some partitions at a time.

        An error means that the marker is not written yet.

        A partition that no longer exists needs no marker. If a marker of this end is already under
        way to a partition, the call that sent it gets the result.
        """
        end = TransactionEnd(*markers[1:6])
        known: MarkerErrors = {}  # results that are known when this returns
        at_once = True
        away: dict[int, list[TopicPartitionKey]] = {}

        def report(topic_partition: TopicPartitionKey, code: ErrorCode) -> None:
            self._done(end, topic_partition, code)
            if at_once:
                known[topic_partition] = code
            else:
                callback({topic_partition: code})

        for topic_partition in self._begin(end, markers.partitions):
            leader = self._leader(*topic_partition)
            if leader is None:
                report(topic_partition, ErrorCode.NONE)
            elif leader == self._node_id:
                self._writer.write(
                    *topic_partition, end, now_ms=now_ms, callback=partial(report, topic_partition)
                )
            elif leader == NO_LEADER:
                report(topic_partition, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                away.setdefault(leader, []).append(topic_partition)
        at_once = False
        for broker_id, topic_partitions in away.items():
            self._batcher.send(broker_id, _PendingMarkers(end, tuple(topic_partitions), callback))
        if known or not markers.partitions:
            callback(known)

    def _begin(
        self, end: TransactionEnd, topic_partitions: tuple[TopicPartitionKey, ...]
    ) -> Iterator[TopicPartitionKey]:
        for topic_partition in topic_partitions:
            key = (*end[:2], *topic_partition)
            if key not in self._under_way:
                self._under_way.add(key)
                yield topic_partition

    def _done(
        self, end: TransactionEnd, topic_partition: TopicPartitionKey, code: ErrorCode
    ) -> None:
        self._under_way.discard((*end[:2], *topic_partition))
        if code is not ErrorCode.NONE:
            topic, index = topic_partition
            log.warning(
                "Writing the marker of producer %d to %s-%d failed: %s",
                end[0],
                topic,
                index,
                code.name,
            )

    def _leader(self, topic: str, index: int) -> int | None:
        """None if the partition does not exist any more."""
        found = self._metadata.image.topics.get(topic)
        if found is None or index >= len(found.partitions):
            return None
        return found.partitions[index].leader

    # -- other brokers

    async def _send_request(self, broker_id: int, pending: list[_PendingMarkers]) -> None:
        response = await self._connections.call(
            broker_id,
            WriteTxnMarkersRequest([_marker(markers) for markers in pending]),
            ApiKey.WRITE_TXN_MARKERS,
            WriteTxnMarkersResponse,
            timeout_s=ANSWER_S_MAX,
        )
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        for markers, result in zip(pending, response.markers, strict=True):
            codes = {
                (topic.name, partition.partition_index): ErrorCode(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            }
            self._report(
                markers,
                {
                    topic_partition: codes.get(topic_partition, missing)
                    for topic_partition in markers.topic_partitions
                },
            )

    def _fail_items(self, pending: list[_PendingMarkers], error: KafkaError) -> None:
        for markers in pending:
            self._report(markers, dict.fromkeys(markers.topic_partitions, error.code))

    def _report(self, markers: _PendingMarkers, codes: MarkerErrors) -> None:
        for topic_partition, code in codes.items():
            self._done(markers.end, topic_partition, code)
        markers.callback(codes)


def _marker(markers: _PendingMarkers) -> WritableTxnMarker:
    end = markers.end
    topics: dict[str, list[int]] = {}
    for topic, index in markers.topic_partitions:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        transaction_result=end.commit,
        topics=[WritableTxnMarkerTopic(*topic) for topic in topics.items()],
        coordinator_epoch=end.coordinator_epoch,
        transaction_version=end.transaction_version,
    )
