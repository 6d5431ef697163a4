"""A client of one cluster: leaders, coordinators, offsets, and retries.

Connections stay open, in a Spark worker for its next task. A request is repeated for a while where
a leader has moved or a broker is away (retries.py); permanent errors are raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.client.delivery import Setting
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.retries import LOST_CONNECTION, NOT_YET, RETRIABLE, UNKNOWN_TOPIC
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
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

GROUP: Final = 0  # FindCoordinator's key types
TRANSACTION: Final = 1
KEYS_SINCE: Final = 4  # KIP-699: many keys in one request

REQUEST_S_MAX: Final = 30.0
PATIENCE_S: Final = 60.0
FIRST_CONTACT_S: Final = 30.0  # before any broker has answered: the address may be wrong
GONE_S: Final = 10.0  # for an unknown topic: new to this broker, to be created, or deleted
PAUSE_S: Final = 0.005  # a transaction's markers are written within milliseconds
PAUSE_S_MAX: Final = 0.5

CONSUMER: Final = -1  # the replica id of a client
NO_OFFSET: Final = -1

REMEDIES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the user needs an ACL for this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the user needs an ACL for this group (READ)",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "the user needs an ACL for this transactional id (WRITE, DESCRIBE), or set ottla.delivery"
        " to at_least_once"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the user needs an ACL for the cluster",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "names have letters, digits, '.', '_' and '-', at most 249",
}

T = TypeVar("T")
R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """A topic's metadata. A recreated topic has another id. `leaders` has -1 for no leader."""

    name: str
    id: bytes
    leaders: Mapping[int, int]
    internal: bool = False


class ClusterClient:
    """The brokers of one cluster. Not thread-safe."""

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, Setting],
        *,
        patience_s: float = PATIENCE_S,
        first_contact_s: float = FIRST_CONTACT_S,
        request_s: float = REQUEST_S_MAX,
        make_topics: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.sleep = sleep
        self._servers = servers
        self._settings = settings
        self._patience_s = patience_s
        self._first_contact_s = first_contact_s
        self._request_s = request_s
        self._make_topics = make_topics
        self._clock = clock
        self._met = False
        self._connections: ConnectionPool | None = None
        self._topics: dict[str, TopicLeaders] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def with_retries(self, ask: Callable[[], T]) -> T:
        """Repeat a request while its error is retriable, with growing pauses."""
        begin = self._clock()
        pause_s = PAUSE_S
        while True:
            try:
                return ask()
            except KafkaError as error:
                if error.code not in RETRIABLE:
                    raise
                self.forget(error)  # also before giving up: a response may be outstanding
                if self._clock() - begin > self._patience(error):
                    raise
            self.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicLeaders]:
        """Those of these topics that exist; None: all topics."""
        wanted = None if names is None else sorted(names)
        return self.with_retries(lambda: self._ask_topics(wanted))

    def topic(self, name: str) -> TopicLeaders:
        """A topic from the cache, or from the cluster; UNKNOWN_TOPIC_OR_PARTITION if there is none.

        With `make_topics` brokers may create a topic that does not exist.
        """
        if name not in self._topics and name not in self._ask_topics([name]):
            remedy = "create it (ottla topics create), or set auto.create.topics.enable"
            words = f"there is no topic {name}" + (f": {remedy}" if self._make_topics else "")
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words)
        return self._topics[name]

    def refresh(self) -> None:
        """A task begins: topics may have more partitions since the last one."""
        self._topics.clear()

    def leader(self, topic: str, partition: int) -> BrokerConnection:
        """The connection to the broker that leads a partition."""
        leaders = self.topic(topic).leaders
        if partition not in leaders:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has {len(leaders)} partitions, there is no partition {partition}",
            )
        if leaders[partition] < 0:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader now"
            )
        return self._open().connection(leaders[partition])

    def any(self) -> BrokerConnection:
        return self._open().first

    def find(self, kind: int, keys: Iterable[str]) -> None:
        """Look up the coordinators of many keys at once, unless they are known."""
        unknown = [key for key in keys if (kind, key) not in self._coordinators]
        if not unknown:
            return
        _, newest = self.any().versions.get(ApiKey.FIND_COORDINATOR, (0, 0))
        batches = [unknown] if newest >= KEYS_SINCE else [[key] for key in unknown]
        for batch in batches:
            self._ask_coordinators(kind, batch)

    def coordinator(self, kind: int, key: str) -> BrokerConnection:
        """The connection to the coordinator of a group or a transactional id."""
        self.find(kind, [key])
        return self._open().connection(self._coordinators[kind, key])

    def coordinated(
        self,
        kind: int,
        key: str,
        request: Message,
        api_key: int,
        response: type[R],
        *,
        version_max: int | None = None,
    ) -> R:
        """Send a request to the coordinator of a key."""
        connection = self.coordinator(kind, key)
        return connection.call(request, api_key, response, version_max=version_max)

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time; EARLIEST, LATEST. None: no record is so late."""
        if not times:
            return {}
        return self.with_retries(lambda: self._ask_offsets(times, read_committed))

    def wait(
        self, ends: Mapping[TopicPartition, int], wait_ms: int, *, read_committed: bool
    ) -> None:
        """Return when there is a record at or after one of these offsets, or after `wait_ms`.

        One broker can wait for us. Several can't at the same time, and then this returns at once.
        """
        try:
            connections = [self.leader(*partition) for partition in ends]
            if not connections or any(leader is not connections[0] for leader in connections):
                return
            topics: dict[str, list[FetchPartition]] = {}
            for partition, offset in ends.items():
                topics.setdefault(partition.topic, []).append(_end(partition.partition, offset))
            request = FetchRequest(
                max_wait=wait_ms,
                min_bytes=1,
                isolation_level=int(read_committed),
                topics=[
                    FetchTopic(name, self.topic(name).id, partitions)
                    for name, partitions in topics.items()
                ],
            )
            connections[0].call(request, ApiKey.FETCH, FetchResponse)
        except KafkaError as error:
            self.forget(error)  # the next request for offsets deals with it

    def forget(self, error: KafkaError) -> None:
        """Forget cached metadata that this error makes doubtful, and broken connections."""
        if error.code in NOT_YET:
            return
        self._topics.clear()
        self._coordinators.clear()
        if error.code in LOST_CONNECTION:
            self.close()

    def close(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.close()

    def _patience(self, error: KafkaError) -> float:
        if error.code in UNKNOWN_TOPIC:
            return min(GONE_S, self._patience_s)
        return self._patience_s if self._met else min(self._first_contact_s, self._patience_s)

    def _open(self) -> ConnectionPool:
        if self._connections is None:
            self._connections = ConnectionPool(
                self._servers, settings=self._settings, timeout_s=self._request_s
            )
        return self._connections

    def _ask_topics(self, names: list[str] | None) -> dict[str, TopicLeaders]:
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=self._make_topics)
        answer = self.any().call(request, ApiKey.METADATA, MetadataResponse)
        self._met = True
        found = {}
        for described in answer.topics:
            if described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._topics.pop(described.name or "", None)
                continue
            topic = self._topic(described)
            found[topic.name] = topic
        self._topics.update(found)
        return found

    def _topic(self, answer: MetadataResponseTopic) -> TopicLeaders:
        """A new topic may have no leaders yet; one that is being read has, or had, some."""
        name = answer.name or ""
        if self._make_topics or answer.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            check(answer.error_code, f"topic {name}")
        leaders = {
            partition.partition_index: partition.leader_id for partition in answer.partitions
        }
        return TopicLeaders(name, answer.topic_id, leaders, answer.is_internal)

    def _ask_coordinators(self, kind: int, keys: list[str]) -> None:
        request = FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys)
        answer = self.any().call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
        self._met = True
        if not answer.coordinators:
            check(answer.error_code, f"coordinator of {keys[0]}")
            self._coordinators[kind, keys[0]] = answer.node_id
        for coordinator in answer.coordinators:
            check(coordinator.error_code, f"coordinator of {coordinator.key}")
            self._coordinators[kind, coordinator.key] = coordinator.node_id

    def _ask_offsets(
        self, times: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        groups: dict[int, tuple[BrokerConnection, dict[str, list[ListOffsetsPartition]]]] = {}
        for partition, time_ms in times.items():
            connection = self.leader(*partition)
            _, topics = groups.setdefault(id(connection), (connection, {}))
            topics.setdefault(partition.topic, []).append(
                ListOffsetsPartition(partition.partition, timestamp=time_ms)
            )
        found: dict[TopicPartition, int | None] = {}
        for connection, topics in groups.values():
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name, parts) for name, parts in topics.items()],
            )
            answer = connection.call(request, ApiKey.LIST_OFFSETS, ListOffsetsResponse)
            for topic in answer.topics:
                for part in topic.partitions:
                    where = TopicPartition(topic.name, part.partition_index)
                    check(part.error_code, str(where))
                    found[where] = None if part.offset == NO_OFFSET else part.offset
        return found


def check(code: int, what: str) -> None:
    """Raise the error of a response: its code by name, and the remedy if there is one."""
    if code:
        error = ErrorCode(code)
        remedy = REMEDIES.get(error)
        raise KafkaError(error, f"{what}: {error.name}" + (f": {remedy}" if remedy else ""))


def _end(partition: int, offset: int) -> FetchPartition:
    """The smallest fetch: a broker sends at least one batch."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)
