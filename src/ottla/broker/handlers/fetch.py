"""Fetch (key 1), v4 to v18.

Returns each partition's batches from the one that holds the wanted offset, as slices of the log's
files. With fewer than `min_bytes` it waits, at most `max_wait`, for an append to bring more.

Followers ask the same, of leaders only, and are given all that is written; where a follower fetches
from is how far it is, and moves the high watermark. Consumers from v11 on may ask followers, and a
leader sends them to one in their rack if it has a `replica.selector.class`.

v4   read_committed              v5   log start offset         v6   KAFKA_STORAGE_ERROR
v7   sessions (KIP-227)
v9   leader epoch check (KIP-320)         v11  rack and preferred replica (KIP-392)
v12  diverging epoch (KIP-595)   v13  topic ids (KIP-516)      v15  replica state (KIP-903)
v16  leader hints (KIP-951)      v18  high watermark in the request (KIP-1166)
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.broker.context import Context
from ottla.broker.leader_hints import MOVED, leader_of, nodes_of
from ottla.broker.preferred_replica import is_rack_aware, preferred
from ottla.broker.rates import Rate
from ottla.broker.sessions import FetchSession, Key, Plan, Wanted
from ottla.errors import ErrorCode, KafkaError
from ottla.net.parked import Parked
from ottla.replica.partition import LOG_END, READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.slices import FileSlice
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.primitives import Writer

INT_MAX: Final = 2**31 - 1
STORAGE_ERROR_FROM: Final = 6
FROM_FOLLOWERS_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
HINTS_FROM: Final = 16


def handle(ctx: Context, request: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
    try:
        plan = ctx.broker.fetch_sessions.resolve(request, ctx.version, ctx.now_ms)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = Fetch(ctx, request, plan)
    fetch.collect()
    if fetch.satisfied or request.max_wait <= 0 or not (plan.wanted or plan.session):
        return fetch.response()
    return fetch.park(request.max_wait)


class Fetch:
    """One fetch request on its way: read, and if that is not enough, read again when woken."""

    __slots__ = (
        "_answers",
        "_arrived",
        "_found",
        "_future",
        "_isolation",
        "_limit",
        "_listener",
        "_looked",
        "_loop",
        "_missing",
        "_parked_on",
        "_plain",
        "_refused",
        "_request",
        "_scheduled",
        "_size",
        "_tells_commits",
        "_timer",
        "broker",
        "plan",
        "replica_epoch",
        "replica_id",
        "satisfied",
        "size_max",
        "size_min",
        "version",
    )

    def __init__(self, ctx: Context, request: FetchRequest, plan: Plan) -> None:
        self.broker = ctx.broker
        self.version = ctx.version
        self.plan = plan
        self._listener = ctx.session.listener
        self.replica_id, self.replica_epoch = _replica(request)
        follows = self.replica_id >= 0
        self._isolation = READ_UNCOMMITTED
        if follows:
            self._isolation = LOG_END
        elif request.isolation_level == READ_COMMITTED:
            self._isolation = READ_COMMITTED
        by_rack = is_rack_aware(ctx.broker)
        self._tells_commits = follows and by_rack
        self._plain = not follows and not (by_rack and request.rack_id)
        self.size_max = request.max_bytes
        if not follows:
            self.size_max = min(self.size_max, ctx.broker.config.fetch_max_bytes)
        self._limit: Rate | None = None  # consumer_byte_rate
        if ctx.limits is not None and not follows:
            self._limit = ctx.limits.fetch
            if self._limit is not None:  # more could never be sent
                self.size_max = min(self.size_max, int(min(self._limit.burst, INT_MAX)))
        self.size_min = min(request.min_bytes, self.size_max)
        self.satisfied = False
        self._request = request
        self._answers: list[tuple[Key, Wanted, PartitionData]] = []
        self._found: list[Partition] = []  # of the answers, unless one of them is an error
        self._size = 0  # of what is there, as far as it counts for the least that is wanted
        self._parked_on: list[Partition] = []
        self._missing = 0  # bytes that must come before another look is worth it
        self._arrived = 0  # since the last look
        self._scheduled = False
        self._looked = False  # where followers fetch from counts once for each request

    # reading

    def collect(self) -> None:
        """Read every wanted partition once, within the byte limits."""
        size = 0
        satisfied = self._refused = False
        answers = self._answers = []
        found = self._found = []
        isolation = self._isolation
        for key, wanted in self.plan.wanted.items():
            try:
                partition = self._find(wanted)
                found.append(partition)
                room = self.size_max - size
                if self._plain:
                    data = _read(partition, wanted, room, isolation, size == 0)
                else:
                    data = self._read_replicated(partition, wanted, room, size == 0)
            except KafkaError as error:
                data = _refused(wanted, error, self.version)
                self._refused = satisfied = True
            if data.records:
                size += len(data.records)
            elif data.diverging_epoch is not None or (
                not self._plain and self._is_news(wanted, data)
            ):
                satisfied = True
            answers.append((key, wanted, data))
        self._looked = True
        self._size = size
        if not satisfied and 0 < size < self.size_min:
            self._size = self._available()
        self.satisfied = satisfied or self._size >= self.size_min

    def _read_replicated(
        self, partition: Partition, wanted: Wanted, room: int, first: bool
    ) -> PartitionData:
        """For a follower, and for a consumer that may be better served by one."""
        broker = self.broker
        if self.replica_id < 0:
            offset = wanted.fetch_offset
            nearer = preferred(broker, partition, offset, self._request.rack_id)
            if nearer >= 0 and partition.leads:
                data = _read(partition, wanted, -1, self._isolation, False)
                data.preferred_read_replica = nearer
                return data
            return _read(partition, wanted, room, self._isolation, first)
        if not self._looked:
            wanted.partition = partition if self._note(partition, wanted) else None
        quota = broker.replication.leader_quota
        if self.replica_id not in partition.isr and quota.holds_back(
            partition.topic, partition.index, broker.clock.now_ms()
        ):
            return _read(partition, wanted, -1, LOG_END, False)
        return _read(partition, wanted, room, LOG_END, first)

    def _is_news(self, wanted: Wanted, data: PartitionData) -> bool:
        """What is told without records, and not only when more have come.

        A follower hears at once of what was deleted, as somebody may wait until it has done so; and
        of the high watermark, where consumers read from it.
        """
        if self.replica_id < 0:
            return data.preferred_read_replica >= 0
        return (0 <= wanted.start_offset < data.log_start_offset) or (
            self._tells_commits and 0 <= wanted.high_watermark < data.high_watermark
        )

    def _available(self) -> int:
        """The bytes there would be, were they not cut: at a batch's border, or by a segment.

        Waiting would bring nothing more in both cases, as they are there already.
        """
        size = 0
        isolation = self._isolation
        for (_, wanted, data), partition in zip(self._answers, self._found, strict=True):
            records = data.records
            if not isinstance(records, FileSlice):
                continue
            if partition.is_behind(wanted.fetch_offset):
                return self.size_min
            room = min(wanted.size_max, self.size_max - size)
            size += (
                max(room, records.size) if partition.is_cut(records, isolation) else records.size
            )
        return size

    def _find(self, wanted: Wanted) -> Partition:
        broker = self.broker
        name = wanted.topic
        if self.version >= TOPIC_IDS_FROM:
            name = broker.image.topic_name(wanted.topic_id)
            if not name:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = broker.partitions.find(name, wanted.index)
        partition.check_epoch(wanted.current_leader_epoch)
        if not partition.leads and (self.replica_id >= 0 or self.version < FROM_FOLLOWERS_FROM):
            raise partition.not_leader()
        return partition

    def _note(self, partition: Partition, wanted: Wanted) -> bool:
        """A follower has all before the offset from which it fetches, if its log is like ours."""
        log = partition.log
        if not log.start_offset <= wanted.fetch_offset <= log.end_offset:
            return False
        if wanted.last_fetched_epoch >= 0 and _diverging(partition, wanted) is not None:
            return False
        broker = self.broker
        isr = partition.fetched(
            self.replica_id,
            wanted.fetch_offset,
            start_offset=wanted.replica_start_offset,
            broker_epoch=self.replica_epoch,
            now_ms=broker.clock.now_ms(),
        )
        if isr is not None:
            broker.replication.isr_writes.want(partition, isr)
        return True

    def response(self) -> FetchResponse:
        session = self.plan.session
        topics: list[FetchableTopicResponse] = []
        served: list[Key] = []
        for key, wanted, data in self._answers:
            if self.plan.incremental and not _changed(wanted, data):
                continue
            wanted.high_watermark = data.high_watermark
            wanted.start_offset = data.log_start_offset
            if data.records:
                served.append(key)
                if self.replica_id >= 0:
                    self._charge_follower(wanted, len(data.records))
            last = topics[-1] if topics else None
            if last is None or last.topic != wanted.topic or last.topic_id != wanted.topic_id:
                last = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id)
                topics.append(last)
            last.partitions.append(data)
        response = FetchResponse(responses=topics)
        if self.version >= HINTS_FROM and self._refused:
            self._hint(response)
        if session is not None:
            response.session_id = session.id
        if self._limit is not None:
            throttled = self._charge(self._limit, response)
            if throttled is not None:
                return throttled
        if session is not None:
            session.serve_last(served)
            self._rest(session)
        return response

    def _hint(self, response: FetchResponse) -> None:
        """KIP-951: with the leaders of partitions that are not ours."""
        leaders = set()
        for topic in response.responses:
            name = self.broker.image.topic_name(topic.topic_id)
            for data in topic.partitions:
                hint = None
                if data.error_code in MOVED:
                    hint = leader_of(self.broker, name, data.partition_index)
                if hint is not None:
                    data.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                    leaders.add(hint.leader_id)
        if leaders:
            nodes = nodes_of(self.broker, leaders, self._listener)
            response.node_endpoints = [NodeEndpoint(*node) for node in nodes]

    # quotas

    def _charge_follower(self, wanted: Wanted, size: int) -> None:
        broker = self.broker
        name = wanted.topic or broker.image.topic_name(wanted.topic_id)
        quota = broker.replication.leader_quota
        quota.record(name, wanted.index, size, broker.clock.now_ms())

    def _charge(self, limit: Rate, response: FetchResponse) -> FetchResponse | None:
        """What to answer instead: nothing, and for how long (KIP-219), if that is too much now.

        One batch may be larger than the limit allows in all its windows together. Kafka would
        never send it; here it goes to a client that has had nothing lately, and then has to wait.
        """
        now_ms = self.broker.clock.now_ms()
        quiet = limit.is_quiet(now_ms)
        writer = Writer()
        response.write(writer, self.version)
        size = writer.size
        throttle_ms = limit.charge(size, now_ms)
        if throttle_ms == 0:
            return None
        if quiet:
            response.throttle_time = throttle_ms
            return None
        limit.record(-size, now_ms)
        return self._empty(throttle_ms)

    def _empty(self, throttle_ms: int) -> FetchResponse:
        session = self.plan.session
        for _, wanted, _ in self._answers:
            wanted.high_watermark = -1  # nothing was told: all of it is news next time
        if session is None:
            return FetchResponse(throttle_time=throttle_ms)
        if self.plan.incremental:
            return FetchResponse(throttle_time=throttle_ms, session_id=session.id)
        self.broker.fetch_sessions.drop(session.id)  # clients take it for not begun
        return FetchResponse(throttle_time=throttle_ms)

    # waiting

    def park(self, max_wait_ms: int) -> asyncio.Future[FetchResponse]:
        """A future that also goes away by itself when it is cancelled: the client has left."""
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[FetchResponse] = (
            Parked(self._finish, loop=self._loop)
            if self.replica_id >= 0
            else self._loop.create_future()
        )
        self._timer = self._loop.call_later(max_wait_ms / 1000, self._finish)
        self._future.add_done_callback(self._leave)
        self._wait()
        return self._future

    def _wait(self) -> None:
        """To be woken by what was found this time: a topic may have been made anew."""
        session = self.plan.session
        if session is not None and self.replica_id >= 0:
            self._rest(session)
            session.wake = self._wake
        self._answers = []  # they would keep files open
        self._arrived = 0
        self._missing = self.size_min - self._size
        if self._isolation == READ_COMMITTED:
            self._missing = 1  # a transaction's few last bytes make all the others readable
        if self._found != self._parked_on:
            self._unpark()
            self._parked_on = self._found
            for partition in self._parked_on:
                if self.replica_id >= 0:
                    partition.tail.add(self._wake)
                if self.replica_id < 0 or self._tells_commits:
                    partition.waiting.add(self._wake)

    def _unpark(self) -> None:
        for partition in self._parked_on:
            if self.replica_id >= 0:
                partition.tail.discard(self._wake)
            if self.replica_id < 0 or self._tells_commits:
                partition.waiting.discard(self._wake)

    def _leave(self, future: asyncio.Future[FetchResponse]) -> None:
        self._timer.cancel()
        self._unpark()
        if self.plan.session is not None:
            self.plan.session.wake = None

    def _rest(self, session: FetchSession) -> None:
        """What a follower in sync has everything of, and was told so, is not looked at any more.

        It follows thousands, of which a few have moved since its last fetch.
        """
        for key, wanted, _ in self._answers:
            partition = wanted.partition
            if partition is not None and _is_known(partition, wanted, self.replica_id):
                session.rest(key, partition, tells_commits=self._tells_commits)

    def _wake(self, size: int) -> None:
        """An append happened. Look once, after all that came with it has been appended.

        Who waits for many bytes looks when so many have come: with a thousand partitions each
        look takes milliseconds.
        """
        self._arrived += size
        if self._arrived >= self._missing and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._scheduled = False
        self._try(last=False)

    def _finish(self) -> None:
        """The wait is over: answer with what there is."""
        self._try(last=True)

    def _try(self, *, last: bool) -> None:
        if self._future.done():
            return
        try:
            self.collect()
            if last or self.satisfied:
                self._future.set_result(self.response())
            else:
                self._wait()
        except Exception as error:  # nobody else would ever answer
            self._future.set_exception(error)


def _replica(request: FetchRequest) -> tuple[int, int]:
    """Followers name themselves: before v15 in one place, then in another, with their epoch
    (KIP-903). Consumers are -1."""
    state = request.replica_state
    if state is not None and state.replica_id >= 0:
        return state.replica_id, state.replica_epoch
    return request.replica_id, -1


def _read(
    partition: Partition, wanted: Wanted, size_left: int, isolation: int, first: bool
) -> PartitionData:
    if wanted.last_fetched_epoch >= 0:
        diverging = _diverging(partition, wanted)
        if diverging is not None:
            return diverging
    read = partition.read(
        wanted.fetch_offset,
        size_max=max(0, min(wanted.size_max, size_left)),
        isolation=isolation,
        whole_first_batch=first,
    )
    aborted = None
    if isolation == READ_COMMITTED:
        aborted = [
            AbortedTransaction(producer_id=producer_id, first_offset=offset)
            for producer_id, offset in read.aborted or ()
        ]
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.start_offset,
        aborted_transactions=aborted,
        records=read.records if read.records is not None else b"",
    )


def _diverging(partition: Partition, wanted: Wanted) -> PartitionData | None:
    """KIP-595: the reader's last batch is of an epoch that ended earlier here; it must go back."""
    epoch, end_offset = partition.epoch_end_offset(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < partition.log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        records=b"",
    )


def _refused(wanted: Wanted, error: KafkaError, version: int) -> PartitionData:
    code = error.code
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # which clients of that time know to try again
    return PartitionData(
        partition_index=wanted.index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )


def _is_known(partition: Partition, wanted: Wanted, replica_id: int) -> bool:
    """Whether a follower in sync has all of a partition, and knows it. Whatever makes this untrue
    wakes who waits for the partition."""
    log = partition.log
    return (
        partition.leads
        and wanted.current_leader_epoch == partition.leader_epoch
        and wanted.fetch_offset == log.end_offset
        and wanted.high_watermark == partition.high_watermark
        and wanted.start_offset == log.start_offset
        and replica_id in partition.isr
        and not log.dir.offline
    )


def _changed(wanted: Wanted, data: PartitionData) -> bool:
    """An incremental response names only the partitions that have news."""
    return bool(
        data.records
        or data.error_code
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
        or data.high_watermark != wanted.high_watermark
        or data.log_start_offset != wanted.start_offset
    )
