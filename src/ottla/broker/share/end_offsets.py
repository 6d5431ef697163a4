"""The end offset of a partition, whichever broker leads it: a share group's lag counts to it."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.broker.broker_connections import BrokerConnections
from ottla.broker.promise import Promise
from ottla.broker.request_batcher import RequestBatcher
from ottla.cluster.image import NO_LEADER
from ottla.cluster.metadata_cache import MetadataCache
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partitions import Partitions
from ottla.wire.apis import ApiKey

LATEST: Final = -1
CONSUMER: Final = -1  # the replica id of a client that is not a replica
ANSWER_S_MAX: Final = 5.0

EndOffsetResult = int | KafkaError


class _EndOffsetRequest(NamedTuple):
    topic: str
    partition: int
    answer: Promise[EndOffsetResult]


class EndOffsets:
    """Requests the high watermarks of partitions from their leaders."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        partitions: Partitions,
        connections: BrokerConnections,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._partitions = partitions
        self._connections = connections
        self._batcher = RequestBatcher(self._send_request, _fail_items)

    def stop(self) -> None:
        self._batcher.stop()

    def of(self, topic: str, index: int) -> Promise[EndOffsetResult]:
        answer = Promise[EndOffsetResult]()
        leader = self._leader(topic, index)
        if leader == self._node_id:
            try:
                answer.resolve(self._partitions.leading(topic, index).high_watermark)
            except KafkaError as error:
                answer.resolve(error)
        elif leader == NO_LEADER:
            answer.resolve(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
        else:
            self._batcher.send(leader, _EndOffsetRequest(topic, index, answer))
        return answer

    def _leader(self, topic: str, index: int) -> int:
        found = self._metadata.image.topics.get(topic)
        if found is None or index >= len(found.partitions):
            return self._node_id  # where `leading` raises the error
        return found.partitions[index].leader

    async def _send_request(self, broker_id: int, requests: list[_EndOffsetRequest]) -> None:
        """Each is a separate topic, in the request and in the response."""
        from ottla.wire.messages.list_offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsResponse,
            ListOffsetsTopic,
        )

        topics = [
            ListOffsetsTopic(request.topic, [ListOffsetsPartition(request.partition, -1, LATEST)])
            for request in requests
        ]
        response = await self._connections.call(
            broker_id,
            ListOffsetsRequest(CONSUMER, topics=topics),
            ApiKey.LIST_OFFSETS,
            ListOffsetsResponse,
            timeout_s=ANSWER_S_MAX,
        )
        found = [topic.partitions[0] for topic in response.topics]
        for request, partition in zip(requests, found, strict=True):
            code = ErrorCode(partition.error_code)
            request.answer.resolve(KafkaError(code) if code else partition.offset)


def _fail_items(requests: list[_EndOffsetRequest], error: KafkaError) -> None:
    for request in requests:
        request.answer.resolve(error)
