"""Dead letter queues of share groups (KIP-1191): dead records go to a topic.

A record that a member rejects, or that was delivered as often as its group allows, is stored as
ARCHIVING. Then it comes here, and a dead letter is written, with acks=all, to partition p of the
dead letter topic, where p is the record's own partition modulo the number there. Only then is the
record stored as ARCHIVED. If the broker stops in between, the next leader finds ARCHIVING and sends
the dead letter again, so dead letters are written at least once.

As in Kafka, a queue that can't be written to does not hold up the group. After `ATTEMPTS_MAX`
attempts, or at once if the topic is missing or not meant for this, the broker logs an error and
archives the record without a dead letter.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.commit_wait import when_committed
from ottla.broker.promise import Promise
from ottla.broker.request_batcher import RequestBatcher
from ottla.broker.share.dead_letter_records import DeadLetterSource, batches_of, dead_letter_records
from ottla.cluster.image import NO_LEADER, TopicImage
from ottla.cluster.topics import TopicSpec
from ottla.config import topic_config
from ottla.coordinator.share.partition import DeadRecords
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.broker_connections import BrokerConnections
    from ottla.clock import Clock
    from ottla.cluster.metadata_cache import MetadataCache
    from ottla.config import ServerConfig
    from ottla.replica.partitions import Partitions

ATTEMPTS_MAX: Final = 5
BACKOFF_S: Final = 1.0  # doubled with each attempt
BACKOFF_S_MAX: Final = 30.0
JITTER: Final = 0.2
ACKS_ALL: Final = -1
PRODUCE_MS_MAX: Final = 30_000
ANSWER_S_MAX: Final = 35.0  # longer than the leader waits for its replicas
ENABLE: Final = "errors.deadletterqueue.group.enable"

# The leader may change soon, or get its replicas back. Kafka retries the first three.
RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_CONTROLLER,
    }
)

log = logging.getLogger("ottla.broker")


class DeadLetterConfig(NamedTuple):
    """Where a group's dead letters go; `topic` is empty if it has no queue."""

    topic: str = ""
    copy: bool = False  # of the record's key and value


class _RemoteDeadLetters(NamedTuple):
    """Records for one partition of a dead letter topic that another broker leads."""

    topic: str
    partition: int
    records: list[Record]
    answer: Promise[ErrorCode]


class DeadLetters:
    """Writes dead letters, whichever broker leads the partition for them."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        partitions: Partitions,
        connections: BrokerConnections,
        *,
        config: Callable[[], ServerConfig],
        clock: Clock,
        config_of: Callable[[str], DeadLetterConfig],
        create_topic: Callable[[TopicSpec], Awaitable[None]],
    ) -> None:
        """`config_of` gives a group's configuration; `create_topic` returns when it is created."""
        self._node_id = node_id
        self._metadata = metadata
        self._partitions = partitions
        self._connections = connections
        self._config = config
        self._clock = clock
        self._config_of = config_of
        self._create_topic = create_topic
        self._batcher = RequestBatcher(self._send_request, _fail_items)
        self._tasks: set[asyncio.Task[None]] = set()
        self.written: Counter[str] = Counter()  # by group: dead letters
        self.attempts: Counter[str] = Counter()  # batches sent, and those of them that failed
        self.failures: Counter[str] = Counter()

    def stop(self) -> None:
        """Records in progress stay ARCHIVING; the next leader sends their dead letters again."""
        for task in self._tasks:
            task.cancel()
        self._batcher.stop()

    def send(
        self, group_id: str, partition: Partition, dead: DeadRecords, done: Callable[[], None]
    ) -> None:
        """`done` is called when the dead letters are written, or cannot be."""
        task = asyncio.get_running_loop().create_task(self._send(group_id, partition, dead, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(
        self, group_id: str, partition: Partition, dead: DeadRecords, done: Callable[[], None]
    ) -> None:
        source = DeadLetterSource(group_id, partition.topic, partition.index, dead)
        try:
            offset = dead.first
            while offset <= dead.last:
                offset = await self._send_batch(source, partition, offset)
        except KafkaError as error:
            log.error(
                "Failed to write offsets %d to %d of %s-%d to the DLQ of share group %s,"
                " proceeding to ARCHIVED regardless: %s",
                dead.first,
                dead.last,
                partition.topic,
                partition.index,
                group_id,
                error,
            )
        except Exception:
            log.exception("Failed to write to the DLQ of share group %s", group_id)
        done()

    async def _send_batch(self, source: DeadLetterSource, partition: Partition, offset: int) -> int:
        """Write one batch of letters, from `offset` on; gives the offset after them."""
        attempt = 0
        while True:
            attempt += 1
            try:
                config = self._config_of(source.group_id)
                topic = self._check(source.group_id, config) or await self._create(config.topic)
                size_max = _size_max(self._config(), topic)
                copied = partition if config.copy else None
                now_ms = self._clock.now_ms()
                records, following = dead_letter_records(source, offset, copied, size_max, now_ms)
                await self._produce(source.group_id, topic, source.partition, records)
            except KafkaError as error:
                if error.code not in RETRIABLE or attempt >= ATTEMPTS_MAX:
                    raise
                await asyncio.sleep(_backoff_s(attempt))
            else:
                self.written[source.group_id] += len(records)
                return following

    # -- the topic

    def _check(self, group_id: str, config: DeadLetterConfig) -> TopicImage | None:
        """The topic, None if it has to be created first; KafkaError if it can't be used."""
        server, name = self._config(), config.topic
        prefix = server.errors_deadletterqueue_topic_name_prefix
        found = self._metadata.image.topics.get(name)
        if not name:
            raise _unusable(f"share group {group_id} has no DLQ topic")
        if name.startswith("__"):
            raise _unusable(f"the name of DLQ topic {name} starts with __")
        if not name.startswith(prefix):
            raise _unusable(f"the name of DLQ topic {name} does not start with {prefix}")
        if found is not None and not topic_config(server, found.configs)[ENABLE]:
            raise _unusable(f"topic {name} does not have {ENABLE}=true")
        if found is None and not server.errors_deadletterqueue_auto_create_topics_enable:
            raise _unusable(f"DLQ topic {name} does not exist, and brokers may not create it")
        return found

    async def _create(self, name: str) -> TopicImage:
        """With CreateTime, because a letter's time is when it was written, as retention needs."""
        configs = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
        spec = TopicSpec(name, partition_count=-1, replication_factor=-1, configs=configs)
        await self._create_topic(spec)
        found = self._metadata.image.topics.get(name)
        if found is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} is being created")
        return found

    # -- writing

    async def _produce(
        self, group_id: str, topic: TopicImage, partition: int, records: list[Record]
    ) -> None:
        index = partition % len(topic.partitions)
        leader = topic.partitions[index].leader
        answer = Promise[ErrorCode]()
        self.attempts[group_id] += 1
        if leader == self._node_id:
            self._append(topic.name, index, records, answer)
        elif leader == NO_LEADER:
            answer.resolve(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            self._batcher.send(leader, _RemoteDeadLetters(topic.name, index, records, answer))
        result = answer.result()
        code = await result if isinstance(result, asyncio.Future) else result
        if code is not ErrorCode.NONE:
            self.failures[group_id] += 1
            raise KafkaError(code, f"{topic.name}-{index}")

    def _append(
        self, topic: str, index: int, records: list[Record], answer: Promise[ErrorCode]
    ) -> None:
        now_ms = self._clock.now_ms()
        try:
            partition = self._partitions.leading(topic, index)
            partition.check_min_isr()
            partition.append(memoryview(bytearray(build_batch(records))), now_ms)
        except KafkaError as error:
            answer.resolve(error.code)
            return
        when_committed(partition, answer.resolve, timeout_ms=PRODUCE_MS_MAX)

    # -- other brokers

    async def _send_request(self, broker_id: int, writes: list[_RemoteDeadLetters]) -> None:
        """A request has one batch for each partition; what does not fit goes with the next."""
        waiting: dict[tuple[str, int], list[_RemoteDeadLetters]] = {}
        for write in writes:
            waiting.setdefault((write.topic, write.partition), []).append(write)
        while waiting:
            sent = {}
            for key, writes_left in list(waiting.items()):
                topic = self._metadata.image.topics.get(key[0])
                size_max = 0 if topic is None else _size_max(self._config(), topic)
                sent[key], waiting[key] = batches_of(writes_left, size_max)
                if not waiting[key]:
                    del waiting[key]
            await self._produce_remotely(broker_id, sent)

    async def _produce_remotely(
        self, broker_id: int, sent: dict[tuple[str, int], list[_RemoteDeadLetters]]
    ) -> None:
        from ottla.wire.messages.produce import (
            PartitionProduceData,
            ProduceRequest,
            ProduceResponse,
            TopicProduceData,
        )

        topics: dict[str, TopicProduceData] = {}
        names: dict[bytes, str] = {}
        for (name, index), writes in sent.items():
            found = self._metadata.image.topics.get(name)
            topic_id = bytes(16) if found is None else found.id
            names[topic_id] = name
            topic = topics.setdefault(name, TopicProduceData(name=name, topic_id=topic_id))
            batch = build_batch([record for write in writes for record in write.records])
            topic.partition_data.append(PartitionProduceData(index, batch))
        response = await self._connections.call(
            broker_id,
            ProduceRequest(acks=ACKS_ALL, timeout=PRODUCE_MS_MAX, topic_data=[*topics.values()]),
            ApiKey.PRODUCE,
            ProduceResponse,
            timeout_s=ANSWER_S_MAX,
        )
        codes = {
            (topic.name or names.get(topic.topic_id, ""), partition.index): ErrorCode(
                partition.error_code
            )
            for topic in response.responses
            for partition in topic.partition_responses
        }
        for key, writes in sent.items():
            for write in writes:
                write.answer.resolve(codes.get(key, ErrorCode.UNKNOWN_SERVER_ERROR))


def _size_max(config: ServerConfig, topic: TopicImage) -> int:
    found = topic_config(config, topic.configs)["max.message.bytes"]
    assert isinstance(found, int)
    return found


def _backoff_s(attempt: int) -> float:
    spread = 1 + random.uniform(-JITTER, JITTER)
    return spread * min(BACKOFF_S * (1 << (attempt - 1)), BACKOFF_S_MAX)


def _unusable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _fail_items(writes: list[_RemoteDeadLetters], error: KafkaError) -> None:
    for write in writes:
        if not write.answer.is_resolved:
            write.answer.resolve(error.code)
