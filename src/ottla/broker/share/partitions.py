"""The share-partitions whose log this broker leads: loaded by the first fetch, stored on change.

A share-partition is a state machine (see `ottla.coordinator.share.partition`). Here it meets its
log, the topic that keeps its state, the timers of the loop, and fetches that wait. An
acknowledgement is stored before its request gets a response. The coordinator of the state may be
another broker, so the response may come later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.alarm import Alarm
from ottla.broker.broker_connections import BrokerConnections
from ottla.broker.client_session import ClientSession
from ottla.broker.features import finalized
from ottla.broker.promise import Promise, all_of
from ottla.broker.share.coordinator_service import ShareCoordinatorService, StateResult
from ottla.broker.share.dead_letters import DeadLetterConfig, DeadLetters
from ottla.broker.share.delayed_delivery import DelayedDeliveryConfig
from ottla.broker.share.end_offsets import EndOffsets
from ottla.broker.share.persister import Persister, is_loading
from ottla.broker.share.sessions import ShareMember, ShareSession, ShareSessions
from ottla.clock import WatchedClock
from ottla.cluster.image import MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig, group_config
from ottla.config.durations import duration_ms
from ottla.config.tables.group_configs import BY_DURATION
from ottla.coordinator.share.group import ShareGroupConfig
from ottla.coordinator.share.partition import (
    DeadRecords,
    ShareAcknowledgementBatch,
    SharePartition,
    SharePartitionLimits,
    StateTransition,
)
from ottla.coordinator.share.shard import SharePartitionWrite
from ottla.coordinator.share.state_records import UNKNOWN, SharePartitionKey, SharePartitionState
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.replica.partitions import Partitions
from ottla.replica.watchers import Watchers

log = logging.getLogger("ottla.broker")

Refusal = KafkaError | None  # None: it succeeded

_FENCED: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_NOT_HERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class ShareGroupSettings(NamedTuple):
    """The configs of one share group, over those of the broker."""

    limits: SharePartitionLimits
    group: ShareGroupConfig
    offset_reset: str
    isolation: int
    renew_enabled: bool
    dead_letters: DeadLetterConfig
    delay: DelayedDeliveryConfig | None  # None: records are never delayed


class LocalSharePartition:
    """A share-partition with its partition, and the fetches that wait for its records.

    It is `ready` when its state has been read; until then it has no `share_partition`.
    """

    __slots__ = (
        "delays",
        "error",
        "is_new",
        "key",
        "leader_epoch",
        "partition",
        "ready",
        "share_partition",
        "waiting",
    )

    def __init__(self, key: SharePartitionKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.ready = False
        self.is_new = True  # no fetch has read from it since its state was read
        self.error: KafkaError | None = None  # why its state could not be read
        self.share_partition: SharePartition
        self.waiting = Watchers()
        self.delays: tuple[int, list[tuple[int, int]]] = (-1, [])  # of the batch at this offset

    @property
    def is_over(self) -> bool:
        """True if this broker no longer leads the partition, or leads it in another epoch."""
        return not self.partition.leads or self.partition.leader_epoch != self.leader_epoch


class SharePartitions:
    """All share-partitions of this broker, and the sessions of their members."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        partitions: Partitions,
        connections: BrokerConnections,
        *,
        config: Callable[[], ServerConfig],
        clock: WatchedClock,
        create_topic: Callable[[TopicSpec], Awaitable[None]],
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._shared: dict[SharePartitionKey, LocalSharePartition] = {}
        self._settings: dict[str, ShareGroupSettings] = {}
        self._names: dict[bytes, str] = {}
        self._stopped = False
        self._alarm = Alarm(clock, self._expire)
        clock.when_set(self._clock_set)
        self.states = ShareCoordinatorService(
            node_id, metadata, partitions, config=config, clock=clock
        )
        self.persister = Persister(node_id, metadata, connections, self.states, clock=clock)
        self.ends = EndOffsets(node_id, metadata, partitions, connections)
        self.dead_letters = DeadLetters(
            node_id,
            metadata,
            partitions,
            connections,
            config=config,
            clock=clock,
            config_of=lambda group_id: self.settings(group_id).dead_letters,
            create_topic=create_topic,
        )
        # Offsets whose dead letters are being written.
        self._dead_letter_offsets: dict[SharePartitionKey, set[int]] = {}
        self.sessions = ShareSessions()

    # -- start, stop, and the cluster's changes

    def start(self, now_ms: int) -> None:
        self.apply(self._metadata.image, now_ms)

    def stop(self) -> None:
        self._stopped = True
        self._alarm.stop()
        self.dead_letters.stop()
        self.persister.stop()
        self.ends.stop()
        self.states.stop()

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        self._settings.clear()
        self.states.apply(image, now_ms)
        gone = [topic_id for topic_id in self._names if topic_id not in image.names_by_id]
        self._names = dict(image.names_by_id)
        for topic_id in gone:
            self.states.delete_topic(topic_id, now_ms)
        for key, shared in list(self._shared.items()):
            if shared.is_over or key.topic_id not in image.names_by_id:
                self.forget(key)

    def settings(self, group_id: str) -> ShareGroupSettings:
        settings = self._settings.get(group_id)
        if settings is None:
            settings = self._settings[group_id] = self._read_settings(group_id)
        return settings

    def _has_dead_letters(self) -> bool:
        return finalized(self._metadata.image)["share.version"] >= DEAD_LETTERS_FROM

    def _read_settings(self, group_id: str) -> ShareGroupSettings:
        config = self._config()
        values = group_config(config, self._metadata.image.group_config(group_id))
        number = {name: value for name, value in values.items() if isinstance(value, int)}
        dead_letters = DeadLetterConfig(
            str(values["errors.deadletterqueue.topic.name"]),
            bool(values["errors.deadletterqueue.copy.record.enable"]),
        )
        delay = DelayedDeliveryConfig(number["ottla.share.delayed.delivery.max.ms"])
        return ShareGroupSettings(
            SharePartitionLimits(
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

    def find(self, group_id: str, topic_id: bytes, index: int, now_ms: int) -> LocalSharePartition:
        """The share-partition, which may still have to read its state; KafkaError if it cannot.

        Its watchers are woken when the state is read.
        """
        name = self._metadata.image.topic_name(topic_id)
        if not name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._partitions.leading(name, index)
        key = SharePartitionKey(group_id, topic_id, index)
        shared = self._shared.get(key)
        if shared is None or shared.partition is not partition or shared.is_over:
            shared = self._load(key, partition, now_ms)
        if shared.error is not None:
            self.forget(key)
            raise shared.error
        if shared.ready:
            shared.share_partition.limits = self.settings(group_id).limits
            shared.share_partition.move_log_start(partition.log.start_offset)
        return shared

    def forget(self, key: SharePartitionKey) -> None:
        """Its topic is deleted, or another broker changed its state: the next fetch reads it."""
        shared = self._shared.pop(key, None)
        if shared is not None:
            shared.waiting.wake_all()

    def forget_group(self, group_id: str) -> None:
        for key in [key for key in self._shared if key.group_id == group_id]:
            self.forget(key)

    def delayed_counts(self) -> dict[str, int]:
        """The number of delayed records of each group."""
        counts: dict[str, int] = {}
        for key, shared in self._shared.items():
            count = shared.share_partition.delayed_count if shared.ready else 0
            if count:
                counts[key.group_id] = counts.get(key.group_id, 0) + count
        return counts

    def check(self, key: SharePartitionKey) -> None:
        """KafkaError if another broker sends a share-partition that cannot exist."""
        topic = self._metadata.image.topics.get(self._metadata.image.topic_name(key.topic_id))
        if not key.group_id or key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} is not a share-partition")
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def delete_states(
        self, group_id: str, topic_id: bytes, indexes: Iterable[int], now_ms: int
    ) -> Promise[Refusal]:
        """The group will not read these partitions again."""
        answers = []
        for index in indexes:
            key = SharePartitionKey(group_id, topic_id, index)
            self.forget(key)
            answers.append(self.persister.delete(key, now_ms))
        return all_of(answers).then(_first_refusal)

    # -- reading a state

    def _load(
        self, key: SharePartitionKey, partition: Partition, now_ms: int
    ) -> LocalSharePartition:
        self.forget(key)
        shared = self._shared[key] = LocalSharePartition(key, partition)
        self._begin_read(shared, now_ms)
        return shared

    def _begin_read(self, shared: LocalSharePartition, now_ms: int) -> None:
        read = self.persister.read(shared.key, leader_epoch=shared.leader_epoch, now_ms=now_ms)
        read.then(lambda result: self._read(shared, result))

    def _read(self, shared: LocalSharePartition, result: StateResult) -> None:
        if isinstance(result, KafkaError):
            self._read_failed(shared, result)
            return
        if result.start_offset != UNKNOWN:
            self._loaded(shared, result)
            return
        # Stored at once: `latest` would be a later offset after a restart, and whatever was
        # delivered but not acknowledged by then would be skipped.
        now_ms = self._clock.now_ms()
        start_offset = self._first_offset(shared.key.group_id, shared.partition, now_ms)
        first = SharePartitionWrite(result.state_epoch, shared.leader_epoch, start_offset, 0, ())
        state = result._replace(start_offset=start_offset)
        written = self.persister.write(shared.key, first, now_ms)
        written.then(
            lambda outcome: (
                self._read_failed(shared, outcome)
                if isinstance(outcome, KafkaError)
                else self._loaded(shared, state)
            )
        )

    def _loaded(self, shared: LocalSharePartition, state: SharePartitionState) -> None:
        shared.share_partition = SharePartition(
            state.start_offset,
            batches=state.batches,
            state_epoch=state.state_epoch,
            leader_epoch=shared.leader_epoch,
            limits=self.settings(shared.key.group_id).limits,
        )
        shared.share_partition.move_log_start(shared.partition.log.start_offset)
        shared.ready = True
        self._send_dead_letters(shared, shared.share_partition.unfinished())
        shared.waiting.wake_all()

    def _read_failed(self, shared: LocalSharePartition, error: KafkaError) -> None:
        """The next request for it gets the error, unless the coordinator only loads its log.

        Kafka's consumer takes COORDINATOR_NOT_AVAILABLE in a fetch for a bug. So fetches wait until
        the state is loaded, and what waits too long is answered without records.
        """
        if is_loading(error) and not self._stopped and self._shared.get(shared.key) is shared:
            self._begin_read(shared, self._clock.now_ms())
            return
        shared.error = KafkaError(_leader_code(error.code), error.message)
        shared.waiting.wake_all()

    def _first_offset(self, group_id: str, partition: Partition, now_ms: int) -> int:
        """Where a new group starts: share.auto.offset.reset."""
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

    # -- acknowledging

    def acknowledge(
        self,
        member: ShareMember,
        topic_id: bytes,
        index: int,
        acknowledgements: Iterable[ShareAcknowledgementBatch],
        now_ms: int,
    ) -> Promise[Refusal]:
        """Resolved when all of it is stored; with a KafkaError if none of it is."""
        try:
            shared = self.find(member.group_id, topic_id, index, now_ms)
            if not shared.ready:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "its state is being read")
            transition = shared.share_partition.acknowledge(
                member.member_id, acknowledgements, now_ms
            )
        except KafkaError as error:
            answer = Promise[Refusal]()
            answer.resolve(error)
            return answer
        stored = self._store(shared, transition, now_ms)
        self.watch(shared, now_ms)
        return stored

    def release(self, session: ShareSession, now_ms: int) -> Promise[list[Refusal]]:
        """The session is over; what its member has acquired is available again."""
        group_id, member_id = session.member
        self.sessions.end(session)
        shares = [shared for key, shared in self._shared.items() if key.group_id == group_id]
        released = all_of(
            [
                self._store_in_background(shared, shared.share_partition.release(member_id), now_ms)
                for shared in shares
                if shared.ready
            ]
        )
        if len(self._metadata.image.brokers) > 1 and not self.sessions.has_group(group_id):
            # An idle group may have its offsets set, through another broker.
            released.then(lambda _: self._forget_idle(group_id))
        return released

    def _forget_idle(self, group_id: str) -> None:
        if not self.sessions.has_group(group_id):
            self.forget_group(group_id)

    def disconnected(self, connection: ClientSession, now_ms: int) -> None:
        for session in self.sessions.of_connection(connection):
            self.release(session, now_ms)

    def watch(self, shared: LocalSharePartition, now_ms: int) -> None:
        """Locks were acquired or renewed: set the timer that expires them."""
        self._alarm.set(shared.share_partition.next_deadline_ms(), now_ms)

    def _store(
        self, shared: LocalSharePartition, transition: StateTransition, now_ms: int
    ) -> Promise[Refusal]:
        share_partition = shared.share_partition
        if not transition.batches:
            share_partition.commit(transition)
            answer = Promise[Refusal]()
            answer.resolve(None)
            return answer
        write = SharePartitionWrite(
            share_partition.state_epoch,
            share_partition.leader_epoch,
            transition.start_offset,
            transition.delivery_complete_count,
            tuple(transition.batches),
        )
        written = self.persister.write(shared.key, write, now_ms)
        return written.then(lambda result: self._stored(shared, transition, result))

    def _stored(
        self, shared: LocalSharePartition, transition: StateTransition, result: StateResult
    ) -> Refusal:
        if isinstance(result, KafkaError):
            now_ms = self._clock.now_ms()
            shared.share_partition.rollback(transition)
            self._alarm.set(now_ms + RETRY_MS, now_ms)  # for locks that expire, or have expired
            if result.code in _FENCED:
                self.forget(shared.key)
            return KafkaError(_leader_code(result.code), result.message)
        shared.share_partition.commit(transition)
        self._send_dead_letters(shared, transition.dead)
        shared.waiting.wake_all()
        return None

    def _store_in_background(
        self, shared: LocalSharePartition, transition: StateTransition, now_ms: int
    ) -> Promise[Refusal]:
        """Without a request that waits. What cannot be stored is retried later."""
        stored = self._store(shared, transition, now_ms)
        stored.then(partial(_warn, shared.key))
        return stored

    # -- dead letters (KIP-1191)

    def _send_dead_letters(self, shared: LocalSharePartition, dead: Iterable[DeadRecords]) -> None:
        """Not twice: a state may be loaded again while its dead letters are being written."""
        for records in dead:
            offsets_sent = self._dead_letter_offsets.setdefault(shared.key, set())
            offsets = set(range(records.first, records.last + 1))
            if not offsets <= offsets_sent:
                offsets_sent |= offsets
                done = partial(self._dead_letters_sent, shared, records)
                self.dead_letters.send(shared.key.group_id, shared.partition, records, done)

    def _dead_letters_sent(self, shared: LocalSharePartition, dead: DeadRecords) -> None:
        offsets_sent = self._dead_letter_offsets.get(shared.key, set())
        offsets_sent.difference_update(range(dead.first, dead.last + 1))
        if not offsets_sent:
            self._dead_letter_offsets.pop(shared.key, None)
        self._archive(shared, dead)

    def _archive(self, shared: LocalSharePartition, dead: DeadRecords) -> None:
        """If the state was loaded again meanwhile, archive in that one."""
        current = self._shared.get(shared.key)
        if current is not None and current.ready:
            shared = current
        if self._stopped or shared.is_over or shared.key.topic_id not in self._names:
            return
        now_ms = self._clock.now_ms()
        transition = shared.share_partition.archive(dead.first, dead.last)
        stored = self._store_in_background(shared, transition, now_ms)
        stored.then(lambda refusal: self._archived(shared, dead, refusal))

    def _archived(self, shared: LocalSharePartition, dead: DeadRecords, refusal: Refusal) -> None:
        """Retried, because the start cannot move past these records until it is stored."""
        if refusal is not None and self._shared.get(shared.key) is shared:
            loop = asyncio.get_running_loop()
            loop.call_later(ARCHIVE_RETRY_S, self._archive, shared, dead)

    # -- time

    def _clock_set(self, step_ms: int) -> None:
        for shared in [shared for shared in self._shared.values() if shared.ready]:
            shared.share_partition.clock_set(step_ms)

    def _expire(self, now_ms: int) -> int | None:
        deadlines = []
        for shared in [shared for shared in self._shared.values() if shared.ready]:
            due_ms = shared.share_partition.next_deadline_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._store_in_background(shared, shared.share_partition.expire(now_ms), now_ms)
                shared.waiting.wake_all()  # delayed records may be due, which is not stored
                due_ms = shared.share_partition.next_deadline_ms()
                if due_ms is not None and due_ms <= now_ms:
                    due_ms = now_ms + RETRY_MS
            if due_ms is not None:
                deadlines.append(due_ms)
        return min(deadlines, default=None)


DEAD_LETTERS_FROM: Final = 2  # the level of share.version (KIP-1191)
RETRY_MS: Final = 100  # between attempts to store that locks have expired
ARCHIVE_RETRY_S: Final = 1.0  # between attempts to store that dead letters were written


def _warn(key: SharePartitionKey, refusal: Refusal) -> None:
    if refusal is not None:
        log.warning("%s: storing the share-partition state failed: %s", key, refusal)


def _first_refusal(results: Iterable[StateResult]) -> Refusal:
    return next((result for result in results if isinstance(result, KafkaError)), None)


def _leader_code(code: ErrorCode) -> ErrorCode:
    """What a member gets when the state of a share-partition cannot be read or written."""
    if code in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code is ErrorCode.INVALID_REQUEST:  # a group that does not read this partition
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _NOT_HERE else code
