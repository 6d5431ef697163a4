"""What the source asks of brokers: which partitions there are, their offsets, their records.

Connections stay open. Where a leader has moved, or a broker is away, the same is asked again for a
while; what will not pass is raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.client.delivery import Setting
from ottla.client.lines import Line, Lines
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
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

CONSUMER: Final = -1  # who asks: no replica
NO_OFFSET: Final = -1

REQUEST_S_MAX: Final = 30.0
PATIENCE_S: Final = 60.0
FIRST_CONTACT_S: Final = 10.0  # nobody has answered yet: the address may be wrong
GONE_S: Final = 5.0  # a topic that nobody knows: it is new to this broker, or deleted
PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0

LOST_LINE: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
MOVED: Final = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    )
)
GONE: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    )
)
PASSING: Final = LOST_LINE | MOVED | GONE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now: made anew, it has another id."""

    name: str
    id: bytes
    leaders: Mapping[int, int]
    internal: bool = False


class Brokers:
    """The brokers of one cluster. Not for two threads at once."""

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, Setting],
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._servers = servers
        self._settings = settings
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._lines: Lines | None = None
        self._met = False
        self._topics: dict[str, Topic] = {}

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """Those of these topics that exist; None: all there are."""
        wanted = None if names is None else sorted(names)
        return self.patiently(lambda: self._ask_topics(wanted))

    def topic(self, name: str) -> Topic:
        """What was known last of a topic, or is now; UNKNOWN_TOPIC_OR_PARTITION: it is not."""
        if name not in self._topics:
            found = self._ask_topics([name])
            if name not in found:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return self._topics[name]

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

    def leader(self, topic: str, partition: int) -> Line:
        """The line to the broker that leads a partition."""
        leader = self.topic(topic).leaders.get(partition, -1)
        if leader < 0:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader now"
            )
        return self._open().line(leader)

    def forget(self, error: KafkaError) -> None:
        """What an error makes doubtful: who leads, and the connections if one broke."""
        self._topics.clear()
        if error.code in LOST_LINE:
            self.close()

    def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def patiently(self, ask: Callable[[], T]) -> T:
        """Ask again, with pauses that grow, for as long as the trouble may pass."""
        begin = self._clock()
        pause_s = PAUSE_S
        while True:
            try:
                return ask()
            except KafkaError as error:
                if error.code not in PASSING or self._clock() - begin > self._patience(error):
                    raise
                self.forget(error)
            self._sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _patience(self, error: KafkaError) -> float:
        if error.code in GONE:
            return min(GONE_S, self._patience_s)
        return self._patience_s if self._met else min(FIRST_CONTACT_S, self._patience_s)

    def _open(self) -> Lines:
        if self._lines is None:
            self._lines = Lines(self._servers, settings=self._settings, timeout_s=REQUEST_S_MAX)
        return self._lines

    def _ask_topics(self, names: list[str] | None) -> dict[str, Topic]:
        wanted = None if names is None else [MetadataRequestTopic(name=each) for each in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = self._open().call(request, ApiKey.METADATA, MetadataResponse)
        self._met = True
        found = {}
        for each in answer.topics:
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._topics.pop(each.name or "", None)
                continue
            topic = _topic(each)
            found[topic.name] = topic
        self._topics.update(found)
        return found

    def _ask_offsets(
        self, times: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        groups: dict[int, tuple[Line, dict[str, list[ListOffsetsPartition]]]] = {}
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
                    _check(part.error_code, str(where))
                    found[where] = None if part.offset == NO_OFFSET else part.offset
        return found


def _topic(answer: MetadataResponseTopic) -> Topic:
    name = answer.name or ""
    if answer.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
        _check(answer.error_code, name)
    return Topic(
        name,
        answer.topic_id,
        {each.partition_index: each.leader_id for each in answer.partitions},
        answer.is_internal,
    )


def _end(partition: int, offset: int) -> FetchPartition:
    """One batch is the least that a broker sends."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)


def _check(code: int, what: str) -> None:
    if code:
        error = ErrorCode(code)
        raise KafkaError(error, f"{what}: {error.name}")
