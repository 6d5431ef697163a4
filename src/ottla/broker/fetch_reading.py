"""What is read for a fetch request, from all its partitions within its limits, and the answer."""

from __future__ import annotations

from typing import Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.context import Context
from ottla.broker.leader_hints import MOVED, leader_of, nodes_of
from ottla.broker.partition_data import agrees, changed, is_known, read, refused
from ottla.broker.preferred_replica import is_rack_aware, preferred
from ottla.broker.rates import Rate
from ottla.broker.sessions import Key, Plan, Wanted
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import LOG_END, READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.slices import FileSlice
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.primitives import Writer

INT_MAX: Final = 2**31 - 1
FROM_FOLLOWERS_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
HINTS_FROM: Final = 16


class Fetch:
    """One fetch request: what is read for it, as often as it looks, and the answer."""

    __slots__ = (
        "_answers",
        "_ctx",
        "_limit",
        "_listener",
        "_looked",
        "_plain",
        "_readable",
        "_refused",
        "_request",
        "broker",
        "found",
        "isolation",
        "plan",
        "replica_epoch",
        "replica_id",
        "satisfied",
        "size",
        "size_max",
        "size_min",
        "tells_commits",
        "version",
    )

    def __init__(self, ctx: Context, request: FetchRequest, plan: Plan) -> None:
        self._ctx = ctx
        self.broker = ctx.broker
        self.version = ctx.version
        self.plan = plan
        self._listener = ctx.session.listener
        self.replica_id, self.replica_epoch = replica_of(request)
        follows = self.replica_id >= 0
        self._readable: set[str] | None = None  # with an authorizer: what is known to be allowed
        if ctx.rights is not None:  # a consumer's rights do not make it a follower
            self._readable = set() if follows else ctx.rights.readable
        self.isolation = READ_UNCOMMITTED
        if follows:
            self.isolation = LOG_END
        elif request.isolation_level == READ_COMMITTED:
            self.isolation = READ_COMMITTED
        by_rack = is_rack_aware(ctx.broker)
        self.tells_commits = follows and by_rack
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
        self.found: list[Partition] = []  # of the answers, unless one of them is an error
        self.size = 0  # of what is there, as far as it counts for the least that is wanted
        self._looked = False  # where followers fetch from counts once for each request

    # reading

    def collect(self) -> None:
        """Read every wanted partition once, within the byte limits."""
        size = 0
        satisfied = self._refused = False
        answers = self._answers = []
        found = self.found = []
        isolation = self.isolation
        for key, wanted in self.plan.wanted.items():
            try:
                partition = self._find(wanted)
                found.append(partition)
                room = self.size_max - size
                if self._plain:
                    data = read(partition, wanted, room, isolation, size == 0)
                else:
                    data = self._read_replicated(partition, wanted, room, size == 0)
            except KafkaError as error:
                data = refused(wanted, error, self.version)
                self._refused = satisfied = True
            if data.records:
                size += len(data.records)
            elif data.diverging_epoch is not None or (
                not self._plain and self._is_news(wanted, data)
            ):
                satisfied = True
            answers.append((key, wanted, data))
        self._looked = True
        self.size = size
        if not satisfied and 0 < size < self.size_min:
            self.size = self._available()
        self.satisfied = satisfied or self.size >= self.size_min

    def _read_replicated(
        self, partition: Partition, wanted: Wanted, room: int, first: bool
    ) -> PartitionData:
        """For a follower, and for a consumer that may be better served by one."""
        broker = self.broker
        if self.replica_id < 0:
            offset = wanted.fetch_offset
            nearer = preferred(broker, partition, offset, self._request.rack_id)
            if nearer >= 0 and partition.leads:
                data = read(partition, wanted, -1, self.isolation, False)
                data.preferred_read_replica = nearer
                return data
            return read(partition, wanted, room, self.isolation, first)
        if not self._looked:
            wanted.partition = partition if self._note(partition, wanted) else None
        quota = broker.replication.leader_quota
        if self.replica_id not in partition.isr and quota.holds_back(
            partition.topic, partition.index, broker.clock.now_ms()
        ):
            return read(partition, wanted, -1, LOG_END, False)
        return read(partition, wanted, room, LOG_END, first)

    def _is_news(self, wanted: Wanted, data: PartitionData) -> bool:
        """What is told without records, and not only when more have come.

        A follower hears at once of what was deleted, as somebody may wait until it has done so; and
        of the high watermark, where consumers read from it.
        """
        if self.replica_id < 0:
            return data.preferred_read_replica >= 0
        return (0 <= wanted.start_offset < data.log_start_offset) or (
            self.tells_commits and 0 <= wanted.high_watermark < data.high_watermark
        )

    def _available(self) -> int:
        """The bytes there would be, were they not cut: at a batch's border, or by a segment.

        Waiting would bring nothing more in both cases, as they are there already.
        """
        size = 0
        isolation = self.isolation
        for (_, wanted, data), partition in zip(self._answers, self.found, strict=True):
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
            if not name and (self._readable is None or self.replica_id < 0 or self._may_read("")):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._readable is not None and name not in self._readable and not self._may_read(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.partitions.find(name, wanted.index)
        partition.check_epoch(wanted.current_leader_epoch)
        if not partition.leads and (self.replica_id >= 0 or self.version < FROM_FOLLOWERS_FROM):
            raise partition.not_leader()
        return partition

    def _may_read(self, topic: str) -> bool:
        """Each time: a session outlives the right to read one of its topics."""
        if self.replica_id >= 0:
            return self._ctx.may(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
        ctx = self._ctx
        allowed = ctx.may(AclOperation.READ, AclResource.TOPIC, topic)
        if allowed and ctx.rights is not None and not ctx.logs_allowed:
            ctx.rights.readable.add(topic)
        return allowed

    def _note(self, partition: Partition, wanted: Wanted) -> bool:
        """A follower has all before the offset from which it fetches, if its log is like ours."""
        if not agrees(partition, wanted):
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
            known = wanted.told or self.replica_id < 0
            if self.plan.incremental and known and not changed(wanted, data):
                continue
            wanted.told = True
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
        self.rest()
        return response

    def rest(self) -> None:
        """What a follower in sync has everything of, and was told so, is not looked at any more.

        It follows thousands, of which a few have moved since its last fetch.
        """
        session = self.plan.session
        if session is None or self.replica_id < 0:
            return
        resting = set()
        for key, wanted, _ in self._answers:
            partition = wanted.partition
            if partition is not None and is_known(partition, wanted, self.replica_id):
                session.rest(key, partition, tells_commits=self.tells_commits)
                resting.add(partition)
        self.found = [each for each in self.found if each not in resting]

    def let_go(self) -> None:
        """What was read and is not sent: it would keep files open."""
        self._answers = []

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


def replica_of(request: FetchRequest) -> tuple[int, int]:
    """Followers name themselves: before v15 in one place, then in another, with their epoch
    (KIP-903). Consumers are -1."""
    state = request.replica_state
    if state is not None and state.replica_id >= 0:
        return state.replica_id, state.replica_epoch
    return request.replica_id, -1
