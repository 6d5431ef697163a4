"""Reads the partitions of a Fetch request within its byte limits, and builds the response."""

from __future__ import annotations

from typing import Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.fetch_sessions import CachedPartition, FetchContext, FetchKey
from ottla.broker.leader_hints import MOVED, leader_endpoints, leader_hint
from ottla.broker.partition_data import (
    error_partition_data,
    has_changed,
    is_caught_up,
    is_consistent,
    read_partition_data,
)
from ottla.broker.preferred_replica import is_rack_aware, preferred_replica
from ottla.broker.rates import Rate
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import LOG_END, READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.slices import FileSlice
from ottla.wire.fields import Writer
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

INT_MAX: Final = 2**31 - 1
FROM_FOLLOWERS_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
HINTS_FROM: Final = 16


class FetchReader:
    """One Fetch request: `collect` reads, as often as it is called; `response` is the result."""

    __slots__ = (
        "_answers",
        "_ctx",
        "_limit",
        "_listener",
        "_noted",
        "_plain",
        "_readable",
        "_refused",
        "_request",
        "broker",
        "fetch_context",
        "isolation",
        "partitions",
        "replica_epoch",
        "replica_id",
        "reports_high_watermark",
        "satisfied",
        "size",
        "size_max",
        "size_min",
        "version",
    )

    def __init__(
        self, ctx: RequestContext, request: FetchRequest, fetch_context: FetchContext
    ) -> None:
        self._ctx = ctx
        self.broker = ctx.broker
        self.version = ctx.version
        self.fetch_context = fetch_context
        self._listener = ctx.session.listener
        self.replica_id, self.replica_epoch = replica_of(request)
        follows = self.replica_id >= 0
        self._readable: set[str] | None = None  # with an authorizer: what is known to be allowed
        if ctx.rights is not None:  # reading as a follower takes other rights than a consumer's
            self._readable = set() if follows else ctx.rights.readable
        self.isolation = READ_UNCOMMITTED
        if follows:
            self.isolation = LOG_END
        elif request.isolation_level == READ_COMMITTED:
            self.isolation = READ_COMMITTED
        by_rack = is_rack_aware(ctx.broker.config)
        self.reports_high_watermark = follows and by_rack
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
        self._answers: list[tuple[FetchKey, CachedPartition, PartitionData]] = []
        self.partitions: list[Partition] = []  # those that were read; complete unless one failed
        self.size = 0  # bytes that count towards min_bytes
        self._noted = False  # a follower's fetch offset counts once for each request

    # reading

    def collect(self) -> None:
        """Read every partition of the request once, within the byte limits."""
        size = 0
        satisfied = self._refused = False
        answers = self._answers = []
        partitions = self.partitions = []
        isolation = self.isolation
        for key, cached in self.fetch_context.partitions.items():
            try:
                partition = self._find(cached)
                partitions.append(partition)
                room = self.size_max - size
                if self._plain:
                    data = read_partition_data(partition, cached, room, isolation, size == 0)
                else:
                    data = self._read_replicated(partition, cached, room, size == 0)
            except KafkaError as error:
                data = error_partition_data(cached, error, self.version)
                self._refused = satisfied = True
            if data.records:
                size += len(data.records)
            elif data.diverging_epoch is not None or (
                not self._plain and self._must_respond(cached, data)
            ):
                satisfied = True
            answers.append((key, cached, data))
        self._noted = True
        self.size = size
        if not satisfied and 0 < size < self.size_min:
            self.size = self._available()
        self.satisfied = satisfied or self.size >= self.size_min

    def _read_replicated(
        self, partition: Partition, cached: CachedPartition, room: int, first: bool
    ) -> PartitionData:
        """For a follower, or for a consumer that may be sent to a closer replica."""
        broker = self.broker
        if self.replica_id < 0:
            offset = cached.fetch_offset
            nearer = preferred_replica(broker.image, partition, offset, self._request.rack_id)
            if nearer >= 0 and partition.leads:
                data = read_partition_data(partition, cached, -1, self.isolation, False)
                data.preferred_read_replica = nearer
                return data
            return read_partition_data(partition, cached, room, self.isolation, first)
        if not self._noted:
            cached.partition = partition if self._record_progress(partition, cached) else None
        quota = broker.replication.leader_quota
        if self.replica_id not in partition.isr and quota.holds_back(
            partition.topic, partition.index, broker.clock.now_ms()
        ):
            return read_partition_data(partition, cached, -1, LOG_END, False)
        return read_partition_data(partition, cached, room, LOG_END, first)

    def _must_respond(self, cached: CachedPartition, data: PartitionData) -> bool:
        """True if the response must not wait, although there are no records.

        A follower gets a new log start at once, because a DeleteRecords request may wait until the
        follower has deleted the same records. It gets a new high watermark at once if consumers
        read from followers.
        """
        if self.replica_id < 0:
            return data.preferred_read_replica >= 0
        return (0 <= cached.start_offset < data.log_start_offset) or (
            self.reports_high_watermark and 0 <= cached.high_watermark < data.high_watermark
        )

    def _available(self) -> int:
        """The bytes that could be read, including those that a limit or a segment's end cut off.

        If there are such bytes, waiting would not make this response any larger.
        """
        size = 0
        isolation = self.isolation
        for (_, cached, data), partition in zip(self._answers, self.partitions, strict=True):
            records = data.records
            if not isinstance(records, FileSlice):
                continue
            if partition.is_behind(cached.fetch_offset):
                return self.size_min
            room = min(cached.size_max, self.size_max - size)
            size += (
                max(room, records.size) if partition.is_cut(records, isolation) else records.size
            )
        return size

    def _find(self, cached: CachedPartition) -> Partition:
        broker = self.broker
        name = cached.topic
        if self.version >= TOPIC_IDS_FROM:
            name = broker.image.topic_name(cached.topic_id)
            if not name and (self._readable is None or self.replica_id < 0 or self._may_read("")):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._readable is not None and name not in self._readable and not self._may_read(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.partitions.find(name, cached.index)
        partition.check_epoch(cached.current_leader_epoch)
        if not partition.leads and (self.replica_id >= 0 or self.version < FROM_FOLLOWERS_FROM):
            raise partition.not_leader()
        return partition

    def _may_read(self, topic: str) -> bool:
        """Checked with each fetch, because a session may outlive the right to read a topic."""
        if self.replica_id >= 0:
            return self._ctx.may(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
        ctx = self._ctx
        allowed = ctx.may(AclOperation.READ, AclResource.TOPIC, topic)
        if allowed and ctx.rights is not None and not ctx.logs_allowed:
            ctx.rights.readable.add(topic)
        return allowed

    def _record_progress(self, partition: Partition, cached: CachedPartition) -> bool:
        """Record a follower's progress: it has everything before its fetch offset. This counts only
        if its log is consistent with ours; otherwise it truncates first."""
        if not is_consistent(partition, cached):
            return False
        broker = self.broker
        isr = partition.fetched(
            self.replica_id,
            cached.fetch_offset,
            start_offset=cached.replica_start_offset,
            broker_epoch=self.replica_epoch,
            now_ms=broker.clock.now_ms(),
        )
        if isr is not None:
            broker.replication.isr_writes.submit(partition, isr)
        return True

    def response(self) -> FetchResponse:
        session = self.fetch_context.session
        topics: list[FetchableTopicResponse] = []
        served: list[FetchKey] = []
        for key, cached, data in self._answers:
            known = cached.reported or self.replica_id < 0
            if self.fetch_context.incremental and known and not has_changed(cached, data):
                continue
            cached.reported = True
            cached.high_watermark = data.high_watermark
            cached.start_offset = data.log_start_offset
            if data.records:
                served.append(key)
                if self.replica_id >= 0:
                    self._charge_follower(cached, len(data.records))
            last = topics[-1] if topics else None
            if last is None or last.topic != cached.topic or last.topic_id != cached.topic_id:
                last = FetchableTopicResponse(topic=cached.topic, topic_id=cached.topic_id)
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
        self.skip_caught_up()
        return response

    def skip_caught_up(self) -> None:
        """Skip the partitions of which an in-sync follower has everything, until they change.

        A follower follows thousands, of which a few have changed since its last fetch.
        """
        session = self.fetch_context.session
        if session is None or self.replica_id < 0:
            return
        caught_up = set()
        for key, cached, _ in self._answers:
            partition = cached.partition
            if partition is not None and is_caught_up(partition, cached, self.replica_id):
                session.mark_caught_up(
                    key, partition, reports_high_watermark=self.reports_high_watermark
                )
                caught_up.add(partition)
        self.partitions = [partition for partition in self.partitions if partition not in caught_up]

    def release(self) -> None:
        """Drop what was read and is not sent: it would keep segment files open."""
        self._answers = []

    def _hint(self, response: FetchResponse) -> None:
        """KIP-951: name the leaders of partitions that this broker does not lead."""
        leaders = set()
        for topic in response.responses:
            name = self.broker.image.topic_name(topic.topic_id)
            for data in topic.partitions:
                hint = None
                if data.error_code in MOVED:
                    hint = leader_hint(self.broker.image, name, data.partition_index)
                if hint is not None:
                    data.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                    leaders.add(hint.leader_id)
        if leaders:
            nodes = leader_endpoints(self.broker.image, leaders, self._listener)
            response.node_endpoints = [NodeEndpoint(*node) for node in nodes]

    # quotas

    def _charge_follower(self, cached: CachedPartition, size: int) -> None:
        broker = self.broker
        name = cached.topic or broker.image.topic_name(cached.topic_id)
        quota = broker.replication.leader_quota
        quota.record(name, cached.index, size, broker.clock.now_ms())

    def _charge(self, limit: Rate, response: FetchResponse) -> FetchResponse | None:
        """An empty response with a throttle time (KIP-219), if the client is over its quota.

        A single batch may be larger than the quota allows in all its windows together. Kafka would
        never send it. Here it goes to a client that has read nothing lately, which then has to
        wait.
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
        session = self.fetch_context.session
        for _, cached, _ in self._answers:
            cached.high_watermark = (
                -1
            )  # the response names no partition: the next one names them all
        if session is None:
            return FetchResponse(throttle_time=throttle_ms)
        if self.fetch_context.incremental:
            return FetchResponse(throttle_time=throttle_ms, session_id=session.id)
        self.broker.fetch_sessions.drop(session.id)  # an empty full response does not open one
        return FetchResponse(throttle_time=throttle_ms)


def replica_of(request: FetchRequest) -> tuple[int, int]:
    """The id and epoch of the follower that fetches; -1 for consumers.

    From v15 on another field has the id, and with it the epoch (KIP-903).
    """
    state = request.replica_state
    if state is not None and state.replica_id >= 0:
        return state.replica_id, state.replica_epoch
    return request.replica_id, -1
