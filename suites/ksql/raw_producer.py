"""Sends records with any timestamp, even 0, which librdkafka takes for now."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.rows.java.murmur2 import partition_of
from ottla.wire.apis import ApiKey
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

BY_NAME_MAX = 12  # later versions name topics by their ids
TIMEOUT_MS = 30_000


class RawProducer:
    """Sends to the only broker, with partitions as Java's producer chooses them."""

    def __init__(self, bootstrap: str) -> None:
        self._connections = ConnectionPool(bootstrap)

    def send(self, topic: str, partitions: int, records: Iterable[Record]) -> None:
        placed: dict[int, list[Record]] = {}
        for record in records:
            partition = 0 if record.key is None else partition_of(record.key, partitions)
            placed.setdefault(partition, []).append(record)
        data = [PartitionProduceData(index, build_batch(rs)) for index, rs in placed.items()]
        request = ProduceRequest(
            None, -1, TIMEOUT_MS, [TopicProduceData(topic, partition_data=data)]
        )
        connection = self._connections.first
        answer = connection.call(request, ApiKey.PRODUCE, ProduceResponse, version_max=BY_NAME_MAX)
        for response in answer.responses:
            for partition_answer in response.partition_responses:
                if partition_answer.error_code:
                    raise KafkaError(ErrorCode(partition_answer.error_code), topic)
