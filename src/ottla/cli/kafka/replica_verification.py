"""kafka-replica-verification: compares the replicas of partitions, batch by batch.

All brokers are asked for the same offsets of their replicas. What all of them have, up to the high
watermark, must have the same offsets and checksums. As in Kafka, it wants all brokers up when it
starts, and it does not follow a log whose first records are deleted meanwhile.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ottla.cli.kafka.get_offsets import partitions_of
from ottla.cli.kafka.options import Option, Options
from ottla.cli.kafka.tool import log_error, read_properties, run
from ottla.cli.kafka.topics import topic_pattern
from ottla.client.admin import Admin
from ottla.client.delivery import Setting
from ottla.client.offsets import LATEST
from ottla.client.protocol.connection import BrokerConnection, Node, check
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BatchHeader, read_header
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)

NAME: Final = "kafka-replica-verification"
DESCRIPTION: Final = "Validate that all replicas for a set of topics have the same data."
DEBUGGING_CONSUMER: Final = -2  # the replica id of a client that may read from any replica
RESPONSE_BYTES_MAX: Final = 50 * 1024 * 1024
TIMEOUT_S: Final = 30.0
PAUSE_S: Final = 1.0  # before a broker that has failed is asked again

OPTIONS: Final = (
    Option("broker-list", "REQUIRED: The brokers: HOST1:PORT1,HOST2:PORT2.", "hosts"),
    Option("topics-include", "A regular expression.", "regex", default=".*"),
    Option(
        "time",
        "Begin at this time in ms since 1970, at -1 (latest) or -2 (earliest).",
        "time",
        default="-1",
    ),
    Option("fetch-size", "The size of a fetch for a partition.", "bytes", default="1048576"),
    Option("max-wait-ms", "How long a broker waits for records.", "ms", default="1000"),
    Option("report-interval-ms", "How often to print the lag.", "ms", default="30000"),
    Option("command-config", "A properties file with client settings (Ottla's own).", "file"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    bootstrap = options.require("broker-list")
    pattern = topic_pattern(options.require("topics-include"))
    settings = read_properties(options.value("command-config"))
    with Admin(bootstrap, settings=settings) as admin:
        names = [name for name in admin.topics.names() if pattern.fullmatch(name)]
        if not names:
            log_error(NAME, "No topics found: there are none, or --topics-include matches none.")
            return 1
        offsets = first_offsets(admin, names, options.integer("time") or LATEST)
        topics = [
            topic
            for topic in admin.topics.describe(*names).values()
            if isinstance(topic, TopicDescription)
        ]
    with ConnectionPool(bootstrap, settings=settings, timeout_s=TIMEOUT_S) as pool:
        nodes = pool.nodes()
    fetchers = replica_fetchers(topics, nodes, settings, options)
    print(f"{stamp()}: verification process is started", flush=True)
    comparison = ReplicaComparison(offsets, replica_counts(topics), _print)
    try:
        return verify(comparison, fetchers, (options.integer("report-interval-ms") or 0) / 1000)
    finally:
        for fetcher in fetchers:
            fetcher.close()


def verify(
    comparison: ReplicaComparison, fetchers: Sequence[ReplicaFetcher], interval_s: float
) -> int:
    """Until Ctrl-C, or until replicas have different offsets."""
    reported = time.monotonic()
    while True:
        for fetcher in fetchers:
            fetcher.send(comparison.offsets)
        found: dict[TopicPartition, dict[int, Replica]] = defaultdict(dict)
        for fetcher in fetchers:
            for partition, replica in fetcher.receive():
                found[partition][fetcher.broker_id] = replica
        if not comparison.compare(found):
            return 1
        if time.monotonic() - reported > interval_s:
            reported = time.monotonic()
            comparison.report()
            for fetcher in fetchers:
                fetcher.report()
        if any(fetcher.failed for fetcher in fetchers):
            time.sleep(PAUSE_S)


@dataclass(frozen=True, slots=True)
class Replica:
    """What a broker has of a partition, from the offset on that is to be compared."""

    high_watermark: int
    batches: Sequence[BatchHeader]


class ReplicaComparison:
    """Where the replicas of each partition were found to be the same."""

    def __init__(
        self,
        offsets: Mapping[TopicPartition, int],
        replicas: Mapping[TopicPartition, int],
        say: Callable[[str], None],
    ) -> None:
        self.offsets = dict(offsets)
        self._replicas = replicas
        self._say = say
        self._lag, self._lagging, self._lag_at = -1, next(iter(offsets)), -1

    def compare(self, found: Mapping[TopicPartition, Mapping[int, Replica]]) -> bool:
        """False if replicas have different offsets: nothing after that can be compared."""
        self._lag = -1
        for partition, offset in self.offsets.items():
            replicas = found.get(partition, {})
            # A replica that is missing may be behind the others, or differ from them.
            if len(replicas) == self._replicas[partition]:
                same_to = self._same_to(partition, offset, replicas)
                if same_to is None:
                    return False
                offset = self.offsets[partition] = same_to
            high_watermarks = [replica.high_watermark for replica in replicas.values()]
            lag = max(high_watermarks, default=-1) - offset
            if lag > self._lag:
                self._lag = lag
                self._lagging, self._lag_at = partition, offset
        return True

    def report(self) -> None:
        self._say(
            f"max lag is {self._lag} for partition {self._lagging} at offset {self._lag_at}"
            f" among {len(self.offsets)} partitions"
        )

    def _same_to(
        self, partition: TopicPartition, offset: int, replicas: Mapping[int, Replica]
    ) -> int | None:
        """The offset behind the last batch that all replicas have committed."""
        first_id, *others = replicas
        committed = [
            [batch for batch in replica.batches if batch.last_offset < replica.high_watermark]
            for replica in replicas.values()
        ]
        for batch, *same in zip(*committed, strict=False):
            for broker_id, other in zip(others, same, strict=True):
                if other.last_offset != batch.last_offset:
                    self._say(
                        f"partition {partition}: replica {first_id}'s offset {batch.last_offset}"
                        f" doesn't match replica {broker_id}'s offset {other.last_offset}"
                    )
                    return None
                if other.crc != batch.crc:
                    self._say(
                        f"partition {partition} has unmatched checksum at offset"
                        f" {batch.last_offset}; replica {first_id}'s checksum {batch.crc};"
                        f" replica {broker_id}'s checksum {other.crc}"
                    )
            offset = batch.next_offset
        return offset


class ReplicaFetcher:
    """Asks one broker for its replicas; a broker that fails is asked again over a new connection,
    and gives nothing meanwhile."""

    def __init__(
        self,
        node: Node,
        partitions: Sequence[TopicPartition],
        topic_ids: Mapping[str, bytes],
        settings: Mapping[str, Setting],
        options: Options,
    ) -> None:
        self.broker_id = node.id
        self._node = node
        self._partitions = partitions
        self._topic_ids = topic_ids
        self._topics = {topic_id: name for name, topic_id in topic_ids.items()}
        self._settings = settings
        self._fetch_size = options.integer("fetch-size") or 0
        self._max_wait_ms = options.integer("max-wait-ms") or 0
        self._connection: BrokerConnection | None = None
        self._failures: dict[TopicPartition | None, KafkaError] = {}  # None: the broker's own

    @property
    def failed(self) -> bool:
        return bool(self._failures)

    def send(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._failures.clear()
        try:
            if self._connection is None:
                node, timeout_s = self._node, TIMEOUT_S + self._max_wait_ms / 1000
                self._connection = BrokerConnection(
                    node.host, node.port, settings=self._settings, timeout_s=timeout_s
                )
            self._connection.send(self._request(offsets), ApiKey.FETCH)
        except KafkaError as error:
            self._fail(error)

    def receive(self) -> Iterator[tuple[TopicPartition, Replica]]:
        if self._connection is None:
            return
        try:
            response = self._connection.receive(ApiKey.FETCH, FetchResponse)
            check(response.error_code, None, ApiKey.FETCH)
        except KafkaError as error:
            self._fail(error)
            return
        for topic in response.responses:
            name = topic.topic or self._topics.get(topic.topic_id, "")
            for part in topic.partitions:
                partition = TopicPartition(name, part.partition_index)
                try:
                    check(part.error_code, None, ApiKey.FETCH)
                    yield partition, Replica(part.high_watermark, tuple(batches(part.records)))
                except KafkaError as error:
                    self._failures[partition] = error

    def report(self) -> None:
        for partition, error in self._failures.items():
            what = "" if partition is None else f" for {partition}"
            log_error(NAME, f"broker {self.broker_id} has no answer{what}: {error}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, offsets: Mapping[TopicPartition, int]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for partition in self._partitions:
            name = partition.topic
            topic = topics.setdefault(name, FetchTopic(name, self._topic_ids[name], []))
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=offsets[partition],
                    partition_max_bytes=self._fetch_size,
                )
            )
        return FetchRequest(
            replica_id=DEBUGGING_CONSUMER,
            replica_state=ReplicaState(DEBUGGING_CONSUMER),
            max_wait=self._max_wait_ms,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES_MAX,
            topics=list(topics.values()),
        )

    def _fail(self, error: KafkaError) -> None:
        self._failures[None] = error
        self.close()


def replica_fetchers(
    topics: Sequence[TopicDescription],
    nodes: Mapping[int, Node],
    settings: Mapping[str, Setting],
    options: Options,
) -> list[ReplicaFetcher]:
    """One for each broker that has replicas."""
    hosted: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in topics:
        for part in topic.partitions:
            for broker_id in part.replicas:
                hosted[broker_id].append(TopicPartition(topic.name, part.partition))
    if missing := sorted(hosted.keys() - nodes.keys()):
        names = ", ".join(map(str, missing))
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"broker {names} has replicas and is not available: start it first",
        )
    topic_ids = {topic.name: topic.topic_id for topic in topics}
    return [
        ReplicaFetcher(nodes[broker_id], partitions, topic_ids, settings, options)
        for broker_id, partitions in sorted(hosted.items())
    ]


def replica_counts(topics: Sequence[TopicDescription]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, part.partition): len(part.replicas)
        for topic in topics
        for part in topic.partitions
    }


def first_offsets(admin: Admin, names: Sequence[str], time_ms: int) -> dict[TopicPartition, int]:
    """At `time_ms`; at the end, if no record is as young as that."""
    partitions = partitions_of(admin, names)
    ends = admin.offsets.find(partitions, LATEST)
    offsets = {}
    for partition, at in admin.offsets.find(partitions, time_ms).items():
        end = ends[partition]
        for found in (at, end):
            if isinstance(found, KafkaError):
                raise found
        assert not isinstance(at, KafkaError)
        assert not isinstance(end, KafkaError)
        offsets[partition] = at.offset if at.offset >= 0 else end.offset
    return offsets


def batches(records: object) -> Iterator[BatchHeader]:
    """Headers as they are, because a wrong checksum is what the tool looks for; not of a batch that
    the end of the response has cut off."""
    if not isinstance(records, (bytes, bytearray, memoryview)):
        return
    position = 0
    with suppress(KafkaError):
        while position < len(records):
            header = read_header(records, position)
            position += header.size
            if position <= len(records):
                yield header


def stamp() -> str:
    now = datetime.now()
    return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"


def _print(message: str) -> None:
    print(f"{stamp()}: {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
