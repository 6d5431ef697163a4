"""A follower's side of replication: what to fetch next, what to do with a response. No I/O.

One `LeaderFetcher` holds all partitions that this broker follows and one other broker leads. The
rules:

- A fetch starts at the end of our log and names the epoch of our last record. A leader with another
  history answers with the epoch where the two diverge (KIP-595). Only then is anything truncated,
  and only up to there, never by the high watermark (KIP-101, KIP-279).
- A response counts only if our log and the leader epoch are still what the request said, and only
  for partitions that no later request has named: a second one may be under way by then.
- Our offset is out of range if the leader has deleted what comes next, or has lost what we have (an
  unclean election). Then we ask for the start and end of its log, and go on at one of them.
- A partition that fails pauses for a while, longer each time; the others go on.
- A request names only the partitions that have changed (fetch sessions, KIP-227).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.slices import FileSlice
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

BACKOFF_MS_MIN: Final = 20
EPOCH_MAX: Final = 2**31 - 1

SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

PARTITIONS_MAX: Final = 5_000  # partitions of one Fetch; brokers refuse 10,000 (broker/portions.py)
THROTTLED_MS: Final = 100  # how long a partition over its quota pauses before the next check

Key = tuple[bytes, int]  # topic id, index

# Records how many bytes were fetched of a partition; True if it has to pause.
Throttle = Callable[[Partition, int, int], bool]


def unthrottled(partition: Partition, size: int, now_ms: int) -> bool:
    return False


log = logging.getLogger("ottla.replica")


class FetchLimits(NamedTuple):
    """replica.fetch.*: bytes of a partition, of a response, and how long a leader may wait; and how
    many partitions one Fetch names."""

    partition_bytes_max: int = 1024 * 1024
    response_bytes_max: int = 10 * 1024 * 1024
    bytes_min: int = 1
    wait_ms_max: int = 500
    backoff_ms_max: int = 1000
    partitions_max: int = PARTITIONS_MAX


class RequestedPosition(NamedTuple):
    """What a request has named for one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    start_offset: int


class PartitionFetchState:
    """One partition that this broker follows."""

    __slots__ = ("backoff_ms", "named_in", "partition", "requested", "resume_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.requested: RequestedPosition | None = None  # None: it is not in the fetch session
        self.named_in = 0  # the number of the request that named it
        self.backoff_ms = 0
        self.resume_ms = 0

    def position(self) -> RequestedPosition:
        partition = self.partition
        log = partition.log
        end = log.end_offset
        last_epoch = log.epoch_at(end - 1) if end > log.start_offset else -1
        return RequestedPosition(partition.leader_epoch, end, last_epoch, log.start_offset)

    def is_current(self) -> bool:
        """True if our log and the leader epoch are still what the request said."""
        requested, partition = self.requested, self.partition
        return (
            requested is not None
            and not partition.leads
            and requested.leader_epoch == partition.leader_epoch
            and requested.offset == partition.log.end_offset
        )

    def fail(self, now_ms: int, backoff_ms_max: int) -> None:
        self.backoff_ms = min(max(BACKOFF_MS_MIN, 2 * self.backoff_ms), backoff_ms_max)
        self.resume_ms = now_ms + self.backoff_ms


class LeaderFetcher:
    """The partitions of one leader, and the fetch session with it."""

    def __init__(
        self,
        node_id: int,
        leader_id: int,
        limits: FetchLimits,
        throttle: Throttle = unthrottled,
    ) -> None:
        self.node_id = node_id
        self.leader_id = leader_id
        self.limits = limits
        self._throttle = throttle
        self.bytes_taken = 0  # of records, for metrics
        self._followed: dict[Key, PartitionFetchState] = {}
        # Those whose position may differ from what the session has.
        self._changed: dict[Key, PartitionFetchState] = {}
        self._forgotten: dict[Key, None] = {}  # to be removed from the session
        self._delayed: dict[Key, PartitionFetchState] = {}  # those that pause after a failure
        self.requests = 0  # how many were made
        self._session_id = 0
        self._epoch = 0
        self._denied = False  # the leader has no room for a session

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def overtakes(self) -> bool:
        """True if a second request is of use while the first one waits: there is something that the
        leader does not know yet, and a session to put it into. Without a session, the second
        request would begin another one, and only one of the two sets of partitions would be
        fetched from then on."""
        return bool(self._session_id and (self._changed or self._forgotten))

    def follow(self, partition: Partition) -> None:
        """Begin to follow a partition, or go on in another epoch, without a pause."""
        key = (partition.topic_id, partition.index)
        fetch_state = self._followed.get(key)
        if fetch_state is None or fetch_state.partition is not partition:
            self.drop(partition)
            fetch_state = self._followed[key] = PartitionFetchState(partition)
        fetch_state.backoff_ms = fetch_state.resume_ms = 0
        self._delayed.pop(key, None)
        self._changed[key] = fetch_state

    def drop(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        fetch_state = self._followed.pop(key, None)
        self._changed.pop(key, None)
        self._delayed.pop(key, None)
        if fetch_state is not None and fetch_state.requested is not None:
            self._forgotten[key] = None

    def reset(self) -> None:
        """A new connection or session: the leader knows none of our partitions."""
        self._session_id = self._epoch = 0
        self._forgotten.clear()
        for key, fetch_state in self._followed.items():
            fetch_state.requested = None
            if key not in self._delayed:
                self._changed[key] = fetch_state

    # Requests

    def next_request(self, broker_epoch: int, now_ms: int) -> FetchRequest | None:
        """None while there is nothing to fetch."""
        self.requests += 1
        self._end_delays(now_ms)
        topics = self._changed_topics()  # first: it keeps what is followed again in the session
        forgotten = _by_topic(self._forgotten)
        self._forgotten.clear()
        if len(self._delayed) == len(self._followed):
            self.reset()
            return None
        limits = self.limits
        # The first response brings the session. Before that a wait could not be interrupted.
        waits = self._session_id != 0 or self._denied
        return FetchRequest(
            replica_state=ReplicaState(self.node_id, broker_epoch),
            max_wait=limits.wait_ms_max if waits else 0,
            min_bytes=limits.bytes_min,
            max_bytes=limits.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._next_epoch(),
            topics=topics,
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in forgotten.items()
            ],
        )

    def delay_ms(self, now_ms: int) -> int | None:
        """How long until the first paused partition is to be fetched again."""
        resume_ms = min((paused.resume_ms for paused in self._delayed.values()), default=None)
        return None if resume_ms is None else min(resume_ms - now_ms, self._delay_ms_max)

    @property
    def _delay_ms_max(self) -> int:
        return max(self.limits.backoff_ms_max, BACKOFF_MS_MIN, THROTTLED_MS)

    def _end_delays(self, now_ms: int) -> None:
        for key, paused in list(self._delayed.items()):
            # A longer pause than the longest means that the clock was set back.
            if 0 < paused.resume_ms - now_ms <= self._delay_ms_max:
                continue
            if not paused.backoff_ms and self._throttle(paused.partition, 0, now_ms):
                paused.resume_ms = now_ms + THROTTLED_MS
            else:
                self._changed[key] = self._delayed.pop(key)

    def _changed_topics(self) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        count = 0
        for key, fetch_state in list(self._changed.items()):
            # A leader refuses larger requests. The next one in the session names the rest.
            if count == self.limits.partitions_max and not self._denied:
                break
            topic_id, index = key
            del self._changed[key]
            position = fetch_state.position()
            if position == fetch_state.requested:
                continue
            count += 1
            fetch_state.requested = position
            fetch_state.named_in = self.requests
            self._forgotten.pop((topic_id, index), None)
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_epoch,
                    log_start_offset=position.start_offset,
                    partition_max_bytes=self.limits.partition_bytes_max,
                )
            )
        return list(topics.values())

    def _next_epoch(self) -> int:
        epoch = self._epoch
        if self._session_id:
            self._epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return epoch

    # Responses

    def process_response(
        self, response: FetchResponse, now_ms: int, request: int | None = None
    ) -> list[Partition]:
        """Apply the response to the request of this number (or the last one).

        Returns the partitions whose offset is out of the leader's range.
        """
        request = self.requests if request is None else request
        if response.error_code:
            if response.error_code not in SESSION_ERRORS:
                raise KafkaError(ErrorCode(response.error_code), "the leader refused a fetch")
            self.reset()
            return []
        if not self._session_id and response.session_id:
            self._session_id, self._epoch = response.session_id, 1
        self._denied = not self._session_id
        out_of_range: list[Partition] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                fetch_state = self._followed.get(key)
                if (
                    fetch_state is None
                    or fetch_state.named_in > request
                    or not fetch_state.is_current()
                ):
                    continue
                if self._process_partition_data(key, fetch_state, data, now_ms):
                    out_of_range.append(fetch_state.partition)
        if not self._session_id:  # the leader's cache is full: name all partitions each time
            self.reset()
        return out_of_range

    def _process_partition_data(
        self, key: Key, fetch_state: PartitionFetchState, data: PartitionData, now_ms: int
    ) -> bool:
        """True if our offset is out of the leader's range."""
        code = data.error_code
        if code:
            if code != ErrorCode.OFFSET_OUT_OF_RANGE:
                level = logging.INFO if fetch_state.backoff_ms else logging.DEBUG
                name = fetch_state.partition.name
                # INFO only if it goes on: after an election the first answer is often an error.
                log.log(level, "%s: leader answered %s", name, ErrorCode(code).name)
            self._back_off(key, fetch_state, now_ms)
            return code == ErrorCode.OFFSET_OUT_OF_RANGE
        try:
            _apply(fetch_state.partition, data, now_ms)
        except KafkaError as error:
            log.error("%s: append from leader failed: %s", fetch_state.partition.name, error)
            if fetch_state.partition.log.dir.offline:
                self.drop(fetch_state.partition)
            else:
                self._back_off(key, fetch_state, now_ms)
            return False
        self.bytes_taken += len(data.records) if data.records else 0
        fetch_state.backoff_ms = 0
        if self._throttle(fetch_state.partition, len(data.records or b""), now_ms):
            self._delay_until(key, fetch_state, now_ms + THROTTLED_MS)
        else:
            self._changed[key] = fetch_state
        return False

    def _back_off(self, key: Key, fetch_state: PartitionFetchState, now_ms: int) -> None:
        fetch_state.fail(now_ms, self.limits.backoff_ms_max)
        self._delay_until(key, fetch_state, fetch_state.resume_ms)

    def _delay_until(self, key: Key, fetch_state: PartitionFetchState, resume_ms: int) -> None:
        fetch_state.resume_ms = resume_ms
        self._changed.pop(key, None)
        self._delayed[key] = fetch_state
        if fetch_state.requested is not None:
            fetch_state.requested = None
            self._forgotten[key] = None


def _apply(partition: Partition, data: PartitionData, now_ms: int) -> None:
    diverging = data.diverging_epoch
    if diverging is not None and diverging.end_offset >= 0:
        offset = diverges_at(partition, diverging)
        log.info(
            "Truncating partition %s to offset %d, log end offset is %d",
            partition.name,
            offset,
            partition.log.end_offset,
        )
        partition.truncate(offset, now_ms)
        return
    records = data.records
    if records:
        assert not isinstance(records, FileSlice)
        partition.follow(memoryview(records), now_ms)
    partition.follow_offsets(data.high_watermark, data.log_start_offset, now_ms)


def diverges_at(partition: Partition, leader: EpochEndOffset) -> int:
    """The offset from which on our records differ from the leader's.

    The leader's answer is its largest epoch that is not above our last one, and where that epoch
    ends. If we do not have that epoch, we truncate to the end of the one before it and fetch again,
    with that older epoch: so both sides go back until they find one that they share (KIP-279).
    """
    end = partition.log.end_offset
    epoch, offset = partition.log.epoch_end_offset(leader.epoch)
    if epoch < 0 or offset < 0:
        return min(leader.end_offset, end)
    if epoch != leader.epoch:
        return min(offset, end)
    return min(leader.end_offset, offset, end)


def restart_within(partition: Partition, leader_start: int, leader_end: int, now_ms: int) -> None:
    """Our end offset is not within the leader's log: go on where it is."""
    end = partition.log.end_offset
    if leader_end < end:
        log.warning(
            "Reset fetch offset for partition %s from %d to current leader's latest offset %d",
            partition.name,
            end,
            leader_end,
        )
        partition.truncate(leader_end, now_ms)
    elif end < leader_start:
        log.warning(
            "Reset fetch offset for partition %s from %d to current leader's start offset %d",
            partition.name,
            end,
            leader_start,
        )
        partition.restart(leader_start, now_ms)


def _by_topic(keys: Iterable[Key]) -> dict[bytes, list[int]]:
    indexes: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        indexes.setdefault(topic_id, []).append(index)
    return indexes
