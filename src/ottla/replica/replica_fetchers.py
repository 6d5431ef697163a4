"""The fetchers of a follower: one connection to each leader, and one fetch after the other.

`leader_fetcher.py` decides what to fetch; this carries it out. No task waits for a response: its
arrival sends the next request. When this broker begins to follow a partition while the leader holds
a fetch because there are no records, a second fetch is sent behind it, and the leader answers the
first one at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Final

from ottla.clock import Clock
from ottla.errors import ErrorCode, KafkaError
from ottla.net.inter_broker_connection import InterBrokerConnection
from ottla.replica.leader_fetcher import (
    FetchLimits,
    LeaderFetcher,
    Throttle,
    restart_within,
    unthrottled,
)
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

RECONNECT_S_MIN: Final = 0.02
FETCHES_MAX: Final = 2  # under way at a time
EARLIEST: Final = -4  # on the leader's own disk
LATEST: Final = -1

OpenConnection = Callable[[int], Awaitable[InterBrokerConnection]]

log = logging.getLogger("ottla.replica")


class ReplicaFetchers:
    """The fetchers of this broker, by leader."""

    def __init__(
        self,
        node_id: int,
        *,
        open_connection: OpenConnection,
        clock: Clock,
        broker_epoch: Callable[[], int],
        limits: Callable[[], FetchLimits],
        timeout_s: float = 30.0,
        throttle: Throttle = unthrottled,
    ) -> None:
        """`broker_epoch` is that of our registration; `timeout_s` is replica.socket.timeout.ms."""
        self.node_id = node_id
        self.open_connection = open_connection
        self.clock = clock
        self.broker_epoch = broker_epoch
        self.limits = limits
        self.timeout_s = timeout_s
        self.throttle = throttle
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[Partition, int] = {}  # the leader from which each is fetched
        self._stopped = False

    def __iter__(self) -> Iterator[ReplicaFetcher]:
        return iter(self._fetchers.values())

    def update(self, partition: Partition, *, gone: bool = False) -> None:
        """A partition's leader, epoch or role may have changed."""
        follows = not gone and not partition.leads and partition.leader != self.node_id
        # A fetch at the end of a log that cannot be written would keep this replica in the ISR.
        if partition.log.dir.offline:
            follows = False
        leader = partition.leader if follows and not self._stopped else -1
        before = self._leaders.pop(partition, -1)
        if before not in (-1, leader):
            self._fetchers[before].drop(partition)
        if leader < 0:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(self, leader)
        self._leaders[partition] = leader
        fetcher.follow(partition)

    def nudge(self, leader_id: int) -> None:
        """This leader has just registered: do not wait any longer."""
        fetcher = self._fetchers.get(leader_id)
        if fetcher is not None:
            fetcher.nudge()

    def stop(self) -> None:
        self._stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._leaders.clear()


class ReplicaFetcher:
    """The connection to one leader, and the requests on it."""

    def __init__(self, fetchers: ReplicaFetchers, leader_id: int) -> None:
        self.leader_id = leader_id
        self.leader_fetcher = LeaderFetcher(
            fetchers.node_id, leader_id, fetchers.limits(), fetchers.throttle
        )
        self._fetchers = fetchers
        self._loop = asyncio.get_running_loop()
        self._connection: InterBrokerConnection | None = None
        self._task: asyncio.Task[None] | None = None  # that connects, or asks for offsets
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled = False
        self._reconnect_s = RECONNECT_S_MIN
        self._nudged = asyncio.Event()  # set when there is a reason to end a pause
        self._stopped = False

    def follow(self, partition: Partition) -> None:
        self.leader_fetcher.follow(partition)
        self._nudged.set()
        self._soon()

    def drop(self, partition: Partition) -> None:
        self.leader_fetcher.drop(partition)
        self._soon()

    def stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.close()

    def _soon(self) -> None:
        """At the end of this turn of the loop, because an image changes many partitions."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._proceed)

    def _proceed(self) -> None:
        """Connect, fetch or wait, whichever is next."""
        self._scheduled = False
        if self._stopped or self._task is not None:
            return
        if self._connection is None or self._connection.closed.is_set():
            if len(self.leader_fetcher):
                self._begin(self._connect())
            return
        if self._under_way and not (
            self.leader_fetcher.overtakes and self._under_way < FETCHES_MAX
        ):
            return
        self._fetch(self._connection)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("Fetcher for leader %d failed", self.leader_id, exc_info=task.exception())
        self._soon()

    # The connection

    async def _connect(self) -> None:
        try:
            connection = await self._fetchers.open_connection(self.leader_id)
        except KafkaError as error:
            log.debug("Connection to leader %d failed: %s", self.leader_id, error)
            await self._pause()
            return
        self._connection = connection
        self._under_way = 0
        self.leader_fetcher.limits = self._fetchers.limits()
        self.leader_fetcher.reset()

    def _fetch(self, connection: InterBrokerConnection) -> None:
        now_ms = self._fetchers.clock.now_ms()
        request = self.leader_fetcher.next_request(self._fetchers.broker_epoch(), now_ms)
        if request is None:
            self._delay(now_ms)
            return
        try:
            response = connection.send(request, ApiKey.FETCH)
        except KafkaError as error:
            self._broken(connection, error)
            return
        self._under_way += 1
        timeout = self._loop.call_later(self._fetchers.timeout_s, connection.close)
        response.add_done_callback(
            partial(self._on_response, connection, timeout, self.leader_fetcher.requests)
        )

    def _delay(self, now_ms: int) -> None:
        """Every partition waits after a failure, or there is none."""
        delay_ms = self.leader_fetcher.delay_ms(now_ms)
        if delay_ms is not None and self._timer is None:
            self._timer = self._loop.call_later(max(delay_ms, 1) / 1000, self._delay_over)

    def _delay_over(self) -> None:
        self._timer = None
        self._proceed()

    def _on_response(
        self,
        connection: InterBrokerConnection,
        timeout: asyncio.TimerHandle,
        request: int,
        pending: asyncio.Future[Message],
    ) -> None:
        timeout.cancel()
        if connection is not self._connection or self._stopped:
            if not pending.cancelled():
                pending.exception()  # retrieved, so that asyncio does not report it
            return
        self._under_way -= 1
        try:
            response = pending.result()
            assert isinstance(response, FetchResponse)
            lost = self.leader_fetcher.process_response(
                response, self._fetchers.clock.now_ms(), request
            )
            self._reconnect_s = RECONNECT_S_MIN
        except KafkaError as error:
            self._broken(connection, error)
            return
        if lost and self._task is None:
            self._begin(self._find_offsets(connection, lost))
        else:
            self._proceed()

    def _broken(self, connection: InterBrokerConnection, error: KafkaError) -> None:
        log.info("Fetch from leader %d failed: %s", self.leader_id, error)
        connection.close()
        self._connection = None
        if self._task is None:
            self._begin(self._pause())

    async def _pause(self) -> None:
        """Before the next connection: longer each time, and ended by `nudge`."""
        self._nudged.clear()
        try:
            async with asyncio.timeout(self._reconnect_s):
                await self._nudged.wait()
            self._reconnect_s = RECONNECT_S_MIN
        except TimeoutError:
            backoff_s = self._fetchers.limits().backoff_ms_max / 1000
            self._reconnect_s = min(2 * self._reconnect_s, max(backoff_s, RECONNECT_S_MIN))

    def nudge(self) -> None:
        """End the pause: the leader may be back."""
        self._nudged.set()

    # Out of range

    async def _find_offsets(
        self, connection: InterBrokerConnection, partitions: list[Partition]
    ) -> None:
        """Ask the leader for the start and end of its logs, and go on within them."""
        epochs = {partition: partition.leader_epoch for partition in partitions}
        try:
            starts = await self._list_offsets(connection, partitions, EARLIEST)
            ends = await self._list_offsets(connection, partitions, LATEST)
        except KafkaError as error:
            log.info("ListOffsets from leader %d failed: %s", self.leader_id, error)
            return
        for partition in partitions:
            name = (partition.topic, partition.index)
            if name not in starts or name not in ends:
                continue
            if (
                partition.leads
                or partition.leader_epoch != epochs[partition]
                or partition.leader != self.leader_id
            ):
                continue
            try:
                restart_within(partition, starts[name], ends[name], self._fetchers.clock.now_ms())
            except KafkaError as error:
                log.error("%s: %s", partition.name, error)
            self.leader_fetcher.follow(partition)

    async def _list_offsets(
        self, connection: InterBrokerConnection, partitions: list[Partition], time: int
    ) -> dict[tuple[str, int], int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.index,
                    current_leader_epoch=partition.leader_epoch,
                    timestamp=time,
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._fetchers.node_id, topics=list(topics.values())
        )
        response = await connection.call(
            request, ApiKey.LIST_OFFSETS, ListOffsetsResponse, timeout_s=self._fetchers.timeout_s
        )
        return {
            (topic.name, partition.partition_index): partition.offset
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code == ErrorCode.NONE and partition.offset >= 0
        }
