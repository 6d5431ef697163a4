"""Share-partitions as this broker leads them: loaded when somebody reads, stored when they change.

A share-partition is a state machine (see `ottla.coordinator.share.partition`). Here it meets the
log that it is about, the topic that keeps its state, the loop's timers, and fetches that wait.
What a member acknowledges is stored before it is answered: by the coordinator of the state, which
may be another broker, so answers may come later than the requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.context import Session
from ottla.broker.features import finalized
from ottla.broker.journal import Alarm, Answer, all_of
from ottla.broker.share_dead_letters import DeadLetterConfig, DeadLetters
from ottla.broker.share_delays import DelayConfig
from ottla.broker.share_ends import Ends
from ottla.broker.share_persister import Persister
from ottla.broker.share_sessions import Member, ShareSession, ShareSessions
from ottla.broker.share_states import Found, ShareStateLogs
from ottla.cluster.image import Image
from ottla.config import group_config
from ottla.config.durations import duration_ms
from ottla.config.tables.group_resource import BY_DURATION
from ottla.coordinator.share.group import ShareGroupConfig
from ottla.coordinator.share.partition import (
    Acknowledged,
    Change,
    DeadRecords,
    Limits,
    SharePartition,
)
from ottla.coordinator.share.persister import StateWrite
from ottla.coordinator.share.records import UNKNOWN, ShareState, StateKey
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.replica.waiting import Waiting

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

Refusal = KafkaError | None  # None: it is done

_FENCED: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_NOT_HERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class ShareSettings(NamedTuple):
    """What holds for one share group: its own configs over the broker's."""

    limits: Limits
    group: ShareGroupConfig
    offset_reset: str
    isolation: int
    renew_enabled: bool
    dead_letters: DeadLetterConfig
    delay: DelayConfig | None  # None: records are never delayed


class Shared:
    """A share-partition with the log that it is about, and who waits for its records.

    It is `ready` when its state has been read; until then there is no `partition` to ask.
    """

    __slots__ = (
        "delays",
        "error",
        "is_new",
        "key",
        "leader_epoch",
        "log",
        "partition",
        "ready",
        "waiting",
    )

    def __init__(self, key: StateKey, log: Partition) -> None:
        self.key = key
        self.log = log
        self.leader_epoch = log.leader_epoch
        self.ready = False
        self.is_new = True  # no fetch has looked at it since its state was read
        self.error: KafkaError | None = None  # why its state could not be read
        self.partition: SharePartition
        self.waiting = Waiting()
        self.delays: tuple[int, list[tuple[int, int]]] = (-1, [])  # of the batch at this offset

    @property
    def is_over(self) -> bool:
        """Whether this broker leads the log no longer, or in another epoch."""
        return not self.log.leads or self.log.leader_epoch != self.leader_epoch


class Shares:
    """All share-partitions of this broker, and the sessions of those who read them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shared: dict[StateKey, Shared] = {}
        self._settings: dict[str, ShareSettings] = {}
        self._names: dict[bytes, str] = {}
        self._stopped = False
        self._alarm = Alarm(broker.clock, self._expire)
        broker.clock.when_set(self._clock_set)
        self.states = ShareStateLogs(broker)
        self.persister = Persister(broker, self.states)
        self.ends = Ends(broker)
        self.dead_letters = DeadLetters(
            broker, lambda group_id: self.settings(group_id).dead_letters
        )
        self._under_way: dict[StateKey, set[int]] = {}  # offsets of dead letters not yet written
        self.sessions = ShareSessions()

    # -- start, stop, and the cluster's changes

    def start(self, now_ms: int) -> None:
        self.apply(self._broker.image, now_ms)

    def stop(self) -> None:
        self._stopped = True
        self._alarm.stop()
        self.dead_letters.stop()
        self.persister.stop()
        self.ends.stop()
        self.states.stop()

    def apply(self, image: Image, now_ms: int) -> None:
        self._settings.clear()
        self.states.apply(image, now_ms)
        gone = [topic_id for topic_id in self._names if topic_id not in image.names_by_id]
        self._names = dict(image.names_by_id)
        for topic_id in gone:
            self.states.delete_topic(topic_id, now_ms)
        for key, shared in list(self._shared.items()):
            if shared.is_over or key.topic_id not in image.names_by_id:
                self.forget(key)

    def settings(self, group_id: str) -> ShareSettings:
        found = self._settings.get(group_id)
        if found is None:
            found = self._settings[group_id] = self._read_settings(group_id)
        return found

    def _has_dead_letters(self) -> bool:
        return finalized(self._broker.image)["share.version"] >= DEAD_LETTERS_FROM

    def _read_settings(self, group_id: str) -> ShareSettings:
        config = self._broker.config
        values = group_config(config, self._broker.image.group_config(group_id))
        number = {name: value for name, value in values.items() if isinstance(value, int)}
        dead_letters = DeadLetterConfig(
            str(values["errors.deadletterqueue.topic.name"]),
            bool(values["errors.deadletterqueue.copy.record.enable"]),
        )
        delay = DelayConfig(number["ottla.share.delayed.delivery.max.ms"])
        return ShareSettings(
            Limits(
                lock_duration_ms=number["share.record.lock.duration.ms"],
                delivery_count_max=number["share.delivery.count.limit"],
                in_flight_max=number["share.partition.max.record.locks"],
                dead_letters=bool(dead_letters.topic) and self._has_dead_letters(),
                delayed_max=number["ottla.share.delayed.delivery.max.records"],
            ),
            ShareGroupConfig(
                session_timeout_ms=number["share.session.timeout.ms"],
                heartbeat_interval_ms=number["share.heartbeat.interval.ms"],
                max_size=config.group_share_max_size,
            ),
            str(values["share.auto.offset.reset"]),
            READ_COMMITTED
            if values["share.isolation.level"] == "read_committed"
            else READ_UNCOMMITTED,
            bool(values["share.renew.acknowledge.enable"]),
            dead_letters,
            delay if values["ottla.share.delayed.delivery.enable"] else None,
        )

    # -- share-partitions

    def find(self, group_id: str, topic_id: bytes, index: int, now_ms: int) -> Shared:
        """The share-partition, read from its state if need be; KafkaError says why not.

        Where the state is not read at once, whoever finds it is woken when it is.
        """
        name = self._broker.image.topic_name(topic_id)
        if not name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._broker.partitions.leading(name, index)
        key = StateKey(group_id, topic_id, index)
        shared = self._shared.get(key)
        if shared is None or shared.log is not partition or shared.is_over:
            shared = self._load(key, partition, now_ms)
        if shared.error is not None:
            self.forget(key)
            raise shared.error
        if shared.ready:
            shared.partition.limits = self.settings(group_id).limits
            shared.partition.move_log_start(partition.log.start_offset)
        return shared

    def forget(self, key: StateKey) -> None:
        """Its topic is gone, or its state was changed by somebody else: it will be read anew."""
        shared = self._shared.pop(key, None)
        if shared is not None:
            shared.waiting.wake_all()

    def forget_group(self, group_id: str) -> None:
        for key in [key for key in self._shared if key.group_id == group_id]:
            self.forget(key)

    def delayed_counts(self) -> dict[str, int]:
        """How many records of each group wait for their time."""
        counts: dict[str, int] = {}
        for key, shared in self._shared.items():
            count = shared.partition.delayed_count if shared.ready else 0
            if count:
                counts[key.group_id] = counts.get(key.group_id, 0) + count
        return counts

    def check(self, key: StateKey) -> None:
        """Whether a share-partition can be what another broker says it is; KafkaError if not."""
        topic = self._broker.image.topics.get(self._broker.image.topic_name(key.topic_id))
        if not key.group_id or key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} is no share-partition")
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def delete_states(
        self, group_id: str, topic_id: bytes, indexes: Iterable[int], now_ms: int
    ) -> Answer[Refusal]:
        """The group is done with these partitions, for good."""
        answers = []
        for index in indexes:
            key = StateKey(group_id, topic_id, index)
            self.forget(key)
            answers.append(self.persister.delete(key, now_ms))
        deleted = Answer[Refusal]()
        all_of(answers).when(lambda found: deleted.give(_first_refusal(found)))
        return deleted

    # -- reading a state

    def _load(self, key: StateKey, partition: Partition, now_ms: int) -> Shared:
        self.forget(key)
        shared = self._shared[key] = Shared(key, partition)
        read = self.persister.read(key, leader_epoch=shared.leader_epoch, now_ms=now_ms)
        read.when(lambda found: self._read(shared, found))
        return shared

    def _read(self, shared: Shared, found: Found) -> None:
        if isinstance(found, KafkaError):
            self._unreadable(shared, found)
            return
        if found.start_offset != UNKNOWN:
            self._loaded(shared, found)
            return
        # Stored at once: `latest` would be a later offset after a restart, and whatever was
        # delivered but not acknowledged by then would be skipped.
        now_ms = self._broker.clock.now_ms()
        start_offset = self._first_offset(shared.key.group_id, shared.log, now_ms)
        first = StateWrite(found.state_epoch, shared.leader_epoch, start_offset, 0, ())
        state = found._replace(start_offset=start_offset)
        written = self.persister.write(shared.key, first, now_ms)
        written.when(
            lambda told: (
                self._unreadable(shared, told)
                if isinstance(told, KafkaError)
                else self._loaded(shared, state)
            )
        )

    def _loaded(self, shared: Shared, state: ShareState) -> None:
        shared.partition = SharePartition(
            state.start_offset,
            batches=state.batches,
            state_epoch=state.state_epoch,
            leader_epoch=shared.leader_epoch,
            limits=self.settings(shared.key.group_id).limits,
        )
        shared.partition.move_log_start(shared.log.log.start_offset)
        shared.ready = True
        self._send_dead_letters(shared, shared.partition.unfinished())
        shared.waiting.wake_all()

    def _unreadable(self, shared: Shared, error: KafkaError) -> None:
        """The next who looks for it is told."""
        shared.error = KafkaError(_leader_code(error.code), error.message)
        shared.waiting.wake_all()

    def _first_offset(self, group_id: str, partition: Partition, now_ms: int) -> int:
        """Where a group starts that has read nothing: share.auto.offset.reset."""
        settings = self.settings(group_id)
        end = partition.high_watermark
        if settings.isolation == READ_COMMITTED:
            end = partition.last_stable_offset
        if settings.offset_reset == "earliest":
            return partition.log.start_offset
        if settings.offset_reset.startswith(BY_DURATION):
            ago_ms = duration_ms(settings.offset_reset.removeprefix(BY_DURATION))
            found = partition.log.offset_for_time(now_ms - ago_ms, end_offset=end)
            if found is not None:
                return found[0]
        return end

    # -- what members say

    def acknowledge(
        self, member: Member, topic_id: bytes, index: int, said: Iterable[Acknowledged], now_ms: int
    ) -> Answer[Refusal]:
        """All of it is stored when the answer comes, or nothing of it holds."""
        answer = Answer[Refusal]()
        try:
            shared = self.find(member.group_id, topic_id, index, now_ms)
            if not shared.ready:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "its state is being read")
            change = shared.partition.acknowledge(member.member_id, said, now_ms)
        except KafkaError as error:
            answer.give(error)
            return answer
        self._store(shared, change, now_ms).when(answer.give)
        self.watch(shared, now_ms)
        return answer

    def release(self, session: ShareSession, now_ms: int) -> Answer[list[Refusal]]:
        """The session is over; what its member holds is for others."""
        group_id, member_id = session.member
        self.sessions.end(session)
        shares = [each for key, each in self._shared.items() if key.group_id == group_id]
        released = all_of(
            [
                self._store_quietly(shared, shared.partition.release(member_id), now_ms)
                for shared in shares
                if shared.ready
            ]
        )
        if len(self._broker.image.brokers) > 1 and not self.sessions.has_group(group_id):
            # Its offsets may be set anew by now, at another broker.
            released.when(lambda _: self._forget_idle(group_id))
        return released

    def _forget_idle(self, group_id: str) -> None:
        if not self.sessions.has_group(group_id):
            self.forget_group(group_id)

    def disconnected(self, connection: Session, now_ms: int) -> None:
        for session in self.sessions.of_connection(connection):
            self.release(session, now_ms)

    def watch(self, shared: Shared, now_ms: int) -> None:
        """Locks were given out or prolonged: see to it that they end."""
        self._alarm.set(shared.partition.next_deadline_ms(), now_ms)

    def _store(self, shared: Shared, change: Change, now_ms: int) -> Answer[Refusal]:
        answer = Answer[Refusal]()
        partition = shared.partition
        if not change.batches:
            partition.commit(change)
            answer.give(None)
            return answer
        write = StateWrite(
            partition.state_epoch,
            partition.leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            tuple(change.batches),
        )
        written = self.persister.write(shared.key, write, now_ms)
        written.when(lambda found: answer.give(self._stored(shared, change, found)))
        return answer

    def _stored(self, shared: Shared, change: Change, found: Found) -> Refusal:
        if isinstance(found, KafkaError):
            now_ms = self._broker.clock.now_ms()
            shared.partition.rollback(change)
            self._alarm.set(now_ms + RETRY_MS, now_ms)  # for locks that end, or have ended
            if found.code in _FENCED:
                self.forget(shared.key)
            return KafkaError(_leader_code(found.code), found.message)
        shared.partition.commit(change)
        self._send_dead_letters(shared, change.dead)
        shared.waiting.wake_all()
        return None

    def _store_quietly(self, shared: Shared, change: Change, now_ms: int) -> Answer[Refusal]:
        """For what nobody waits to hear about. What cannot be stored is tried again later."""
        stored = self._store(shared, change, now_ms)
        stored.when(partial(_warn, shared.key))
        return stored

    # -- dead letters (KIP-1191)

    def _send_dead_letters(self, shared: Shared, dead: Iterable[DeadRecords]) -> None:
        """Not twice: a state may be loaded again while its dead letters are under way."""
        for each in dead:
            under_way = self._under_way.setdefault(shared.key, set())
            offsets = set(range(each.first, each.last + 1))
            if not offsets <= under_way:
                under_way |= offsets
                done = partial(self._dead_letters_sent, shared, each)
                self.dead_letters.send(shared.key.group_id, shared.log, each, done)

    def _dead_letters_sent(self, shared: Shared, dead: DeadRecords) -> None:
        under_way = self._under_way.get(shared.key, set())
        under_way.difference_update(range(dead.first, dead.last + 1))
        if not under_way:
            self._under_way.pop(shared.key, None)
        self._archive(shared, dead)

    def _archive(self, shared: Shared, dead: DeadRecords) -> None:
        """Where the state was loaded again meanwhile, that one counts."""
        current = self._shared.get(shared.key)
        if current is not None and current.ready:
            shared = current
        if self._stopped or shared.is_over or shared.key.topic_id not in self._names:
            return
        now_ms = self._broker.clock.now_ms()
        change = shared.partition.archive(dead.first, dead.last)
        stored = self._store_quietly(shared, change, now_ms)
        stored.when(lambda refusal: self._archived(shared, dead, refusal))

    def _archived(self, shared: Shared, dead: DeadRecords, refusal: Refusal) -> None:
        """Until it is stored the start can't move on, so it is tried again."""
        if refusal is not None and self._shared.get(shared.key) is shared:
            loop = asyncio.get_running_loop()
            loop.call_later(ARCHIVE_RETRY_S, self._archive, shared, dead)

    # -- time

    def _clock_set(self, step_ms: int) -> None:
        for shared in [each for each in self._shared.values() if each.ready]:
            shared.partition.clock_set(step_ms)

    def _expire(self, now_ms: int) -> int | None:
        deadlines = []
        for shared in [each for each in self._shared.values() if each.ready]:
            due_ms = shared.partition.next_deadline_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._store_quietly(shared, shared.partition.expire(now_ms), now_ms)
                shared.waiting.wake_all()  # delayed records may be due, of which nothing is stored
                due_ms = shared.partition.next_deadline_ms()
                if due_ms is not None and due_ms <= now_ms:
                    due_ms = now_ms + RETRY_MS
            if due_ms is not None:
                deadlines.append(due_ms)
        return min(deadlines, default=None)


DEAD_LETTERS_FROM: Final = 2  # the level of share.version (KIP-1191)
RETRY_MS: Final = 100  # between attempts to store that locks have ended
ARCHIVE_RETRY_S: Final = 1.0  # between attempts to store that dead letters were written


def _warn(key: StateKey, refusal: Refusal) -> None:
    if refusal is not None:
        log.warning("%s: what is released could not be stored: %s", key, refusal)


def _first_refusal(found: Iterable[Found]) -> Refusal:
    return next((each for each in found if isinstance(each, KafkaError)), None)


def _leader_code(code: ErrorCode) -> ErrorCode:
    """What a member is told when the state of a share-partition cannot be read or written."""
    if code in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code is ErrorCode.INVALID_REQUEST:  # a group that does not read this partition
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _NOT_HERE else code
