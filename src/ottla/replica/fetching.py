"""Carrying out what `follower` decides: one line to each leader, and one fetch after the other.

Nothing here waits in a task: an answer's arrival asks the next question. When a partition is given
to us while the leader holds our fetch for want of records, a second one is sent behind it, which
makes the leader answer the first at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Final

from ottla.clock import Clock
from ottla.errors import ErrorCode, KafkaError
from ottla.net.line import Line
from ottla.replica.follower import Following, Limits, Throttle, restart_within, unthrottled
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.primitives import Message

RECONNECT_S_MIN: Final = 0.02
FETCHES_MAX: Final = 2  # under way at a time
EARLIEST: Final = -4  # on the leader's own disk
LATEST: Final = -1

OpenLine = Callable[[int], Awaitable[Line]]

log = logging.getLogger("ottla.replica")


class Fetching:
    """All that this broker follows, by leader."""

    def __init__(
        self,
        node_id: int,
        *,
        open_line: OpenLine,
        clock: Clock,
        broker_epoch: Callable[[], int],
        limits: Callable[[], Limits],
        timeout_s: float = 30.0,
        throttle: Throttle = unthrottled,
    ) -> None:
        """`broker_epoch` is that of this life of ours; `timeout_s` replica.socket.timeout.ms."""
        self.node_id = node_id
        self.open_line = open_line
        self.clock = clock
        self.broker_epoch = broker_epoch
        self.limits = limits
        self.timeout_s = timeout_s
        self.throttle = throttle
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[Partition, int] = {}  # from whom each is fetched
        self._stopped = False

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(self._fetchers.values())

    def update(self, partition: Partition, *, gone: bool = False) -> None:
        """A partition's leader, epoch or role may be another one now."""
        follows = not gone and not partition.leads and partition.leader != self.node_id
        if partition.log.dir.offline:  # fetching at its end it would be taken for in sync
            follows = False
        leader = partition.leader if follows and not self._stopped else -1
        before = self._leaders.pop(partition, -1)
        if before not in (-1, leader):
            self._fetchers[before].drop(partition)
        if leader < 0:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = Fetcher(self, leader)
        self._leaders[partition] = leader
        fetcher.follow(partition)

    def nudge(self, leader_id: int) -> None:
        """This broker has come to life."""
        fetcher = self._fetchers.get(leader_id)
        if fetcher is not None:
            fetcher.nudge()

    def stop(self) -> None:
        self._stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._leaders.clear()


class Fetcher:
    """Our conversation with one leader."""

    def __init__(self, fetching: Fetching, leader_id: int) -> None:
        self.leader_id = leader_id
        self.following = Following(
            fetching.node_id, leader_id, fetching.limits(), fetching.throttle
        )
        self._fetching = fetching
        self._loop = asyncio.get_running_loop()
        self._line: Line | None = None
        self._task: asyncio.Task[None] | None = None  # that opens a line, or asks for offsets
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled = False
        self._reconnect_s = RECONNECT_S_MIN
        self._nudged = asyncio.Event()  # there is a reason not to pause any longer
        self._stopped = False

    def follow(self, partition: Partition) -> None:
        self.following.follow(partition)
        self._nudged.set()
        self._soon()

    def drop(self, partition: Partition) -> None:
        self.following.drop(partition)
        self._soon()

    def stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._line is not None:
            self._line.close()

    def _soon(self) -> None:
        """At the end of this turn: an image changes many partitions."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._proceed)

    def _proceed(self) -> None:
        """Do the next thing there is to do, if there is one."""
        self._scheduled = False
        if self._stopped or self._task is not None:
            return
        if self._line is None or self._line.closed.is_set():
            if len(self.following):
                self._begin(self._connect())
            return
        if self._under_way and not (self.following.overtakes and self._under_way < FETCHES_MAX):
            return
        self._fetch(self._line)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("following broker %d", self.leader_id, exc_info=task.exception())
        self._soon()

    # The line

    async def _connect(self) -> None:
        try:
            line = await self._fetching.open_line(self.leader_id)
        except KafkaError as error:
            log.debug("no line to broker %d: %s", self.leader_id, error)
            await self._pause()
            return
        self._line = line
        self._under_way = 0
        self.following.limits = self._fetching.limits()
        self.following.reset()

    def _fetch(self, line: Line) -> None:
        now_ms = self._fetching.clock.now_ms()
        request = self.following.next_request(self._fetching.broker_epoch(), now_ms)
        if request is None:
            self._rest(now_ms)
            return
        try:
            answer = line.send(request, ApiKey.FETCH)
        except KafkaError as error:
            self._broken(line, error)
            return
        self._under_way += 1
        late = self._loop.call_later(self._fetching.timeout_s, line.close)
        answer.add_done_callback(partial(self._answered, line, late, self.following.requests))

    def _rest(self, now_ms: int) -> None:
        """All partitions have failed of late, or there are none."""
        rest_ms = self.following.rest_ms(now_ms)
        if rest_ms is not None and self._timer is None:
            self._timer = self._loop.call_later(max(rest_ms, 1) / 1000, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._proceed()

    def _answered(
        self,
        line: Line,
        late: asyncio.TimerHandle,
        request: int,
        answer: asyncio.Future[Message],
    ) -> None:
        late.cancel()
        if line is not self._line or self._stopped:
            if not answer.cancelled():
                answer.exception()  # it was to be expected
            return
        self._under_way -= 1
        try:
            response = answer.result()
            assert isinstance(response, FetchResponse)
            lost = self.following.take(response, self._fetching.clock.now_ms(), request)
            self._reconnect_s = RECONNECT_S_MIN
        except KafkaError as error:
            self._broken(line, error)
            return
        if lost and self._task is None:
            self._begin(self._find_offsets(line, lost))
        else:
            self._proceed()

    def _broken(self, line: Line, error: KafkaError) -> None:
        log.info("fetching from broker %d: %s", self.leader_id, error)
        line.close()
        self._line = None
        if self._task is None:
            self._begin(self._pause())

    async def _pause(self) -> None:
        """Before the next line; longer each time, but no longer than until something is new."""
        self._nudged.clear()
        try:
            async with asyncio.timeout(self._reconnect_s):
                await self._nudged.wait()
            self._reconnect_s = RECONNECT_S_MIN
        except TimeoutError:
            backoff_s = self._fetching.limits().backoff_ms_max / 1000
            self._reconnect_s = min(2 * self._reconnect_s, max(backoff_s, RECONNECT_S_MIN))

    def nudge(self) -> None:
        """The leader may be back."""
        self._nudged.set()

    # Out of range

    async def _find_offsets(self, line: Line, partitions: list[Partition]) -> None:
        """Ask the leader where its logs begin and end, and begin there."""
        epochs = {each: each.leader_epoch for each in partitions}
        try:
            starts = await self._list_offsets(line, partitions, EARLIEST)
            ends = await self._list_offsets(line, partitions, LATEST)
        except KafkaError as error:
            log.info("asking broker %d for offsets: %s", self.leader_id, error)
            return
        for each in partitions:
            name = (each.topic, each.index)
            if name not in starts or name not in ends:
                continue
            if each.leads or each.leader_epoch != epochs[each] or each.leader != self.leader_id:
                continue
            try:
                restart_within(each, starts[name], ends[name], self._fetching.clock.now_ms())
            except KafkaError as error:
                log.error("%s: %s", each.name, error)
            self.following.follow(each)

    async def _list_offsets(
        self, line: Line, partitions: list[Partition], time: int
    ) -> dict[tuple[str, int], int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for each in partitions:
            topic = topics.setdefault(each.topic, ListOffsetsTopic(name=each.topic))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=each.index,
                    current_leader_epoch=each.leader_epoch,
                    timestamp=time,
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._fetching.node_id, topics=list(topics.values())
        )
        response = await line.call(
            request, ApiKey.LIST_OFFSETS, ListOffsetsResponse, timeout_s=self._fetching.timeout_s
        )
        return {
            (topic.name, found.partition_index): found.offset
            for topic in response.topics
            for found in topic.partitions
            if found.error_code == ErrorCode.NONE and found.offset >= 0
        }
