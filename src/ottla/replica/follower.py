"""A follower's side of replication: what to fetch next, what to do with an answer. No I/O.

One `Following` is our conversation with one leader, about all partitions that it leads and we
follow. The rules:

- We fetch from our end, and say the epoch of our last record: a leader that has another history
  answers with the epoch where the two part (KIP-595), and only then something is cut off, up to
  there and never by the high watermark (KIP-101, KIP-279).
- An answer counts only while we are where we were when we asked, in the same leader epoch; and only
  for partitions of which we have not said anything newer since, as a second request may be under
  way while the first is answered.
- Out of range is our offset when the leader has deleted what comes next, or has lost what we have
  (an unclean election): then the leader is asked for its two ends, and we begin at one of them.
- A partition that fails is left alone for a while, longer each time; the others go on.
- What did not change is not said again (sessions, KIP-227).
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

WISHES_MAX: Final = 5_000  # partitions of one Fetch; brokers refuse 10,000 (broker/portions.py)
THROTTLED_MS: Final = 100  # how long one waits that is over its quota, before it looks again

Key = tuple[bytes, int]  # topic id, index

# Told of a partition and how many bytes of it came; True if it has to wait.
Throttle = Callable[[Partition, int, int], bool]


def unthrottled(partition: Partition, size: int, now_ms: int) -> bool:
    return False


log = logging.getLogger("ottla.replica")


class Limits(NamedTuple):
    """replica.fetch.*: bytes of a partition, of a response, and how long a leader may wait."""

    partition_bytes_max: int = 1024 * 1024
    response_bytes_max: int = 10 * 1024 * 1024
    bytes_min: int = 1
    wait_ms_max: int = 500
    backoff_ms_max: int = 1000


class Asked(NamedTuple):
    """What the leader knows of our wish for one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    start_offset: int


class Followed:
    """One partition that we follow."""

    __slots__ = ("asked", "backoff_ms", "named_in", "partition", "resume_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.asked: Asked | None = None  # None: it is not in the session
        self.named_in = 0  # the number of the request that said so
        self.backoff_ms = 0
        self.resume_ms = 0

    def wish(self) -> Asked:
        partition = self.partition
        log = partition.log
        end = log.end_offset
        last_epoch = log.epoch_at(end - 1) if end > log.start_offset else -1
        return Asked(partition.leader_epoch, end, last_epoch, log.start_offset)

    def is_current(self) -> bool:
        """Whether nothing has moved since we asked: else an answer is an answer to nothing."""
        asked, partition = self.asked, self.partition
        return (
            asked is not None
            and not partition.leads
            and asked.leader_epoch == partition.leader_epoch
            and asked.offset == partition.log.end_offset
        )

    def fail(self, now_ms: int, backoff_ms_max: int) -> None:
        self.backoff_ms = min(max(BACKOFF_MS_MIN, 2 * self.backoff_ms), backoff_ms_max)
        self.resume_ms = now_ms + self.backoff_ms


class Following:
    """The partitions of one leader, and the fetch session with it."""

    def __init__(
        self,
        node_id: int,
        leader_id: int,
        limits: Limits,
        throttle: Throttle = unthrottled,
    ) -> None:
        self.node_id = node_id
        self.leader_id = leader_id
        self.limits = limits
        self._throttle = throttle
        self.bytes_taken = 0  # of records, for those who watch
        self._followed: dict[Key, Followed] = {}
        self._changed: dict[Key, Followed] = {}  # those whose wish may be another than was asked
        self._forgotten: dict[Key, None] = {}  # in the session, and no longer wanted there
        self._resting: dict[Key, Followed] = {}  # those that failed of late
        self.requests = 0  # so many were made
        self._session_id = 0
        self._epoch = 0
        self._denied = False  # the leader has no room for a session

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def overtakes(self) -> bool:
        """Whether there is something to say that the leader does not know, and a session in which
        to say it. Without one a second request would begin another session: of the two sets of
        partitions only one would be fetched from then on."""
        return bool(self._session_id and (self._changed or self._forgotten))

    def follow(self, partition: Partition) -> None:
        """From now on, or anew in another epoch: then what failed before is tried at once."""
        key = (partition.topic_id, partition.index)
        followed = self._followed.get(key)
        if followed is None or followed.partition is not partition:
            self.drop(partition)
            followed = self._followed[key] = Followed(partition)
        followed.backoff_ms = followed.resume_ms = 0
        self._resting.pop(key, None)
        self._changed[key] = followed

    def drop(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        followed = self._followed.pop(key, None)
        self._changed.pop(key, None)
        self._resting.pop(key, None)
        if followed is not None and followed.asked is not None:
            self._forgotten[key] = None

    def reset(self) -> None:
        """Another line, or another session: the leader knows nothing of our wishes."""
        self._session_id = self._epoch = 0
        self._forgotten.clear()
        for key, followed in self._followed.items():
            followed.asked = None
            if key not in self._resting:
                self._changed[key] = followed

    # Asking

    def next_request(self, broker_epoch: int, now_ms: int) -> FetchRequest | None:
        """None while there is nothing to fetch."""
        self.requests += 1
        self._wake(now_ms)
        topics = self._wishes()  # takes back what was to be forgotten and is wanted again
        forgotten = _by_topic(self._forgotten)
        self._forgotten.clear()
        if len(self._resting) == len(self._followed):
            self.reset()
            return None
        limits = self.limits
        # The first answer brings the session; only then a second request can overtake a wait.
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

    def rest_ms(self, now_ms: int) -> int | None:
        """How long until the first of those that rest is to be tried again."""
        resume_ms = min((each.resume_ms for each in self._resting.values()), default=None)
        return None if resume_ms is None else min(resume_ms - now_ms, self._rest_ms_max)

    @property
    def _rest_ms_max(self) -> int:
        return max(self.limits.backoff_ms_max, BACKOFF_MS_MIN, THROTTLED_MS)

    def _wake(self, now_ms: int) -> None:
        for key, each in list(self._resting.items()):
            # Longer than that nobody rests: then the clock was set back meanwhile.
            if 0 < each.resume_ms - now_ms <= self._rest_ms_max:
                continue
            if not each.backoff_ms and self._throttle(each.partition, 0, now_ms):
                each.resume_ms = now_ms + THROTTLED_MS
            else:
                self._changed[key] = self._resting.pop(key)

    def _wishes(self) -> list[FetchTopic]:
        found: dict[bytes, FetchTopic] = {}
        count = 0
        for key, followed in list(self._changed.items()):
            # The leader refuses larger requests. The next one of the session brings the rest.
            if count == WISHES_MAX and not self._denied:
                break
            topic_id, index = key
            del self._changed[key]
            wish = followed.wish()
            if wish == followed.asked:
                continue
            count += 1
            followed.asked = wish
            followed.named_in = self.requests
            self._forgotten.pop((topic_id, index), None)
            topic = found.get(topic_id)
            if topic is None:
                topic = found[topic_id] = FetchTopic(topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=wish.leader_epoch,
                    fetch_offset=wish.offset,
                    last_fetched_epoch=wish.last_epoch,
                    log_start_offset=wish.start_offset,
                    partition_max_bytes=self.limits.partition_bytes_max,
                )
            )
        return list(found.values())

    def _next_epoch(self) -> int:
        epoch = self._epoch
        if self._session_id:
            self._epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return epoch

    # Answers

    def take(
        self, response: FetchResponse, now_ms: int, request: int | None = None
    ) -> list[Partition]:
        """Do as the leader says, in answer to the request of this number (or the last one).

        Gives the partitions whose offset is none of the leader's.
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
                followed = self._followed.get(key)
                if followed is None or followed.named_in > request or not followed.is_current():
                    continue
                if self._take_one(key, followed, data, now_ms):
                    out_of_range.append(followed.partition)
        if not self._session_id:  # the leader has no room for one: all of it is said each time
            self.reset()
        return out_of_range

    def _take_one(self, key: Key, followed: Followed, data: PartitionData, now_ms: int) -> bool:
        """True if our offset is out of the leader's range."""
        code = data.error_code
        if code:
            if code != ErrorCode.OFFSET_OUT_OF_RANGE:
                level = logging.INFO if followed.backoff_ms else logging.DEBUG
                name = followed.partition.name
                log.log(level, "%s: the leader says %s", name, ErrorCode(code).name)
            self._rest(key, followed, now_ms)
            return code == ErrorCode.OFFSET_OUT_OF_RANGE
        try:
            _apply(followed.partition, data, now_ms)
        except KafkaError as error:
            log.error("%s: cannot follow: %s", followed.partition.name, error)
            if followed.partition.log.dir.offline:
                self.drop(followed.partition)
            else:
                self._rest(key, followed, now_ms)
            return False
        self.bytes_taken += len(data.records) if data.records else 0
        followed.backoff_ms = 0
        if self._throttle(followed.partition, len(data.records or b""), now_ms):
            self._put_to_rest(key, followed, now_ms + THROTTLED_MS)
        else:
            self._changed[key] = followed
        return False

    def _rest(self, key: Key, followed: Followed, now_ms: int) -> None:
        followed.fail(now_ms, self.limits.backoff_ms_max)
        self._put_to_rest(key, followed, followed.resume_ms)

    def _put_to_rest(self, key: Key, followed: Followed, resume_ms: int) -> None:
        followed.resume_ms = resume_ms
        self._changed.pop(key, None)
        self._resting[key] = followed
        if followed.asked is not None:
            followed.asked = None
            self._forgotten[key] = None


def _apply(partition: Partition, data: PartitionData, now_ms: int) -> None:
    diverging = data.diverging_epoch
    if diverging is not None and diverging.end_offset >= 0:
        offset = diverges_at(partition, diverging)
        log.info("%s: truncated from %d to %d", partition.name, partition.log.end_offset, offset)
        partition.truncate(offset, now_ms)
        return
    records = data.records
    if records:
        assert not isinstance(records, FileSlice)
        partition.follow(memoryview(records), now_ms)
    partition.follow_offsets(data.high_watermark, data.log_start_offset, now_ms)


def diverges_at(partition: Partition, leader: EpochEndOffset) -> int:
    """From where on our records are not the leader's.

    It has told where its largest epoch ends that is not above our last one. If we do not have that
    epoch, we go back to the end of the one before it, and ask again.
    """
    end = partition.log.end_offset
    epoch, offset = partition.log.epoch_end_offset(leader.epoch)
    if epoch < 0 or offset < 0:
        return min(leader.end_offset, end)
    if epoch != leader.epoch:
        return min(offset, end)
    return min(leader.end_offset, offset, end)


def restart_within(partition: Partition, leader_start: int, leader_end: int, now_ms: int) -> None:
    """Our end is none of the leader's offsets: begin where it is one."""
    end = partition.log.end_offset
    if leader_end < end:
        log.warning(
            "%s: the leader ends at %d, %d records of ours are not in its log",
            partition.name,
            leader_end,
            end - leader_end,
        )
        partition.truncate(leader_end, now_ms)
    elif end < leader_start:
        log.info("%s: the leader's log begins at %d; ours, too", partition.name, leader_start)
        partition.restart(leader_start, now_ms)


def _by_topic(keys: Iterable[Key]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        found.setdefault(topic_id, []).append(index)
    return found
