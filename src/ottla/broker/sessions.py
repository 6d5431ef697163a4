"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes.

A session's epoch counts its requests: 0 asks for a new session, -1 for none (and ends the one that
it names), n > 0 continues. A request with another epoch than the one expected was lost or repeated
on the way and is refused, so that both sides always hold the same list.

A follower's session looks only at partitions that may have news. One of which it has everything,
and was told so, rests: it is not looked at again before it says that something has changed. So a
fetch costs by what has changed, not by how much is followed.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.replica.waiting import Wake
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

NEW_SESSION: Final = 0
NO_SESSION: Final = -1
EPOCH_MAX: Final = 2**31 - 1
EVICTABLE_AFTER_MS: Final = 120_000
FOLLOWERS_MAX: Final = 1000  # brokers of a cluster; who calls himself one is believed

# Partitions are told apart as the client names them: by topic id from v13 on, by name before.
Key = tuple[bytes | str, int]


class Wanted:
    """One partition that a client reads, and what it was last told of it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "partition",
        "replica_start_offset",
        "size_max",
        "start_offset",
        "told",
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
        self.told = False  # whether anything since: what was told before may not have counted
        self.fetch_offset = partition.fetch_offset
        self.size_max = partition.partition_max_bytes
        self.current_leader_epoch = partition.current_leader_epoch
        self.last_fetched_epoch = partition.last_fetched_epoch
        self.partition: Partition | None = None  # as a follower who has a session found it
        self.replica_start_offset = partition.log_start_offset


class FetchSession:
    """The partitions that one client reads, and those that may have news, in the order in which
    they are served. For a consumer all may."""

    __slots__ = ("by_id", "epoch", "id", "news", "resting", "used_ms", "wake", "wanted")

    def __init__(
        self, session_id: int, wanted: dict[Key, Wanted], *, by_id: bool, follower: bool = False
    ) -> None:
        self.id = session_id
        self.epoch = 1  # what the next request must say
        self.wanted = wanted
        self.news = dict(wanted) if follower else wanted
        self.resting: dict[Key, Resting] = {}
        self.wake: Wake | None = None  # of the fetch that waits for news
        self.by_id = by_id
        self.used_ms = 0

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def serve_last(self, keys: Iterable[Key]) -> None:
        """Those who got records now come last next time, so that no partition starves."""
        for key in keys:
            found = self.news.pop(key, None)
            if found is not None:
                self.news[key] = found

    def rest(self, key: Key, partition: Partition, *, tells_commits: bool) -> None:
        """Nothing is new of this partition until it says so."""
        if self.news.pop(key, None) is not None:
            self.resting[key] = Resting(self, key, partition, tells_commits=tells_commits)

    def rouse(self, key: Key) -> None:
        """It is to be looked at again."""
        resting = self.resting.pop(key, None)
        if resting is not None:
            resting.end()
            self.news[key] = self.wanted[key]

    def want(self, key: Key, topic: FetchTopic, partition: FetchPartition) -> None:
        known = self.wanted.get(key)
        if known is None:
            self.wanted[key] = self.news[key] = Wanted(topic, partition)
        else:
            known.update(partition)
            self.rouse(key)

    def forget(self, key: Key) -> None:
        self.rouse(key)
        self.wanted.pop(key, None)
        self.news.pop(key, None)

    def end(self) -> None:
        for resting in self.resting.values():
            resting.end()
        self.resting.clear()


class Resting:
    """A partition that a follower has the whole of; what changes that rouses it."""

    __slots__ = ("_key", "_partition", "_session", "_tells_commits")

    def __init__(
        self, session: FetchSession, key: Key, partition: Partition, *, tells_commits: bool
    ) -> None:
        self._session = session
        self._key = key
        self._partition = partition
        self._tells_commits = tells_commits
        partition.tail.add(self._written)
        partition.waiting.add(self._committed)

    def end(self) -> None:
        self._partition.tail.discard(self._written)
        self._partition.waiting.discard(self._committed)

    def _written(self, size: int) -> None:
        self._session.rouse(self._key)
        wake = self._session.wake
        if wake is not None:
            wake(size)

    def _committed(self, size: int) -> None:
        """The follower is told with the next records, unless consumers read from it."""
        if self._tells_commits:
            self._written(size)
        else:
            self._session.rouse(self._key)


class Plan:
    """What a fetch request asks for, after its session was looked up."""

    __slots__ = ("incremental", "session", "wanted")

    def __init__(
        self, wanted: dict[Key, Wanted], session: FetchSession | None, *, incremental: bool
    ) -> None:
        self.wanted = wanted
        self.session = session
        self.incremental = incremental


class FetchSessions:
    """The cache of sessions, `slots` at most; one that was idle for long makes room."""

    def __init__(self, slots: int, *, seed: int | None = None) -> None:
        self._slots = slots
        self._random = random.Random(seed)
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._of_followers: dict[int, int] = {}  # the one session of each

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest, version: int, now_ms: int) -> Plan:
        """The partitions of this request. Raises KafkaError for a session that is not so."""
        by_id = version >= 13
        epoch = request.session_epoch
        if version < 7 or epoch == NO_SESSION:
            self.drop(request.session_id)
            return Plan(_full(request, by_id), None, incremental=False)
        if epoch == NEW_SESSION:
            self.drop(request.session_id)
            wanted = _full(request, by_id)
            follower = _follower(request)
            session = self._create(wanted, by_id, now_ms, follower)
            return Plan(wanted, session, incremental=False)
        session = self._continue(request, by_id, now_ms)
        _apply(session, request)
        if not session.wanted:
            self.drop(session.id)
            return Plan(session.wanted, None, incremental=False)
        return Plan(session.news, session, incremental=True)

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
        self, wanted: dict[Key, Wanted], by_id: bool, now_ms: int, follower: int
    ) -> FetchSession | None:
        """A follower has always room for one; its last one is that of a line which has ended."""
        if follower >= 0:
            self.drop(self._of_followers.pop(follower, 0))
        privileged = follower >= 0 and len(self._of_followers) < FOLLOWERS_MAX
        if not wanted or not (privileged or self._make_room(now_ms)):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randint(1, EPOCH_MAX)
        session = FetchSession(session_id, wanted, by_id=by_id, follower=follower >= 0)
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
    """Which broker fetches, or -1: a consumer. Before v15 it is said elsewhere (KIP-903)."""
    state = request.replica_state
    if state is not None and state.replica_id >= 0:
        return state.replica_id
    return request.replica_id


def _full(request: FetchRequest, by_id: bool) -> dict[Key, Wanted]:
    wanted: dict[Key, Wanted] = {}
    for topic in request.topics:
        name: bytes | str = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            wanted[name, partition.partition] = Wanted(topic, partition)
    return wanted


def _apply(session: FetchSession, request: FetchRequest) -> None:
    """Add, change and forget partitions as an incremental request says."""
    for topic in request.topics:
        name: bytes | str = topic.topic_id if session.by_id else topic.topic
        for partition in topic.partitions:
            session.want((name, partition.partition), topic, partition)
    for forgotten in request.forgotten_topics_data:
        name = forgotten.topic_id if session.by_id else forgotten.topic
        for index in forgotten.partitions:
            session.forget((name, index))
