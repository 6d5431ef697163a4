"""A cluster, as a client sees it: who leads a partition, who coordinates an id, and patience.

Connections stay open, in Spark's worker for its next task. Where a leader has moved or a broker is
away, the same is asked again for a while (retries.py); what will not pass is raised at once.
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
from ottla.wire.primitives import Message

GROUP: Final = 0  # what a coordinator is asked for, by FindCoordinator's numbers
TRANSACTION: Final = 1
KEYS_SINCE: Final = 4  # KIP-699: many keys in one request

REQUEST_S_MAX: Final = 30.0
PATIENCE_S: Final = 60.0
FIRST_CONTACT_S: Final = 30.0  # nobody has answered yet: the address may be wrong
GONE_S: Final = 10.0  # a topic that nobody knows: new to this broker, or to be made, or deleted
PAUSE_S: Final = 0.005  # a transaction's markers are written within milliseconds
PAUSE_S_MAX: Final = 0.5

CONSUMER: Final = -1  # who asks: no replica
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
class Topic:
    """A topic as it is now: made anew, it has another id. `leaders` has -1 where nobody leads."""

    name: str
    id: bytes
    leaders: Mapping[int, int]
    internal: bool = False


class ClusterClient:
    """The brokers of one cluster. Not for two threads at once."""

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
        self._lines: ConnectionPool | None = None
        self._topics: dict[str, Topic] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def patiently(self, ask: Callable[[], T]) -> T:
        """Ask again, with pauses that grow, for as long as the trouble may pass."""
        begin = self._clock()
        pause_s = PAUSE_S
        while True:
            try:
                return ask()
            except KafkaError as error:
                if error.code not in RETRIABLE:
                    raise
                self.forget(error)  # before we give up, too: an answer may be under way
                if self._clock() - begin > self._patience(error):
                    raise
            self.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """Those of these topics that exist; None: all there are."""
        wanted = None if names is None else sorted(names)
        return self.patiently(lambda: self._ask_topics(wanted))

    def topic(self, name: str) -> Topic:
        """What was known last of a topic, or is now; UNKNOWN_TOPIC_OR_PARTITION: it is not.

        With `make_topics` a topic that is not there is made, where the broker does so.
        """
        if name not in self._topics and name not in self._ask_topics([name]):
            remedy = "create it (ottla topics create), or set auto.create.topics.enable"
            words = f"there is no topic {name}" + (f": {remedy}" if self._make_topics else "")
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words)
        return self._topics[name]

    def refresh(self) -> None:
        """A task begins: topics may have got more partitions since the last one."""
        self._topics.clear()

    def leader(self, topic: str, partition: int) -> BrokerConnection:
        """The line to the broker that leads a partition."""
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
        return self._open().line(leaders[partition])

    def any(self) -> BrokerConnection:
        return self._open().first

    def find(self, kind: int, keys: Iterable[str]) -> None:
        """Look up the coordinators of many keys at once, where that is not known yet."""
        unknown = [each for each in keys if (kind, each) not in self._coordinators]
        if not unknown:
            return
        _, newest = self.any().versions.get(ApiKey.FIND_COORDINATOR, (0, 0))
        batches = [unknown] if newest >= KEYS_SINCE else [[each] for each in unknown]
        for batch in batches:
            self._ask_coordinators(kind, batch)

    def coordinator(self, kind: int, key: str) -> BrokerConnection:
        """The line to the broker that coordinates a group or a transactional id."""
        self.find(kind, [key])
        return self._open().line(self._coordinators[kind, key])

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
        """Ask the coordinator of a key."""
        line = self.coordinator(kind, key)
        return line.call(request, api_key, response, version_max=version_max)

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time; EARLIEST, LATEST. None: no record is so late."""
        if not times:
            return {}
        return self.patiently(lambda: self._ask_offsets(times, read_committed))

    def wait(
        self, ends: Mapping[TopicPartition, int], wait_ms: int, *, read_committed: bool
    ) -> None:
        """Until there is something after these offsets, but no longer than `wait_ms`.

        One broker can be asked to wait. Several can't at once, and then nobody waits.
        """
        try:
            lines = [self.leader(*each) for each in ends]
            if not lines or any(each is not lines[0] for each in lines):
                return
            topics: dict[str, list[FetchPartition]] = {}
            for each, offset in ends.items():
                topics.setdefault(each.topic, []).append(_end(each.partition, offset))
            request = FetchRequest(
                max_wait=wait_ms,
                min_bytes=1,
                isolation_level=int(read_committed),
                topics=[
                    FetchTopic(name, self.topic(name).id, each) for name, each in topics.items()
                ],
            )
            lines[0].call(request, ApiKey.FETCH, FetchResponse)
        except KafkaError as error:
            self.forget(error)  # whoever asks for offsets next deals with it

    def forget(self, error: KafkaError) -> None:
        """What an error makes doubtful: who leads, who coordinates; connections if one broke."""
        if error.code in NOT_YET:
            return
        self._topics.clear()
        self._coordinators.clear()
        if error.code in LOST_CONNECTION:
            self.close()

    def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def _patience(self, error: KafkaError) -> float:
        if error.code in UNKNOWN_TOPIC:
            return min(GONE_S, self._patience_s)
        return self._patience_s if self._met else min(self._first_contact_s, self._patience_s)

    def _open(self) -> ConnectionPool:
        if self._lines is None:
            self._lines = ConnectionPool(
                self._servers, settings=self._settings, timeout_s=self._request_s
            )
        return self._lines

    def _ask_topics(self, names: list[str] | None) -> dict[str, Topic]:
        wanted = None if names is None else [MetadataRequestTopic(name=each) for each in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=self._make_topics)
        answer = self.any().call(request, ApiKey.METADATA, MetadataResponse)
        self._met = True
        found = {}
        for each in answer.topics:
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._topics.pop(each.name or "", None)
                continue
            topic = self._topic(each)
            found[topic.name] = topic
        self._topics.update(found)
        return found

    def _topic(self, answer: MetadataResponseTopic) -> Topic:
        """A topic in the making may have no leader yet; one that is read has, or had, some."""
        name = answer.name or ""
        if self._make_topics or answer.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            check(answer.error_code, f"topic {name}")
        leaders = {each.partition_index: each.leader_id for each in answer.partitions}
        return Topic(name, answer.topic_id, leaders, answer.is_internal)

    def _ask_coordinators(self, kind: int, keys: list[str]) -> None:
        request = FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys)
        answer = self.any().call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
        self._met = True
        if not answer.coordinators:
            check(answer.error_code, f"coordinator of {keys[0]}")
            self._coordinators[kind, keys[0]] = answer.node_id
        for each in answer.coordinators:
            check(each.error_code, f"coordinator of {each.key}")
            self._coordinators[kind, each.key] = each.node_id

    def _ask_offsets(
        self, times: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        groups: dict[int, tuple[BrokerConnection, dict[str, list[ListOffsetsPartition]]]] = {}
        for each, time_ms in times.items():
            line = self.leader(*each)
            _, topics = groups.setdefault(id(line), (line, {}))
            topics.setdefault(each.topic, []).append(
                ListOffsetsPartition(each.partition, timestamp=time_ms)
            )
        found: dict[TopicPartition, int | None] = {}
        for line, topics in groups.values():
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name, parts) for name, parts in topics.items()],
            )
            answer = line.call(request, ApiKey.LIST_OFFSETS, ListOffsetsResponse)
            for topic in answer.topics:
                for part in topic.partitions:
                    where = TopicPartition(topic.name, part.partition_index)
                    check(part.error_code, str(where))
                    found[where] = None if part.offset == NO_OFFSET else part.offset
        return found


def check(code: int, what: str) -> None:
    """Raise what an answer's error code says: the code by name, and what to do if we know it."""
    if code:
        error = ErrorCode(code)
        remedy = REMEDIES.get(error)
        raise KafkaError(error, f"{what}: {error.name}" + (f": {remedy}" if remedy else ""))


def _end(partition: int, offset: int) -> FetchPartition:
    """One batch is the least that a broker sends."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)
