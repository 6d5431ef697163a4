"""ShareFetch (key 78), v1 to v2 (KIP-932).

Acquires available records for a member of a share group. The response has the batches, as slices of
the log's files, and the ranges of offsets that were acquired. Acknowledgements in the request are
stored first. With fewer than `min_bytes` available it waits, at most `max_wait`, for an append or
for records that other members release.

v2  renewal of locks (KIP-1222), strict record limit (KIP-1206)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any, Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.delayed_operation import DelayedOperation
from ottla.broker.leader_hints import MOVED, leader_endpoints, leader_hint
from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.acknowledgement import acknowledge
from ottla.broker.share.partition_read import SharePartitionRead
from ottla.broker.share.partitions import LocalSharePartition, Refusal
from ottla.broker.share.sessions import FINAL, NEW, ShareMember, ShareSession, TopicPartition
from ottla.coordinator.share.partition import AcquireLimits
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

# Reads in a row that yield no record to acquire (aborted, delayed) before other requests run.
READS_MAX: Final = 16
RECORD_LIMIT: Final = 1  # share_acquire_mode: never more than max_records


def handle(
    ctx: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    try:
        session = _session(ctx, request)
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message or None)
    fetch = DelayedShareFetch(ctx, request, session)
    stored: Promise[Any] = fetch.acknowledge()
    if request.share_session_epoch == FINAL:
        stored = all_of([stored, ctx.broker.shares.release(session, ctx.now_ms)])
    return fetch.fetch() if stored.is_resolved else _fetch_later(fetch, stored)


async def _fetch_later(fetch: DelayedShareFetch, stored: Promise[Any]) -> ShareFetchResponse:
    """Wait until the acknowledgements are stored: by another broker, or by the replicas."""
    waiting = stored.result()
    if isinstance(waiting, asyncio.Future):
        await waiting
    response = fetch.fetch()
    return response if isinstance(response, ShareFetchResponse) else await response


def _session(ctx: RequestContext, request: ShareFetchRequest) -> ShareSession:
    if not request.group_id or not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group id and member id must not be empty.")
    if request.is_renew_ack and (request.max_wait or request.min_bytes or request.max_records):
        message = "A request that renews acquisition locks fetches nothing."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    member = ShareMember(request.group_id, request.member_id)
    acknowledges = any(partition.acknowledgement_batches for _, partition in _requested(request))
    shares = ctx.broker.shares
    if request.share_session_epoch == NEW:
        if acknowledges:
            message = "A new session has nothing to acknowledge."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        count_max = ctx.broker.config.group_share_max_share_sessions
        session = shares.sessions.begin(member, ctx.session, count_max=count_max)
    else:
        session = shares.sessions.resume(member, request.share_session_epoch)
    if request.share_session_epoch != FINAL:
        session.change(
            ((topic_id, partition.partition_index) for topic_id, partition in _requested(request)),
            (
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ),
        )
    return session


def _requested(request: ShareFetchRequest) -> Iterable[tuple[bytes, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition


class DelayedShareFetch:
    """One request: acknowledge, read, and if nothing is available read again when woken."""

    __slots__ = (
        "_acquire_limits",
        "_answers",
        "_has_more",
        "_held_back",
        "_operation",
        "_request",
        "_watched",
        "broker",
        "ctx",
        "session",
    )

    def __init__(
        self, ctx: RequestContext, request: ShareFetchRequest, session: ShareSession
    ) -> None:
        self.ctx = ctx
        self.broker = ctx.broker
        self.session = session
        self._request = request
        self._answers: dict[TopicPartition, PartitionData] = {}
        self._watched: list[LocalSharePartition] = []
        self._has_more = False  # there is more to read than one look has read
        self._held_back = False  # some partitions are left to the next look
        self._operation: DelayedOperation | None = None  # while it waits
        self._acquire_limits = AcquireLimits(
            request.max_records,
            max(request.batch_size, 1),
            request.share_acquire_mode == RECORD_LIMIT,
        )

    # acknowledge

    def acknowledge(self) -> Promise[list[Refusal]]:
        """Apply the acknowledgements at once; resolves when they are stored."""
        answers = []
        for topic_id, requested in _requested(self._request):
            if requested.acknowledgement_batches:
                stored = acknowledge(
                    self.ctx,
                    self.session.member,
                    topic_id,
                    requested.partition_index,
                    requested.acknowledgement_batches,
                    renews=self._request.is_renew_ack,
                )
                partition = (topic_id, requested.partition_index)
                stored.then(partial(self._acknowledged, self._answer(partition)))
                answers.append(stored)
        return all_of(answers)

    def _acknowledged(self, answer: PartitionData, refused: Refusal) -> None:
        if refused is not None:
            answer.acknowledge_error_code = refused.code
            answer.acknowledge_error_message = refused.message or None

    # read

    def fetch(self) -> ShareFetchResponse | asyncio.Future[ShareFetchResponse]:
        request = self._request
        if request.share_session_epoch == FINAL or request.is_renew_ack:
            return self.response()
        if request.max_records <= 0 or request.max_bytes <= 0:
            return self.response()
        if self.collect(last=request.max_wait <= 0):
            return self.response()
        return self.wait(request.max_wait)

    def collect(self, *, last: bool) -> bool:
        """Read all partitions and, if they have enough, acquire the records for the member."""
        now_ms = self.broker.clock.now_ms()
        failed = self._has_more = False
        for _ in range(READS_MAX):
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

    def _read(self, now_ms: int) -> tuple[list[tuple[TopicPartition, SharePartitionRead]], bool]:
        """What each partition has, and whether one of them could not be read.

        Of the partitions whose states were just loaded, only the first that has records counts.
        Kafka loads the states one by one and answers as soon as it can, so there, too, the first
        fetch of a group brings one partition, and other members can get the others.
        """
        group_id = self.session.member.group_id
        isolation = self.broker.shares.settings(group_id).isolation
        size, failed, held_back, is_first = 0, False, False, True
        readings: list[tuple[TopicPartition, SharePartitionRead]] = []
        waited = []
        for partition in self.session.partitions:
            try:
                self._check_read(partition[0])
                shared = self.broker.shares.find(group_id, *partition, now_ms)
                waited.append(shared)
                if not shared.ready:
                    continue
                is_new, shared.is_new = shared.is_new, False
                if is_new and not is_first:
                    held_back = True
                    continue
                room = self._request.max_bytes - size
                reading = SharePartitionRead(shared, isolation, room, first=not size)
                is_first = is_first and not (is_new and reading.size)
            except KafkaError as error:
                failed = True
                self._answer(partition).error_code = error.code
                self._answer(partition).error_message = error.message or None
                continue
            readings.append((partition, reading))
            size += reading.size
        self._wait_for(waited)
        self._held_back = held_back
        return readings, failed

    def _check_read(self, topic_id: bytes) -> None:
        """Check this each time, because the right to read a topic may end before the session."""
        name = self.broker.image.topic_name(topic_id)
        if name and not self.ctx.may(AclOperation.READ, AclResource.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _acquire(
        self, readings: list[tuple[TopicPartition, SharePartitionRead]], now_ms: int
    ) -> bool:
        member_id = self.session.member.member_id
        delay = self.broker.shares.settings(self.session.member.group_id).delay
        left, served = self._acquire_limits.records_max, []
        for partition, reading in readings:
            acquire_limits = self._acquire_limits._replace(records_max=left)
            acquired, records = reading.acquire(member_id, acquire_limits, now_ms, delay)
            self.broker.shares.watch(reading.shared, now_ms)
            if records is None:
                continue
            answer = self._answer(partition)
            answer.records = records
            answer.acquired_records = [AcquiredRecords(*span) for span in acquired]
            left -= sum(span.last - span.first + 1 for span in acquired)
            served.append(partition)
        self.session.serve_last(served)
        return bool(served)

    def _answer(self, partition: TopicPartition) -> PartitionData:
        answer = self._answers.get(partition)
        if answer is None:
            answer = self._answers[partition] = PartitionData(partition_index=partition[1])
        return answer

    def response(self) -> ShareFetchResponse:
        if self._request.share_session_epoch == NEW:
            for partition in self.session.partitions:
                self._answer(partition)  # the first response names them all
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
        """KIP-951: add the current leaders of partitions that this broker does not lead."""
        image, leaders = self.broker.image, set()
        for (topic_id, index), answer in self._answers.items():
            if answer.error_code in MOVED or answer.acknowledge_error_code in MOVED:
                hint = leader_hint(image, image.topic_name(topic_id), index)
                if hint is not None:
                    answer.current_leader = LeaderIdAndEpoch(*hint)
                    leaders.add(hint.leader_id)
        if leaders:
            nodes = leader_endpoints(image, leaders, self.ctx.session.listener)
            response.node_endpoints = [NodeEndpoint(*node) for node in nodes]

    # wait

    def wait(self, max_wait_ms: int) -> asyncio.Future[ShareFetchResponse]:
        """The response's future. Cancelling it, as when the client disconnects, ends the wait."""
        self._operation = DelayedOperation(self._try_complete, max_wait_ms, on_end=self._unwatch)
        self._watch()
        if self._has_more:
            self._operation.look_soon()
        return self._operation.future

    def _wait_for(self, partitions: list[LocalSharePartition]) -> None:
        """Follow the share-partitions found by this look: some may have been loaded again."""
        if partitions == self._watched:
            return
        self._unwatch()
        self._watched = partitions
        if self._operation is not None:
            self._watch()

    def _watch(self) -> None:
        for shared in self._watched:
            shared.partition.waiting.add(self._wake)
            shared.waiting.add(self._wake)

    def _unwatch(self) -> None:
        for shared in self._watched:
            shared.partition.waiting.discard(self._wake)
            shared.waiting.discard(self._wake)

    def _wake(self, size: int) -> None:
        """Look once, after everything else in this turn of the loop."""
        if self._operation is not None:
            self._operation.look_soon()

    def _try_complete(self, last: bool) -> ShareFetchResponse | None:
        if self.session.is_over:
            return ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)
        if self.collect(last=last):
            return self.response()
        if self._has_more:
            self._wake(0)
        return None
