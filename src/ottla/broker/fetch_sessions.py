"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes.

A session's epoch counts its requests: 0 asks for a new session, -1 for none (and ends the one that
it names), n > 0 continues. A request with an unexpected epoch was lost or repeated on the way. It
is refused, so that both sides always hold the same list.

A fetch in a follower's session reads only the partitions that may have news. A partition of which
the follower has everything, and knows it, is set aside as caught up until it reports a change. So
the cost of a fetch depends on what has changed, not on how many partitions are followed.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.replica.watchers import Wake
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

NEW_SESSION: Final = 0
NO_SESSION: Final = -1
EPOCH_MAX: Final = 2**31 - 1
EVICTABLE_AFTER_MS: Final = 120_000
FOLLOWERS_MAX: Final = 1000  # followers with a slot of their own; any client may claim to be one

# Partitions are identified as the client names them: by topic id from v13 on, by name before.
FetchKey = tuple[bytes | str, int]


class CachedPartition:
    """One partition that a client reads, and the offsets that the last response gave for it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "partition",
        "replica_start_offset",
        "reported",
        "size_max",
        "start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: FetchTopic, partition: FetchPartition) -> None:
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.index = partition.partition
        self.high_watermark = -1
        self.start_offset = -1
        self.update(partition)

    def update(self, partition: FetchPartition) -> None:
        # False until the next response names it, because the client may have missed earlier ones.
        self.reported = False
        self.fetch_offset = partition.fetch_offset
        self.size_max = partition.partition_max_bytes
        self.current_leader_epoch = partition.current_leader_epoch
        self.last_fetched_epoch = partition.last_fetched_epoch
        self.partition: Partition | None = None  # set for a follower with a session
        self.replica_start_offset = partition.log_start_offset


class FetchSession:
    """The partitions that one client reads. `active` has those that the next fetch reads, in the
    order in which they are served; for a consumer these are all."""

    __slots__ = ("active", "by_id", "caught_up", "epoch", "id", "partitions", "used_ms", "wake")

    def __init__(
        self,
        session_id: int,
        partitions: dict[FetchKey, CachedPartition],
        *,
        by_id: bool,
        follower: bool = False,
    ) -> None:
        self.id = session_id
        self.epoch = 1  # that the next request must have
        self.partitions = partitions
        self.active = dict(partitions) if follower else partitions
        self.caught_up: dict[FetchKey, CaughtUpPartition] = {}
        self.wake: Wake | None = None  # of the fetch that waits for news
        self.by_id = by_id
        self.used_ms = 0

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def serve_last(self, keys: Iterable[FetchKey]) -> None:
        """Move partitions that returned records to the end, so that no partition starves."""
        for key in keys:
            cached = self.active.pop(key, None)
            if cached is not None:
                self.active[key] = cached

    def mark_caught_up(
        self, key: FetchKey, partition: Partition, *, reports_high_watermark: bool
    ) -> None:
        """The follower has all of this partition: skip it until it reports a change."""
        if self.active.pop(key, None) is not None:
            self.caught_up[key] = CaughtUpPartition(
                self, key, partition, reports_high_watermark=reports_high_watermark
            )

    def mark_changed(self, key: FetchKey) -> None:
        """The partition has changed: the next fetch reads it again."""
        caught_up = self.caught_up.pop(key, None)
        if caught_up is not None:
            caught_up.end()
            self.active[key] = self.partitions[key]

    def add_or_update(self, key: FetchKey, topic: FetchTopic, partition: FetchPartition) -> None:
        cached = self.partitions.get(key)
        if cached is None:
            self.partitions[key] = self.active[key] = CachedPartition(topic, partition)
        else:
            cached.update(partition)
            self.mark_changed(key)

    def remove(self, key: FetchKey) -> None:
        self.mark_changed(key)
        self.partitions.pop(key, None)
        self.active.pop(key, None)

    def end(self) -> None:
        for caught_up in self.caught_up.values():
            caught_up.end()
        self.caught_up.clear()


class CaughtUpPartition:
    """A partition of which a follower has everything; any change puts it back into the fetch."""

    __slots__ = ("_key", "_partition", "_reports_high_watermark", "_session")

    def __init__(
        self,
        session: FetchSession,
        key: FetchKey,
        partition: Partition,
        *,
        reports_high_watermark: bool,
    ) -> None:
        self._session = session
        self._key = key
        self._partition = partition
        self._reports_high_watermark = reports_high_watermark
        partition.tail.add(self._written)
        partition.waiting.add(self._committed)

    def end(self) -> None:
        self._partition.tail.discard(self._written)
        self._partition.waiting.discard(self._committed)

    def _written(self, size: int) -> None:
        self._session.mark_changed(self._key)
        wake = self._session.wake
        if wake is not None:
            wake(size)

    def _committed(self, size: int) -> None:
        """A follower gets a new high watermark with the next records, or at once if consumers read
        from followers, because they wait for it."""
        if self._reports_high_watermark:
            self._written(size)
        else:
            self._session.mark_changed(self._key)


class FetchContext:
    """The partitions that a Fetch request reads, and its session if it has one."""

    __slots__ = ("incremental", "partitions", "session")

    def __init__(
        self,
        partitions: dict[FetchKey, CachedPartition],
        session: FetchSession | None,
        *,
        incremental: bool,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.incremental = incremental


class FetchSessions:
    """The cache of sessions, `slots` at most. The oldest is evicted if it was idle for long."""

    def __init__(self, slots: int, *, seed: int | None = None) -> None:
        self._slots = slots
        self._random = random.Random(seed)
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._of_followers: dict[int, int] = {}  # the one session of each

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest, version: int, now_ms: int) -> FetchContext:
        """The partitions of this request; KafkaError if its session or its epoch is wrong."""
        by_id = version >= 13
        epoch = request.session_epoch
        if version < 7 or epoch == NO_SESSION:
            self.drop(request.session_id)
            return FetchContext(_full(request, by_id), None, incremental=False)
        if epoch == NEW_SESSION:
            self.drop(request.session_id)
            partitions = _full(request, by_id)
            follower = _follower(request)
            session = self._create(partitions, by_id, now_ms, follower)
            return FetchContext(partitions, session, incremental=False)
        session = self._continue(request, by_id, now_ms)
        _apply(session, request)
        if not session.partitions:
            self.drop(session.id)
            return FetchContext(session.partitions, None, incremental=False)
        return FetchContext(session.active, session, incremental=True)

    def drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def _continue(self, request: FetchRequest, by_id: bool, now_ms: int) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.advance()
        session.used_ms = now_ms
        self._sessions.move_to_end(session.id)
        return session

    def _create(
        self, partitions: dict[FetchKey, CachedPartition], by_id: bool, now_ms: int, follower: int
    ) -> FetchSession | None:
        """A follower always gets a session. Its previous one belongs to a closed connection."""
        if follower >= 0:
            self.drop(self._of_followers.pop(follower, 0))
        privileged = follower >= 0 and len(self._of_followers) < FOLLOWERS_MAX
        if not partitions or not (privileged or self._make_room(now_ms)):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randint(1, EPOCH_MAX)
        session = FetchSession(session_id, partitions, by_id=by_id, follower=follower >= 0)
        session.used_ms = now_ms
        self._sessions[session_id] = session
        if follower >= 0:
            self._of_followers[follower] = session_id
        return session

    def _make_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms < EVICTABLE_AFTER_MS:
            return False
        self.drop(oldest.id)
        return True


def _follower(request: FetchRequest) -> int:
    """The id of the broker that fetches, or -1 for a consumer; in another field before v15
    (KIP-903)."""
    state = request.replica_state
    if state is not None and state.replica_id >= 0:
        return state.replica_id
    return request.replica_id


def _full(request: FetchRequest, by_id: bool) -> dict[FetchKey, CachedPartition]:
    partitions: dict[FetchKey, CachedPartition] = {}
    for topic in request.topics:
        name: bytes | str = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            partitions[name, partition.partition] = CachedPartition(topic, partition)
    return partitions


def _apply(session: FetchSession, request: FetchRequest) -> None:
    """Add, change and remove partitions as an incremental request says."""
    for topic in request.topics:
        name: bytes | str = topic.topic_id if session.by_id else topic.topic
        for partition in topic.partitions:
            session.add_or_update((name, partition.partition), topic, partition)
    for forgotten in request.forgotten_topics_data:
        name = forgotten.topic_id if session.by_id else forgotten.topic
        for index in forgotten.partitions:
            session.remove((name, index))
