"""What the sink asks of brokers: who leads a partition, who coordinates an id; and patience.

Connections stay open for the next task of the same Python worker. Where a leader has moved or a
broker is away, the same is asked again for a while; what will not pass is raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.client.delivery import Setting
from ottla.client.lines import Line, Lines, check
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.primitives import Message

GROUP: Final = 0  # what a coordinator is asked for, by FindCoordinator's numbers
TRANSACTION: Final = 1
KEYS_SINCE: Final = 4  # KIP-699: many keys in one request

PATIENCE_S: Final = 120.0
FIRST_CONTACT_S: Final = 30.0  # nobody has answered yet: the address may be wrong
GONE_S: Final = 10.0  # a topic that nobody knows: it is new to this broker, or is to be made
PAUSE_S: Final = 0.005  # a transaction's markers are written within milliseconds
PAUSE_S_MAX: Final = 0.5
REQUEST_S_MAX: Final = 30.0

LOST_LINE: Final = frozenset(
    {ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)
GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
PASSING: Final = (
    LOST_LINE
    | GONE
    | {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)

T = TypeVar("T")
R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Topic:
    """`leaders` has the broker that leads each partition, -1 where none does."""

    name: str
    id: bytes
    leaders: tuple[int, ...]


class Cluster:
    """The brokers of one cluster. Not for two threads at once."""

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, Setting],
        *,
        patience_s: float = PATIENCE_S,
        request_s: float = REQUEST_S_MAX,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.patience_s = patience_s
        self.sleep = sleep
        self._servers = servers
        self._settings = settings
        self._request_s = request_s
        self._clock = clock
        self._met = False
        self._lines: Lines | None = None
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
                if error.code not in PASSING or self._clock() - begin > self._patience(error):
                    raise
                self.forget(error)
            self.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def topic(self, name: str) -> Topic:
        """Who leads its partitions. A topic that is not there is made, where the broker does so."""
        if name not in self._topics:
            self._topics[name] = self._ask_topic(name)
        return self._topics[name]

    def refresh(self) -> None:
        """A task begins: topics may have got more partitions since the last one."""
        self._topics.clear()

    def line(self, node_id: int) -> Line:
        return self._open().line(node_id)

    def any(self) -> Line:
        return self._open().first

    def coordinator(self, kind: int, key: str) -> Line:
        """The line to the broker that coordinates a group or a transactional id."""
        self.find(kind, [key])
        return self.line(self._coordinators[kind, key])

    def find(self, kind: int, keys: Iterable[str]) -> None:
        """Look up the coordinators of many keys at once, where that is not known yet."""
        unknown = [each for each in keys if (kind, each) not in self._coordinators]
        if not unknown:
            return
        _, newest = self.any().versions.get(ApiKey.FIND_COORDINATOR, (0, 0))
        batches = [unknown] if newest >= KEYS_SINCE else [[each] for each in unknown]
        for batch in batches:
            self._ask_coordinators(kind, batch)

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

    def forget(self, error: KafkaError) -> None:
        """What an error makes doubtful: who leads, who coordinates; connections if one broke."""
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        self._topics.clear()
        self._coordinators.clear()
        if error.code in LOST_LINE:
            self.close()

    def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def _patience(self, error: KafkaError) -> float:
        if error.code in GONE:
            return min(GONE_S, self.patience_s)
        return self.patience_s if self._met else min(FIRST_CONTACT_S, self.patience_s)

    def _open(self) -> Lines:
        if self._lines is None:
            self._lines = Lines(self._servers, settings=self._settings, timeout_s=self._request_s)
        return self._lines

    def _ask_topic(self, name: str) -> Topic:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
        )
        answer = self.any().call(request, ApiKey.METADATA, MetadataResponse)
        self._met = True
        (found,) = answer.topics
        if found.error_code:
            remedy = " (create it, or set auto.create.topics.enable on the broker)"
            code = ErrorCode(found.error_code)
            words = f"topic {name}: {code.name}" + (remedy if code in GONE else "")
            raise KafkaError(code, words)
        leaders = {each.partition_index: each.leader_id for each in found.partitions}
        return Topic(name, found.topic_id, tuple(leaders[each] for each in sorted(leaders)))

    def _ask_coordinators(self, kind: int, keys: list[str]) -> None:
        request = FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys)
        answer = self.any().call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
        self._met = True
        if not answer.coordinators:
            check(answer.error_code, answer.error_message)
            self._coordinators[kind, keys[0]] = answer.node_id
        for each in answer.coordinators:
            check(each.error_code, each.error_message)
            self._coordinators[kind, each.key] = each.node_id
