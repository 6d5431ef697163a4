"""Fetch (key 1), v4 to v18.

Returns each partition's batches from the one that holds the wanted offset, as slices of the log's
files. With fewer than `min_bytes` it waits, at most `max_wait`, for an append to bring more.

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
from ottla.broker.rates import Rate
from ottla.broker.sessions import Key, Plan, Wanted
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_COMMITTED, Partition
from ottla.slices import FileSlice
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.primitives import Writer

INT_MAX: Final = 2**31 - 1
STORAGE_ERROR_FROM: Final = 6
TOPIC_IDS_FROM: Final = 13


def handle(ctx: Context, request: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
    try:
        plan = ctx.broker.fetch_sessions.resolve(request, ctx.version, ctx.now_ms)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = Fetch(ctx, request, plan)
    fetch.collect()
    if fetch.satisfied or request.max_wait <= 0 or not plan.wanted:
        return fetch.response()
    return fetch.park(request.max_wait)


class Fetch:
    """One fetch request on its way: read, and if that is not enough, read again when woken."""

    __slots__ = (
        "_answers",
        "_arrived",
        "_found",
        "_future",
        "_limit",
        "_loop",
        "_missing",
        "_parked_on",
        "_request",
        "_scheduled",
        "_size",
        "_timer",
        "broker",
        "plan",
        "satisfied",
        "size_max",
        "size_min",
        "version",
    )

    def __init__(self, ctx: Context, request: FetchRequest, plan: Plan) -> None:
        self.broker = ctx.broker
        self.version = ctx.version
        self.plan = plan
        self.size_max = min(request.max_bytes, ctx.broker.config.fetch_max_bytes)
        self._limit: Rate | None = None  # consumer_byte_rate
        if ctx.limits is not None and _is_consumer(request):
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

    # reading

    def collect(self) -> None:
        """Read every wanted partition once, within the byte limits."""
        size = 0
        satisfied = False
        answers = self._answers = []
        found = self._found = []
        isolation = self._request.isolation_level
        for key, wanted in self.plan.wanted.items():
            try:
                partition = self._find(wanted)
                found.append(partition)
                data = _read(partition, wanted, self.size_max - size, isolation, size == 0)
            except KafkaError as error:
                data = _refused(wanted, error, self.version)
                satisfied = True
            if data.records:
                size += len(data.records)
            elif data.diverging_epoch is not None:
                satisfied = True
            answers.append((key, wanted, data))
        self._size = size
        if not satisfied and 0 < size < self.size_min:
            self._size = self._available()
        self.satisfied = satisfied or self._size >= self.size_min

    def _available(self) -> int:
        """The bytes there would be, were they not cut: at a batch's border, or by a segment.

        Waiting would bring nothing more in both cases, as they are there already.
        """
        size = 0
        isolation = self._request.isolation_level
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
        return broker.partitions.find(name, wanted.index)

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
            last = topics[-1] if topics else None
            if last is None or last.topic != wanted.topic or last.topic_id != wanted.topic_id:
                last = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id)
                topics.append(last)
            last.partitions.append(data)
        response = FetchResponse(responses=topics)
        if session is not None:
            response.session_id = session.id
        if self._limit is not None:
            throttled = self._charge(self._limit, response)
            if throttled is not None:
                return throttled
        if session is not None:
            session.serve_last(served)
        return response

    # quotas

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
        self._future: asyncio.Future[FetchResponse] = self._loop.create_future()
        self._timer = self._loop.call_later(max_wait_ms / 1000, self._finish)
        self._future.add_done_callback(self._leave)
        self._wait()
        return self._future

    def _wait(self) -> None:
        """To be woken by what was found this time: a topic may have been made anew."""
        self._answers = []  # they would keep files open
        self._arrived = 0
        self._missing = self.size_min - self._size
        if self._request.isolation_level == READ_COMMITTED:
            self._missing = 1  # a transaction's few last bytes make all the others readable
        if self._found != self._parked_on:
            for partition in self._parked_on:
                partition.waiting.discard(self._wake)
            self._parked_on = self._found
            for partition in self._parked_on:
                partition.waiting.add(self._wake)

    def _leave(self, future: asyncio.Future[FetchResponse]) -> None:
        self._timer.cancel()
        for partition in self._parked_on:
            partition.waiting.discard(self._wake)

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


def _is_consumer(request: FetchRequest) -> bool:
    """Followers name themselves: before v15 in one place, then in another (KIP-903)."""
    state = request.replica_state
    return request.replica_id < 0 and (state is None or state.replica_id < 0)


def _read(
    partition: Partition, wanted: Wanted, size_left: int, isolation: int, first: bool
) -> PartitionData:
    partition.check_epoch(wanted.current_leader_epoch)
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


def _changed(wanted: Wanted, data: PartitionData) -> bool:
    """An incremental response names only the partitions that have news."""
    return bool(
        data.records
        or data.error_code
        or data.diverging_epoch is not None
        or data.high_watermark != wanted.high_watermark
        or data.log_start_offset != wanted.start_offset
    )
