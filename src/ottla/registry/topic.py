"""`_schemas` over the wire: its batches, and appends that fail if another writer came first.

All registries of a cluster share one producer id, which belongs to a well-known transactional id,
and write as one idempotent producer (never in a transaction, so that the topic has no markers). A
batch has the epoch and the next sequence number of that producer: the partition's leader accepts
only the batch that continues the log, which makes an append a compare-and-set. Decision 0033 has
the proof.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.client.admin_session import AdminSession
from ottla.client.configs import ConfigAdmin, ResourceType
from ottla.client.delivery import Setting
from ottla.client.protocol.connection import BrokerConnection, check
from ottla.client.protocol.coordinators import KeyType, coordinator_on
from ottla.client.protocol.retries import NOT_YET, RETRIABLE, UNKNOWN_TOPIC, with_retries
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BATCH_OVERHEAD, build_batch, read_header
from ottla.records.record import Record, read_records
from ottla.slices import FileSlice
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TOPIC: Final = "_schemas"
NAMES_UNTIL: Final = 12  # later versions name topics by id
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
PRODUCE_MS_MAX: Final = 30_000
TRANSACTION_MS: Final = 60_000  # of the transactional id; no transaction ever begins
REPLICAS_MAX: Final = 3
ACKS_ALL: Final = -1
EARLIEST: Final = -2
RETRIED: Final = RETRIABLE - UNKNOWN_TOPIC
"""If the topic was deleted, a registry reports it at once."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch of the topic; compaction may have removed its records."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    base_offset: int
    next_offset: int
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class WriteToken:
    """Producer id, epoch and sequence number of the batch that continues the log."""

    producer_id: int
    producer_epoch: int
    next_sequence: int


@dataclass(frozen=True, slots=True)
class TopicRead:
    batches: list[LoggedBatch]
    next_offset: int
    high_watermark: int


class SchemaTopic:
    """Blocking, and not thread-safe but for `give_up`."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, Setting],
        name: str = TOPIC,
        transactional_id: str,
        timeout_s: float = 30.0,
    ) -> None:
        self.name = name
        self._servers = bootstrap_servers
        self._settings = settings
        self._transactional_id = transactional_id
        self._timeout_s = timeout_s
        self._session: AdminSession | None = None
        self._leader: BrokerConnection | None = None
        self._gives_up = False

    def prepare(self) -> str:
        """Create the topic if need be, refuse one that would lose schemas; returns the cluster
        id."""
        return self._patiently(self._prepare)

    def start_offset(self) -> int:
        return self._patiently(self._start_offset)

    def read(self, offset: int, *, wait_ms: int) -> TopicRead:
        """Batches from `offset` on; waits at most `wait_ms` for the first one."""
        return self._patiently(lambda: self._read(offset, wait_ms))

    def take_epoch(self) -> WriteToken:
        """A new epoch of the shared producer. Once the log has a batch with it, all older epochs
        are fenced."""
        return self._patiently(self._take_epoch)

    def append(self, token: WriteToken, records: Sequence[Record]) -> int:
        """The offset of the first record. No retries: after a failure the log has the answer.

        A success may be another writer's with the same sequence number, whose batch is then
        found at this offset.
        """
        data = build_batch(
            records,
            producer_id=token.producer_id,
            producer_epoch=token.producer_epoch,
            base_sequence=token.next_sequence,
        )
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout=PRODUCE_MS_MAX,
            topic_data=[
                TopicProduceData(self.name, partition_data=[PartitionProduceData(0, data)])
            ],
        )
        with self._dropped_if_moved():
            connection = self._leader_connection()
            answer = connection.call(
                request, ApiKey.PRODUCE, ProduceResponse, version_max=NAMES_UNTIL
            )
            (found,) = answer.responses[0].partition_responses
            check(found.error_code, found.error_message, ApiKey.PRODUCE, self.name)
            return found.base_offset

    def give_up(self) -> None:
        """The next failure is final: the registry stops, and a broker that is gone as well would
        hold it up for all of the timeout."""
        self._gives_up = True

    def close(self) -> None:
        session, self._session, self._leader = self._session, None, None
        if session is not None:
            session.close()

    def _prepare(self) -> str:
        session = self._opened()
        topic = self._described()
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._create()
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.name} was just created")
        check(topic.error_code, None, ApiKey.METADATA, self.name)
        if len(topic.partitions) != 1:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{self.name} has {len(topic.partitions)} partitions: a registry's topic has one",
            )
        configs = ConfigAdmin(session).describe(ResourceType.TOPIC, self.name)
        policy = next((config.value for config in configs if config.name == "cleanup.policy"), None)
        if policy != "compact":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{self.name} has cleanup.policy={policy}, which would delete schemas:"
                f" set it to compact",
            )
        check(topic.partitions[0].error_code, None)
        session.connections.nodes()
        return session.connections.cluster_id

    def _create(self) -> None:
        connections = self._opened().connections
        creation = CreatableTopic(
            name=self.name,
            num_partitions=1,
            replication_factor=min(REPLICAS_MAX, len(connections.nodes())),
            configs=[CreatableTopicConfig("cleanup.policy", "compact")],
        )
        connections.nodes(refresh=True)
        answer = connections.connection(connections.controller_id).call(
            CreateTopicsRequest(topics=[creation]), ApiKey.CREATE_TOPICS, CreateTopicsResponse
        )
        (created,) = answer.topics
        if created.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(created.error_code, created.error_message, ApiKey.CREATE_TOPICS, self.name)

    def _described(self) -> MetadataResponseTopic:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.name)], allow_auto_topic_creation=False
        )
        answer = self._opened().connections.call(request, ApiKey.METADATA, MetadataResponse)
        (topic,) = answer.topics
        return topic

    def _start_offset(self) -> int:
        partition = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(self.name, [partition])])
        answer = self._leader_connection().call(request, ApiKey.LIST_OFFSETS, ListOffsetsResponse)
        (found,) = answer.topics[0].partitions
        check(found.error_code, None, ApiKey.LIST_OFFSETS, self.name)
        return found.offset

    def _read(self, offset: int, wait_ms: int) -> TopicRead:
        partition = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
        )
        request = FetchRequest(
            max_wait=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            topics=[FetchTopic(topic=self.name, partitions=[partition])],
        )
        connection = self._leader_connection()
        answer = connection.call(request, ApiKey.FETCH, FetchResponse, version_max=NAMES_UNTIL)
        check(answer.error_code, "")
        (found,) = answer.responses[0].partitions
        check(found.error_code, None, ApiKey.FETCH, self.name)
        assert not isinstance(found.records, FileSlice)
        batches = read_batches(bytes(found.records or b""))
        following = batches[-1].next_offset if batches else offset
        return TopicRead(batches, max(offset, following), found.high_watermark)

    def _take_epoch(self) -> WriteToken:
        connections = self._opened().connections
        node_id = coordinator_on(connections, KeyType.TRANSACTION, self._transactional_id)
        request = InitProducerIdRequest(self._transactional_id, TRANSACTION_MS)
        answer = connections.call(
            request, ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse, node_id=node_id
        )
        check(answer.error_code, None, ApiKey.INIT_PRODUCER_ID, self._transactional_id)
        return WriteToken(answer.producer_id, answer.producer_epoch, 0)

    def _opened(self) -> AdminSession:
        if self._session is None:
            self._session = AdminSession(self._servers, self._settings, self._timeout_s)
        return self._session

    def _leader_connection(self) -> BrokerConnection:
        if self._leader is None:
            topic = self._described()
            check(topic.error_code, None, ApiKey.METADATA, self.name)
            (partition,) = topic.partitions
            check(partition.error_code, None)
            self._leader = self._opened().connections.connection(partition.leader_id)
        return self._leader

    def _patiently(self, attempt: Callable[[], T]) -> T:
        def tried() -> T:
            with self._dropped_if_moved():
                return attempt()

        return with_retries(self._timeout_s, tried, RETRIED, gives_up=lambda: self._gives_up)

    @contextlib.contextmanager
    def _dropped_if_moved(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            if error.code in RETRIED - NOT_YET:
                self.close()
            raise


def read_batches(data: bytes) -> list[LoggedBatch]:
    """The complete batches of a Fetch response; the last one may be cut off."""
    batches = []
    position = 0
    while position + BATCH_OVERHEAD <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            break
        has_records = header.record_count > 0 and not header.control
        batches.append(
            LoggedBatch(
                header.producer_id,
                header.producer_epoch,
                header.last_sequence,
                header.base_offset,
                header.next_offset,
                read_records(data, header) if has_records else (),
            )
        )
        position += header.size
    return batches
