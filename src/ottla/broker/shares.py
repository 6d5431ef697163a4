"""Share-partitions as this broker leads them: loaded when somebody reads, stored when they change.

A share-partition is a state machine (see `ottla.coordinator.share.partition`). Here it meets the
log that it is about, the topic that keeps its state, the loop's timers, and fetches that wait.
What a member acknowledges is stored before it is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.context import Session
from ottla.broker.journal import Alarm
from ottla.broker.share_sessions import Member, ShareSession, ShareSessions
from ottla.broker.share_states import ShareStateLogs
from ottla.cluster.image import Image
from ottla.config import group_config
from ottla.config.durations import duration_ms
from ottla.config.tables.group_resource import BY_DURATION
from ottla.coordinator.share.group import ShareGroupConfig
from ottla.coordinator.share.partition import Acknowledged, Change, Limits, SharePartition
from ottla.coordinator.share.persister import StateWrite
from ottla.coordinator.share.records import UNKNOWN, StateKey
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.replica.waiting import Waiting

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

_FENCED: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_NOT_HERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class ShareSettings(NamedTuple):
    """What holds for one share group: its own configs over the broker's."""

    limits: Limits
    group: ShareGroupConfig
    offset_reset: str
    isolation: int
    renew_enabled: bool


class Shared:
    """A share-partition with the log that it is about, and who waits for its records."""

    __slots__ = ("key", "log", "partition", "waiting")

    def __init__(self, key: StateKey, log: Partition, partition: SharePartition) -> None:
        self.key = key
        self.log = log
        self.partition = partition
        self.waiting = Waiting()


class Shares:
    """All share-partitions of this broker, and the sessions of those who read them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shared: dict[StateKey, Shared] = {}
        self._settings: dict[str, ShareSettings] = {}
        self._names: dict[bytes, str] = {}
        self._alarm = Alarm(broker.clock, self._expire)
        self.states = ShareStateLogs(broker)
        self.sessions = ShareSessions()

    # -- start, stop, and the cluster's changes

    def start(self, now_ms: int) -> None:
        self.apply(self._broker.image, now_ms)

    def stop(self) -> None:
        self._alarm.stop()
        self.states.stop()

    def apply(self, image: Image, now_ms: int) -> None:
        self._settings.clear()
        self.states.apply(image, now_ms)
        gone = [topic_id for topic_id in self._names if topic_id not in image.names_by_id]
        self._names = dict(image.names_by_id)
        for topic_id in gone:
            self.states.delete_topic(topic_id, now_ms)
        for key in [key for key in self._shared if key.topic_id not in image.names_by_id]:
            self.forget(key)

    def settings(self, group_id: str) -> ShareSettings:
        found = self._settings.get(group_id)
        if found is None:
            found = self._settings[group_id] = self._read_settings(group_id)
        return found

    def _read_settings(self, group_id: str) -> ShareSettings:
        config = self._broker.config
        values = group_config(config, self._broker.image.group_config(group_id))
        number = {name: value for name, value in values.items() if isinstance(value, int)}
        return ShareSettings(
            Limits(
                lock_duration_ms=number["share.record.lock.duration.ms"],
                delivery_count_max=number["share.delivery.count.limit"],
                in_flight_max=number["share.partition.max.record.locks"],
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
        )

    # -- share-partitions

    def find(self, group_id: str, topic_id: bytes, index: int, now_ms: int) -> Shared:
        """The share-partition, read from its state if need be; KafkaError says why not."""
        name = self._broker.image.topic_name(topic_id)
        if not name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._broker.partitions.find(name, index)
        key = StateKey(group_id, topic_id, index)
        shared = self._shared.get(key)
        if shared is None or shared.partition.leader_epoch != partition.leader_epoch:
            shared = self._load(key, partition, now_ms)
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

    def check(self, key: StateKey) -> None:
        """Whether a share-partition can be what another broker says it is; KafkaError if not."""
        topic = self._broker.image.topics.get(self._broker.image.topic_name(key.topic_id))
        if not key.group_id or key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} is no share-partition")
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def delete_states(
        self, group_id: str, topic_id: bytes, indexes: Iterable[int], now_ms: int
    ) -> None:
        """The group is done with these partitions, for good; KafkaError says why it is not."""
        for index in indexes:
            key = StateKey(group_id, topic_id, index)
            self.forget(key)
            self.states.delete(key, now_ms)

    def _load(self, key: StateKey, partition: Partition, now_ms: int) -> Shared:
        self.forget(key)
        try:
            state = self.states.read(key, leader_epoch=partition.leader_epoch, now_ms=now_ms)
            start_offset = state.start_offset
            if start_offset == UNKNOWN:
                # Stored at once: `latest` would be a later offset after a restart, and whatever
                # was delivered but not acknowledged by then would be skipped.
                start_offset = self._first_offset(key.group_id, partition, now_ms)
                first = StateWrite(state.state_epoch, partition.leader_epoch, start_offset, 0, ())
                self.states.write(key, first, now_ms)
        except KafkaError as error:
            raise KafkaError(_leader_code(error.code), error.message) from error
        shared = Shared(
            key,
            partition,
            SharePartition(
                start_offset,
                batches=state.batches,
                state_epoch=state.state_epoch,
                leader_epoch=partition.leader_epoch,
            ),
        )
        self._shared[key] = shared
        return shared

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
    ) -> None:
        """All of it is stored when this returns. KafkaError: nothing of it holds."""
        shared = self.find(member.group_id, topic_id, index, now_ms)
        change = shared.partition.acknowledge(member.member_id, said, now_ms)
        self._store(shared, change, now_ms)
        self.watch(shared, now_ms)

    def release(self, session: ShareSession, now_ms: int) -> None:
        """The session is over; what its member holds is for others."""
        group_id, member_id = session.member
        self.sessions.end(session)
        for shared in [each for key, each in self._shared.items() if key.group_id == group_id]:
            self._store_quietly(shared, shared.partition.release(member_id), now_ms)

    def disconnected(self, connection: Session, now_ms: int) -> None:
        for session in self.sessions.of_connection(connection):
            self.release(session, now_ms)

    def watch(self, shared: Shared, now_ms: int) -> None:
        """Locks were given out or prolonged: see to it that they end."""
        self._alarm.set(shared.partition.next_deadline_ms(), now_ms)

    def _store(self, shared: Shared, change: Change, now_ms: int) -> None:
        partition = shared.partition
        if change.batches:
            write = StateWrite(
                partition.state_epoch,
                partition.leader_epoch,
                change.start_offset,
                change.delivery_complete_count,
                tuple(change.batches),
            )
            try:
                self.states.write(shared.key, write, now_ms)
            except KafkaError as error:
                partition.rollback(change)
                self.watch(shared, now_ms)
                if error.code in _FENCED:
                    self.forget(shared.key)
                raise KafkaError(_leader_code(error.code), error.message) from error
        partition.commit(change)
        if change.batches:
            shared.waiting.wake_all()

    def _store_quietly(self, shared: Shared, change: Change, now_ms: int) -> None:
        """For what nobody waits to hear about. What cannot be stored is tried again later."""
        try:
            self._store(shared, change, now_ms)
        except KafkaError as error:
            log.warning("%s: what is released could not be stored: %s", shared.key, error)

    # -- time

    def _expire(self, now_ms: int) -> int | None:
        deadlines = []
        for shared in list(self._shared.values()):
            due_ms = shared.partition.next_deadline_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._store_quietly(shared, shared.partition.expire(now_ms), now_ms)
                due_ms = shared.partition.next_deadline_ms()
                if due_ms is not None:
                    due_ms = max(due_ms, now_ms + RETRY_MS)
            if due_ms is not None:
                deadlines.append(due_ms)
        return min(deadlines, default=None)


RETRY_MS: Final = 100  # between attempts to store that locks have ended


def _leader_code(code: ErrorCode) -> ErrorCode:
    """What a member is told when the state of a share-partition cannot be read or written."""
    if code in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code is ErrorCode.INVALID_REQUEST:  # a group that does not read this partition
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _NOT_HERE else code
