"""The share coordinator with its log and its clock (KIP-932): where share-partitions are stored.

A share-partition's state lives in the partition of `__share_group_state` that its name falls into.
`ShareCoordinatorService` appends what changes, and now and then deletes the records that newer
snapshots replace.

It serves the states whose partition this broker leads. Leaders of partitions and coordinators of
groups ask through `ottla.broker.share.persister`, which finds the right broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ottla.broker.alarm import Alarm
from ottla.broker.coordinator_service import CoordinatorService
from ottla.broker.promise import Promise
from ottla.clock import WatchedClock
from ottla.cluster.image import NO_LEADER, MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.coordinator.share.shard import (
    Operation,
    ShareCoordinator,
    ShareCoordinatorShard,
    SharePartitionWrite,
)
from ottla.coordinator.share.state_records import (
    STATE_TOPIC,
    SharePartitionKey,
    SharePartitionState,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partitions import Partitions

log = logging.getLogger("ottla.broker")

SNAPSHOT_AFTER: Final = 10_000  # records; a snapshot so far behind the end is written again

# The state after the request, or why it is not known, or not changed.
StateResult = SharePartitionState | KafkaError


class ShareCoordinatorService(CoordinatorService[ShareCoordinator]):
    """The states that this broker keeps."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        partitions: Partitions,
        *,
        config: Callable[[], ServerConfig],
        clock: WatchedClock,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._config = config
        count = config().share_coordinator_state_topic_num_partitions
        super().__init__(STATE_TOPIC, partitions, partition_count=count, clock=clock)
        self._prune = Alarm(clock, self._prune_if_due)
        self._prune_due_ms = 0  # by the monotonic clock; 0: not scheduled yet

    def new_coordinator(self, partition_count: int) -> ShareCoordinator:
        config = self._config()
        return ShareCoordinator(
            partition_count,
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        )

    @property
    def load_buffer_size(self) -> int:
        return self._config().share_coordinator_load_buffer_size

    @property
    def codec(self) -> int:
        return self._config().share_coordinator_state_topic_compression_codec

    @property
    def commit_timeout_ms(self) -> int:
        return self._config().share_coordinator_write_timeout_ms

    # -- the cluster

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        self._topic.apply(image, now_ms)
        if not self._prune_due_ms:
            self._prune.set(self._schedule_prune(now_ms), now_ms)

    def stop(self) -> None:
        self._prune.stop()
        super().stop()

    def state_topic(self) -> TopicSpec:
        """`__share_group_state` as it is created when it is first needed.

        It is not compacted: an update says only what changed since the one before it.
        """
        config = self._config()
        return TopicSpec(
            STATE_TOPIC,
            partition_count=config.share_coordinator_state_topic_num_partitions,
            replication_factor=config.share_coordinator_state_topic_replication_factor,
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )

    # -- requests. The reply comes when its records are committed

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, now_ms: int
    ) -> Promise[StateResult]:
        return self._write(
            key,
            lambda shard, event: shard.initialize(
                key, state_epoch=state_epoch, start_offset=start_offset, event=event
            ),
            now_ms,
        )

    def read(
        self, key: SharePartitionKey, *, leader_epoch: int, now_ms: int
    ) -> Promise[StateResult]:
        return self._write(
            key,
            lambda shard, event: shard.read(key, leader_epoch=leader_epoch, event=event),
            now_ms,
        )

    def write(
        self, key: SharePartitionKey, write: SharePartitionWrite, now_ms: int
    ) -> Promise[StateResult]:
        return self._write(key, lambda shard, event: shard.write(key, write, event), now_ms)

    def delete(self, key: SharePartitionKey, now_ms: int) -> Promise[StateResult]:
        return self._write(key, lambda shard, event: shard.delete(key, event), now_ms)

    def summary(self, key: SharePartitionKey, now_ms: int) -> Promise[StateResult]:
        return self._write(key, lambda shard, event: shard.state(key), now_ms)

    def _write(
        self, key: SharePartitionKey, operation: Operation, now_ms: int
    ) -> Promise[StateResult]:
        promise = Promise[StateResult]()
        try:
            if self.leader(key) != self._node_id:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
        except KafkaError as error:
            promise.resolve(error)
            return promise
        result = self.coordinator.write(key, operation, token=promise, now_ms=now_ms)
        self.carry_out(result, now_ms)
        return promise

    def leader(self, key: SharePartitionKey) -> int:
        """The broker that keeps this state; KafkaError while there is none."""
        topic = self._metadata.image.topics.get(STATE_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no {STATE_TOPIC} yet")
        index = self.coordinator.partition_of(str(key))
        if index >= len(topic.partitions):  # created again with fewer, and not yet applied here
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{STATE_TOPIC} is being created")
        leader = topic.partitions[index].leader
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody leads its partition")
        return leader

    # -- deleted topics

    def delete_topic(self, topic_id: bytes, now_ms: int) -> None:
        """In partitions that are not loaded, `finish_load` does the same."""
        for shard in list(self.coordinator.shards.values()):
            self._delete(shard, [key for key in shard if key.topic_id == topic_id], now_ms)

    def finish_load(self, partition: int, now_ms: int) -> None:
        # The last record may be long deleted, and nothing be left of the log but its end offset.
        log_end_offset = self._partitions.find(STATE_TOPIC, partition).log.end_offset
        self.coordinator.loading_shard(partition).end_offset = log_end_offset
        super().finish_load(partition, now_ms)
        shard, topics = self.coordinator.shards[partition], self._metadata.image.names_by_id
        self._delete(shard, [key for key in shard if key.topic_id not in topics], now_ms)

    def _delete(
        self, shard: ShareCoordinatorShard, keys: Iterable[SharePartitionKey], now_ms: int
    ) -> None:
        """What cannot be deleted now is found again when the partition is loaded the next time."""
        self.carry_out(shard.delete_all(keys, now_ms), now_ms)

    # -- the logs' length

    def _schedule_prune(self, now_ms: int) -> int:
        interval_ms = self._config().share_coordinator_state_topic_prune_interval_ms
        self._prune_due_ms = self._clock.monotonic_ms() + interval_ms
        return now_ms + interval_ms

    def _prune_if_due(self, now_ms: int) -> int:
        """The alarm rings every second at least, because somebody may set the clock."""
        left_ms = self._prune_due_ms - self._clock.monotonic_ms()
        if left_ms > 0:
            return now_ms + left_ms
        self._prune_all(now_ms)
        return self._schedule_prune(now_ms)

    def _prune_all(self, now_ms: int) -> None:
        for shard in list(self.coordinator.shards.values()):
            try:
                self._prune_one(shard, now_ms)
            except KafkaError as error:
                log.warning("%s-%d was not pruned: %s", STATE_TOPIC, shard.partition, error)

    def _prune_one(self, shard: ShareCoordinatorShard, now_ms: int) -> None:
        """Snapshots that hold up the start of the log are written again, then it is moved on."""
        self.carry_out(shard.renew(shard.end_offset - SNAPSHOT_AFTER, now_ms), now_ms)
        partition = self._partitions.leading(STATE_TOPIC, shard.partition)
        oldest = min(shard.oldest_offset(), partition.high_watermark)
        if oldest > partition.log.start_offset:
            partition.delete_records(oldest, now_ms)
