"""Reads single records by offset over our own connections: no group, no subscription, no prefetch.

For callers that need a few records here and there. A consumer would fetch far more.
"""

from __future__ import annotations

from typing import Final

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.client.protocol.retries import LEADER_MOVED, LOST_CONNECTION
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicAdmin, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BATCH_OVERHEAD, read_header
from ottla.records.record import Record, read_records
from ottla.slices import FileSlice
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

NAMES_UNTIL: Final = 12  # later versions name topics by id
READ_BYTES_MAX: Final = 1024 * 1024


class LogReader:
    """Reads committed and aborted records alike (read_uncommitted)."""

    def __init__(self, session: AdminSession) -> None:
        self._session = session
        self._leaders: dict[TopicPartition, int] = {}

    def read(self, partition: TopicPartition, offset: int) -> list[Record]:
        """Records from `offset` on; none at the end. OFFSET_OUT_OF_RANGE below the log start."""
        try:
            return self._read(partition, offset)
        except KafkaError as error:
            if error.code not in LEADER_MOVED | LOST_CONNECTION:
                raise
        self._leaders.clear()
        return self._read(partition, offset)

    def _read(self, partition: TopicPartition, offset: int) -> list[Record]:
        """Skips batches without records (a transaction's marker) up to the next one with some."""
        while True:
            data = self._fetch(partition, offset)
            found, following = _records(data, offset)
            if found or following == offset:
                return found
            offset = following

    def _fetch(self, partition: TopicPartition, offset: int) -> bytes:
        part = FetchPartition(
            partition=partition.partition,
            fetch_offset=offset,
            partition_max_bytes=READ_BYTES_MAX,
        )
        request = FetchRequest(
            max_wait=0,
            min_bytes=0,
            max_bytes=READ_BYTES_MAX,
            topics=[FetchTopic(topic=partition.topic, partitions=[part])],
        )
        connection = self._session.connections.connection(self._leader(partition))
        answer = connection.call(request, ApiKey.FETCH, FetchResponse, version_max=NAMES_UNTIL)
        check(answer.error_code, "")
        (topic,) = answer.responses
        (found,) = topic.partitions
        check(found.error_code, f"{partition}, offset {offset}")
        assert not isinstance(found.records, FileSlice)
        return bytes(found.records or b"")

    def _leader(self, partition: TopicPartition) -> int:
        leader = self._leaders.get(partition)
        if leader is None:
            found = TopicAdmin(self._session).describe(partition.topic)[partition.topic]
            if not isinstance(found, TopicDescription):
                raise found
            for described in found.partitions:
                self._leaders[TopicPartition(found.name, described.partition)] = described.leader
            leader = self._leaders.get(partition)
        if leader is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist")
        return leader


def _records(data: bytes, offset: int) -> tuple[list[Record], int]:
    """The records of whole batches from `offset` on, and the offset after those batches."""
    found: list[Record] = []
    position = 0
    while position + BATCH_OVERHEAD <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            break
        if not header.control:
            found += [record for record in read_records(data, header) if record.offset >= offset]
        position += header.size
        offset = max(offset, header.next_offset)
    return found, offset
