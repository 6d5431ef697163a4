"""ShareFetch (key 78), v1 to v2 (KIP-932).

Gives a member of a share group records that nobody else holds, and locks them for it; the batches
which hold them come as slices of the log's files, with the ranges that were acquired beside them.
Acknowledgements that come along are stored first. With fewer than `min_bytes` there to give it
waits, at most `max_wait`, for an append or for records that others give back.

v2  renewal of locks (KIP-1222), a strict limit of records (KIP-1206)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any, Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of
from ottla.broker.leader_hints import MOVED, leader_of, nodes_of
from ottla.broker.share_acknowledging import acknowledge
from ottla.broker.share_reading import Reading
from ottla.broker.share_sessions import FINAL, NEW, Member, ShareSession, TopicPartition
from ottla.broker.shares import Refusal, Shared
from ottla.coordinator.share.partition import Wanted
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_fetch import (
    AcquiredRecords,
    FetchPartition,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

# Past reads of which no record can be given out: aborted, or delayed. Others have their turn then.
LOOKS_MAX: Final = 16
RECORD_LIMIT: Final = 1  # share_acquire_mode: not one record more than max_records


def handle(
    ctx: Context, request: ShareFetchRequest
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    try:
        session = _session(ctx, request)
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message or None)
    fetch = ShareFetch(ctx, request, session)
    stored: Answer[Any] = fetch.acknowledge()
    if request.share_session_epoch == FINAL:
        stored = all_of([stored, ctx.broker.shares.release(session, ctx.now_ms)])
    return fetch.fetch() if stored.given else _fetch_later(fetch, stored)


async def _fetch_later(fetch: ShareFetch, stored: Answer[Any]) -> ShareFetchResponse:
    """What is acknowledged is stored by another broker, or waits for replicas."""
    waiting = stored.result()
    if isinstance(waiting, asyncio.Future):
        await waiting
    response = fetch.fetch()
    return response if isinstance(response, ShareFetchResponse) else await response


def _session(ctx: Context, request: ShareFetchRequest) -> ShareSession:
    if not request.group_id or not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a member and its group have names")
    if request.is_renew_ack and (request.max_wait or request.min_bytes or request.max_records):
        message = "A request that renews acquisition locks fetches nothing."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    member = Member(request.group_id, request.member_id)
    acknowledges = any(each.acknowledgement_batches for _, each in _asked(request))
    shares = ctx.broker.shares
    if request.share_session_epoch == NEW:
        if acknowledges:
            message = "A new session has nothing to acknowledge."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        most = ctx.broker.config.group_share_max_share_sessions
        session = shares.sessions.begin(member, ctx.session, count_max=most)
    else:
        session = shares.sessions.resume(member, request.share_session_epoch)
    if request.share_session_epoch != FINAL:
        session.change(
            ((topic_id, each.partition_index) for topic_id, each in _asked(request)),
            (
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ),
        )
    return session


def _asked(request: ShareFetchRequest) -> Iterable[tuple[bytes, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition


class ShareFetch:
    """One request on its way: acknowledge, read, and if there is nothing, read again when woken."""

    __slots__ = (
        "_answers",
        "_future",
        "_has_more",
        "_held_back",
        "_loop",
        "_parked_on",
        "_request",
        "_scheduled",
        "_timer",
        "_wanted",
        "broker",
        "ctx",
        "session",
    )

    def __init__(self, ctx: Context, request: ShareFetchRequest, session: ShareSession) -> None:
        self.ctx = ctx
        self.broker = ctx.broker
        self.session = session
        self._request = request
        self._answers: dict[TopicPartition, PartitionData] = {}
        self._parked_on: list[Shared] = []
        self._has_more = False  # what has not been looked at yet
        self._held_back = False  # partitions that the next look reads
        self._scheduled = False
        self._wanted = Wanted(
            request.max_records,
            max(request.batch_size, 1),
            request.share_acquire_mode == RECORD_LIMIT,
        )

    # acknowledging

    def acknowledge(self) -> Answer[list[Refusal]]:
        """Said at once, and stored when the answer comes."""
        answers = []
        for topic_id, asked in _asked(self._request):
            if asked.acknowledgement_batches:
                stored = acknowledge(
                    self.ctx,
                    self.session.member,
                    topic_id,
                    asked.partition_index,
                    asked.acknowledgement_batches,
                    renews=self._request.is_renew_ack,
                )
                place = (topic_id, asked.partition_index)
                stored.when(partial(self._acknowledged, self._answer(place)))
                answers.append(stored)
        return all_of(answers)

    def _acknowledged(self, answer: PartitionData, refused: Refusal) -> None:
        if refused is not None:
            answer.acknowledge_error_code = refused.code
            answer.acknowledge_error_message = refused.message or None

    # reading

    def fetch(self) -> ShareFetchResponse | asyncio.Future[ShareFetchResponse]:
        request = self._request
        if request.share_session_epoch == FINAL or request.is_renew_ack:
            return self.response()
        if request.max_records <= 0 or request.max_bytes <= 0:
            return self.response()
        if self.collect(last=request.max_wait <= 0):
            return self.response()
        return self.park(request.max_wait)

    def collect(self, *, last: bool) -> bool:
        """Read all partitions and, if that is enough, give their records to the member."""
        now_ms = self.broker.clock.now_ms()
        failed = self._has_more = False
        for _ in range(LOOKS_MAX):
            readings, failed = self._read(now_ms)
            size = sum(reading.size for _, reading in readings)
            if not (last or failed or size >= max(self._request.min_bytes, 1)):
                if self._held_back:
                    continue
                return False
            if self._acquire(readings, now_ms):
                return True
            self._has_more = any(reading.is_stale for _, reading in readings)
            if not self._has_more:
                break
        return last or failed

    def _read(self, now_ms: int) -> tuple[list[tuple[TopicPartition, Reading]], bool]:
        """What there is in each partition, and whether one of them could not be read.

        Of partitions whose states were read just now, only the first that has records counts. In
        Kafka, which reads the states one by one and answers as soon as it can, the first fetch of
        a group brings one partition, too, and other members can have the others.
        """
        group_id = self.session.member.group_id
        isolation = self.broker.shares.settings(group_id).isolation
        size, failed, held_back, is_first = 0, False, False, True
        readings: list[tuple[TopicPartition, Reading]] = []
        waited = []
        for each in self.session.partitions:
            try:
                self._check_read(each[0])
                shared = self.broker.shares.find(group_id, *each, now_ms)
                waited.append(shared)
                if not shared.ready:
                    continue
                is_new, shared.is_new = shared.is_new, False
                if is_new and not is_first:
                    held_back = True
                    continue
                room = self._request.max_bytes - size
                reading = Reading(shared, isolation, room, first=not size)
                is_first = is_first and not (is_new and reading.size)
            except KafkaError as error:
                failed = True
                self._answer(each).error_code = error.code
                self._answer(each).error_message = error.message or None
                continue
            readings.append((each, reading))
            size += reading.size
        self._wait_for(waited)
        self._held_back = held_back
        return readings, failed

    def _check_read(self, topic_id: bytes) -> None:
        """Each time: a session outlives the right to read one of its topics."""
        name = self.broker.image.topic_name(topic_id)
        if name and not self.ctx.may(AclOperation.READ, AclResource.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _acquire(self, readings: list[tuple[TopicPartition, Reading]], now_ms: int) -> bool:
        member_id = self.session.member.member_id
        delay = self.broker.shares.settings(self.session.member.group_id).delay
        left, served = self._wanted.records_max, []
        for each, reading in readings:
            wanted = self._wanted._replace(records_max=left)
            acquired, records = reading.acquire(member_id, wanted, now_ms, delay)
            self.broker.shares.watch(reading.shared, now_ms)
            if records is None:
                continue
            answer = self._answer(each)
            answer.records = records
            answer.acquired_records = [AcquiredRecords(*found) for found in acquired]
            left -= sum(found.last - found.first + 1 for found in acquired)
            served.append(each)
        self.session.serve_last(served)
        return bool(served)

    def _answer(self, each: TopicPartition) -> PartitionData:
        found = self._answers.get(each)
        if found is None:
            found = self._answers[each] = PartitionData(partition_index=each[1])
        return found

    def response(self) -> ShareFetchResponse:
        if self._request.share_session_epoch == NEW:
            for each in self.session.partitions:
                self._answer(each)  # the first response names them all
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for (topic_id, _), answer in self._answers.items():
            topic = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id))
            topic.partitions.append(answer)
        limits = self.broker.shares.settings(self.session.member.group_id).limits
        response = ShareFetchResponse(
            acquisition_lock_timeout=limits.lock_duration_ms, responses=list(topics.values())
        )
        self._hint(response)
        return response

    def _hint(self, response: ShareFetchResponse) -> None:
        """KIP-951: with the leaders of partitions that are not ours."""
        leaders = set()
        for (topic_id, index), answer in self._answers.items():
            if answer.error_code in MOVED or answer.acknowledge_error_code in MOVED:
                hint = leader_of(self.broker, self.broker.image.topic_name(topic_id), index)
                if hint is not None:
                    answer.current_leader = LeaderIdAndEpoch(*hint)
                    leaders.add(hint.leader_id)
        if leaders:
            nodes = nodes_of(self.broker, leaders, self.ctx.session.listener)
            response.node_endpoints = [NodeEndpoint(*node) for node in nodes]

    # waiting

    def park(self, max_wait_ms: int) -> asyncio.Future[ShareFetchResponse]:
        """A future that also goes away by itself when it is cancelled: the client has left."""
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[ShareFetchResponse] = self._loop.create_future()
        self._timer = self._loop.call_later(max_wait_ms / 1000, self._finish)
        self._future.add_done_callback(self._leave)
        for shared in self._parked_on:
            shared.log.waiting.add(self._wake)
            shared.waiting.add(self._wake)
        if self._has_more:
            self._wake(0)
        return self._future

    def _wait_for(self, wanted: list[Shared]) -> None:
        """A share-partition may have been read anew since the last look, or be another log's."""
        if wanted == self._parked_on:
            return
        parked = hasattr(self, "_future")
        if parked:
            self._unregister()
        self._parked_on = wanted
        if parked:
            for shared in wanted:
                shared.log.waiting.add(self._wake)
                shared.waiting.add(self._wake)

    def _leave(self, future: asyncio.Future[ShareFetchResponse]) -> None:
        self._timer.cancel()
        self._unregister()

    def _unregister(self) -> None:
        for shared in self._parked_on:
            shared.log.waiting.discard(self._wake)
            shared.waiting.discard(self._wake)

    def _wake(self, size: int) -> None:
        """Look once, after all that happens in this turn of the loop."""
        if not self._scheduled:
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
        if self.session.is_over:
            code = ErrorCode.SHARE_SESSION_NOT_FOUND
            self._future.set_result(ShareFetchResponse(error_code=code))
            return
        try:
            if self.collect(last=last):
                self._future.set_result(self.response())
            elif self._has_more:
                self._wake(0)
        except Exception as error:  # nobody else would ever answer
            self._future.set_exception(error)
