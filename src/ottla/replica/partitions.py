"""The partitions that this broker holds, kept in step with the cluster's image."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ottla.cluster.image import MetadataImage, PartitionRegistration, TopicImage
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.store import LogStore

log = logging.getLogger("ottla.replica")

LAG_MAX_MS: Final = 30_000

# Logs that are created or deleted in one turn of the loop: each takes up to 0.5 ms, and a topic may
# have thousands. The others follow in later turns, as many in each (`catch_up`).
LOGS_AT_ONCE_MAX: Final = 50

NOTHING: Mapping[int, Partition] = {}

# The settings of a topic's logs: its own configs over the broker's defaults.
LogSettings = Callable[[Mapping[str, str]], LogConfig]

# Called with a partition whose role may have changed, and whether it is gone.
OnRole = Callable[[Partition, bool], None]


def ignore_role(partition: Partition, gone: bool) -> None:
    """The default, for tests that replicate nothing."""


class Partitions:
    """Topic and index to Partition. A partition whose log directory failed stays, as offline.

    The first logs of a new topic are created at once. The others are created in later turns of the
    loop, or when one of them is needed: `find` returns every partition that this broker holds. The
    partitions of a deleted topic disappear at once; their files are renamed in later turns.
    """

    def __init__(
        self,
        node_id: int,
        store: LogStore,
        settings: LogSettings,
        *,
        lag_max_ms: Callable[[], int] = lambda: LAG_MAX_MS,
        on_role: OnRole = ignore_role,
        on_brokers: Callable[[list[int]], None] = lambda broker_ids: None,
    ) -> None:
        """`lag_max_ms` gives replica.lag.time.max.ms. `on_role` is called for each partition whose
        leader, epoch or role may have changed, and when it is gone; `on_brokers` with the ids of
        brokers that have just registered."""
        self._node_id = node_id
        self._lag_max_ms = lag_max_ms
        self._on_role = on_role
        self._on_brokers = on_brokers
        self._live: dict[int, int] = {}  # the brokers that may be in sync, and the epoch of each
        self._fenced = False
        self._store = store
        self._settings = settings
        self._topics: dict[str, dict[int, Partition]] = {}
        self._applied: dict[str, TopicImage] = {}
        self._offline: dict[tuple[str, int], str] = {}  # the reason why it has no log
        self._starting = False
        self._now_ms = 0
        self._at_once = 0  # logs that may still be created or deleted in this turn
        self._pending_creations: dict[tuple[str, int], None] = {}  # in the order of their creation
        self._pending_deletions: dict[tuple[str, int], Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """By topic and index, as they are checkpointed."""
        return {(partition.topic, partition.index): partition.high_watermark for partition in self}

    def of_topic(self, topic: str) -> Mapping[int, Partition]:
        return self._topics.get(topic, NOTHING)

    def find(self, topic: str, index: int) -> Partition:
        """The partition; KafkaError with the code for the client if it is not here."""
        partitions = self._topics.get(topic)
        partition = partitions.get(index) if partitions is not None else None
        if partition is None:
            partition = self.create_pending(topic, index)
        if partition is None:
            raise self.missing(topic, index)
        if partition.log.dir.offline:
            raise partition.log.dir.offline_error()
        return partition

    def leading(self, topic: str, index: int) -> Partition:
        """The same, if this broker leads it; NOT_LEADER_OR_FOLLOWER if it does not."""
        partition = self.find(topic, index)
        if not partition.leads:
            raise partition.not_leader()
        return partition

    def missing(self, topic: str, index: int) -> KafkaError:
        """Why the partition is not here. A new error each time: raising adds a traceback to it."""
        why = self._offline.get((topic, index))
        if why is not None:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
        applied = self._applied.get(topic)
        if applied is not None and index in range(len(applied.partitions)):
            return KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self._node_id} has no {topic}-{index}"
            )
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {topic}-{index} here"
        )

    def is_offline(self, topic: str, index: int) -> bool:
        if (topic, index) in self._offline:
            return True
        partition = self.of_topic(topic).get(index)
        return partition is not None and partition.log.dir.offline

    def start(self, image: MetadataImage, now_ms: int) -> None:
        """Take over the logs that were found; set aside those that belong to no topic."""
        self._starting = True
        known = {topic.id for topic in image.topics.values()}
        for stray in [kept for kept in self._store.logs() if kept.topic_id not in known]:
            try:
                self._store.set_aside(stray.topic, stray.partition)
            except KafkaError as error:
                name = f"{stray.topic}-{stray.partition}"
                log.error("Failed to rename stray log %s: %s", name, error)
        self.apply(image, now_ms)
        self._starting = False

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        """Create, delete and change partitions where this image differs from the last one."""
        self._at_once, self._now_ms = LOGS_AT_ONCE_MAX, now_ms
        live = image.active_epochs()
        if live != self._live:
            self._on_brokers([node for node in live if live[node] != self._live.get(node)])
            self._live.clear()
            self._live.update(live)
            for partition in self:
                # The high watermark may have waited for a follower that is gone now.
                if partition.followers is not None:
                    partition.advance(now_ms)
        for name in [name for name in self._applied if name not in image.topics]:
            self._delete(name, now_ms)
        for name, topic in image.topics.items():
            before = self._applied.get(name)
            if before is topic:
                continue
            if before is not None and before.id != topic.id:  # deleted and created again
                self._delete(name, now_ms)
            self._change(topic, now_ms)

    @property
    def behind(self) -> bool:
        """True while there are logs to be created or deleted."""
        return bool(self._pending_creations or self._pending_deletions)

    def catch_up(self, now_ms: int, count: int = LOGS_AT_ONCE_MAX) -> None:
        """Create or delete the next logs."""
        self._now_ms = now_ms
        for _ in range(count):
            if self._pending_deletions:
                self._remove(*next(iter(self._pending_deletions)), now_ms)
            elif self._pending_creations:
                self.create_pending(*next(iter(self._pending_creations)))
            else:
                break

    def wake(self, directory: LogDir) -> None:
        """A log directory has failed: requests that wait for its partitions look again."""
        for partition in self:
            if partition.log.dir is directory:
                partition.wake_all()

    def fence(self, now_ms: int) -> None:
        """This broker's registration is lost: it leads nothing until `unfence`."""
        self._fenced = True
        self._apply_all(now_ms)

    def unfence(self, now_ms: int) -> None:
        """This broker is registered again, and leads what the image says."""
        self._fenced = False
        self._apply_all(now_ms)

    def _apply_all(self, now_ms: int) -> None:
        for topic in self._applied.values():
            partitions = self._topics[topic.name]
            for state in topic.partitions:
                if state.index in partitions:
                    self._apply_state(partitions[state.index], state, now_ms)

    def reconfigure(self) -> None:
        """The broker's defaults have changed: recompute the settings of every log."""
        for name, topic in self._applied.items():
            settings = self._settings(topic.configs)
            for partition in self._topics[name].values():
                partition.log.reconfigure(settings)

    def _change(self, topic: TopicImage, now_ms: int) -> None:
        self._applied[topic.name] = topic
        settings = self._settings(topic.configs)
        partitions = self._topics.setdefault(topic.name, {})
        for state in topic.partitions:
            if self._node_id not in state.replicas:
                self._remove_replica(topic, state, now_ms)
                continue
            partition = partitions.get(state.index)
            if partition is not None:
                partition.log.reconfigure(settings)
                self._apply_state(partition, state, now_ms)
                continue
            if self._may_wait(topic, state.index):
                self._pending_creations[topic.name, state.index] = None
                continue
            self._create(topic, state, settings, now_ms)

    def _may_wait(self, topic: TopicImage, index: int) -> bool:
        """True if the log has to be created and this turn has created enough. Internal topics do
        not wait: their coordinators need all partitions at once."""
        if self._starting or topic.name.startswith("__"):
            return False
        key = (topic.name, index)
        if self._store.get(*key) is not None and key not in self._pending_deletions:
            return False
        self._at_once -= 1
        return self._at_once < 0

    def create_pending(self, topic: str, index: int) -> Partition | None:
        """Create the log of a partition that still waits for it; None if it does not wait."""
        if (topic, index) not in self._pending_creations:
            return None
        applied = self._applied[topic]
        settings = self._settings(applied.configs)
        return self._create(applied, applied.partitions[index], settings, self._now_ms)

    def _create(
        self, topic: TopicImage, state: PartitionRegistration, settings: LogConfig, now_ms: int
    ) -> Partition | None:
        """The partition with its log; None if its directory failed."""
        self._pending_creations.pop((topic.name, state.index), None)
        try:
            partition_log = self._open_log(topic, state.index, settings, now_ms)
        except KafkaError as error:
            log.error("Partition %s-%d is offline: %s", topic.name, state.index, error)
            self._offline[topic.name, state.index] = error.message
            return None
        self._offline.pop((topic.name, state.index), None)
        partition = self._partition_of(topic, state, partition_log)
        self._topics[topic.name][state.index] = partition
        self._apply_state(partition, state, now_ms)
        self._on_role(partition, False)
        return partition

    def _remove_replica(self, topic: TopicImage, state: PartitionRegistration, now_ms: int) -> None:
        """The partition was reassigned to other brokers. A log that was found at the start is set
        aside instead of deleted, because this broker has not seen the reassignment."""
        partition = self._topics[topic.name].pop(state.index, None)
        self._pending_creations.pop((topic.name, state.index), None)
        try:
            if partition is not None:
                log.info("Deleting replica %s: it was reassigned to other brokers", partition.name)
                self._store.delete(topic.name, state.index, now_ms=now_ms)
            elif self._starting and self._store.get(topic.name, state.index) is not None:
                self._store.set_aside(topic.name, state.index)
        except KafkaError as error:
            log.error("Failed to delete replica %s-%d: %s", topic.name, state.index, error)
        if partition is not None:
            partition.end()
            self._on_role(partition, True)

    def _partition_of(
        self, topic: TopicImage, state: PartitionRegistration, partition_log: Log
    ) -> Partition:
        """A partition on a log that exists. The checkpoint knows its high watermark."""
        high_watermark = self._store.high_watermark(topic.name, state.index)
        return Partition(
            topic.name,
            state.index,
            topic_id=topic.id,
            leader_epoch=state.leader_epoch,
            log=partition_log,
            node_id=self._node_id,
            high_watermark=high_watermark,
        )

    def _apply_state(self, partition: Partition, state: PartitionRegistration, now_ms: int) -> None:
        before = (partition.leader, partition.leader_epoch, partition.leads)
        partition.apply(
            state,
            now_ms,
            live=self._live,
            lag_max_ms=self._lag_max_ms(),
            may_lead=not self._fenced,
        )
        if before != (partition.leader, partition.leader_epoch, partition.leads):
            self._on_role(partition, False)

    def _open_log(self, topic: TopicImage, index: int, settings: LogConfig, now_ms: int) -> Log:
        if (topic.name, index) in self._pending_deletions:  # of the topic that had this name before
            self._remove(topic.name, index, now_ms)
        partition_log = self._store.get(topic.name, index)
        if partition_log is not None:
            partition_log.reconfigure(settings)
            return partition_log
        # A log that should exist may be in a directory that failed: an empty one must not replace
        # it, or this broker would be in sync without its records.
        is_new = not self._starting and (topic.name, index) not in self._offline
        return self._store.create(
            topic.name, index, topic.id, settings, now_ms=now_ms, is_new=is_new
        )

    def _delete(self, name: str, now_ms: int) -> None:
        del self._applied[name]
        partitions = self._topics.pop(name)
        for key in [key for key in self._offline if key[0] == name]:
            del self._offline[key]
        for key in [key for key in self._pending_creations if key[0] == name]:
            del self._pending_creations[key]
        for index, partition in partitions.items():
            self._pending_deletions[name, index] = partition
            self._at_once -= 1
            if self._at_once >= 0:
                self._remove(name, index, now_ms)

    def _remove(self, name: str, index: int, now_ms: int) -> None:
        partition = self._pending_deletions.pop((name, index))
        try:
            self._store.delete(name, index, now_ms=now_ms)
        except KafkaError as error:
            log.error("Failed to delete log %s-%d: %s", name, index, error)
        partition.end()
        self._on_role(partition, True)
