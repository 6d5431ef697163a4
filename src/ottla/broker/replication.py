"""This broker's part in replication: it fetches as a follower, and maintains ISRs as a leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from ottla.broker.replication_quotas import ReplicationQuota
from ottla.clock import Clock
from ottla.cluster.leader_election import replicas_failed
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.store import MetaStore
from ottla.config import ServerConfig
from ottla.errors import KafkaError
from ottla.replica.isr_writes import IsrWrites
from ottla.replica.leader_fetcher import FetchLimits
from ottla.replica.partition import Partition
from ottla.replica.replica_fetchers import OpenConnection, ReplicaFetchers
from ottla.storage.log_dir import LogDir

RETRY_S: Final = 1.0
SLACK_MS: Final = 500

log = logging.getLogger("ottla.broker")


class Replication:
    """The fetchers, the writes of ISRs, and the quotas for replicas that are being moved."""

    def __init__(
        self,
        node_id: int,
        store: MetaStore,
        metadata: MetadataCache,
        *,
        config: Callable[[], ServerConfig],
        clock: Clock,
        open_connection: OpenConnection,
        partitions: Callable[[], Iterable[Partition]],
    ) -> None:
        """`partitions` gives this broker's; they are created after this, and report their roles."""
        self._node_id = node_id
        self._metadata = metadata
        self._config = config
        self._partitions = partitions
        self.fetchers = ReplicaFetchers(
            node_id,
            open_connection=open_connection,
            clock=clock,
            broker_epoch=self.broker_epoch,
            limits=self._limits,
            timeout_s=config().replica_socket_timeout_ms / 1000,
            throttle=self._throttle,
        )
        self.isr_writes = IsrWrites(store, metadata)
        self._writer = MetadataWriter(store, metadata)
        self._tasks: set[asyncio.Task[None]] = set()
        self._checked_ms = clock.now_ms()
        self.leader_quota = ReplicationQuota(
            node_id,
            metadata,
            "leader.replication.throttled.replicas",
            config=config,
            limit=lambda config: config.leader_replication_throttled_rate,
        )
        self.follower_quota = ReplicationQuota(
            node_id,
            metadata,
            "follower.replication.throttled.replicas",
            config=config,
            limit=lambda config: config.follower_replication_throttled_rate,
        )

    def on_role(self, partition: Partition, gone: bool) -> None:
        self.fetchers.update(partition, gone=gone)

    def on_brokers(self, broker_ids: list[int]) -> None:
        for broker_id in broker_ids:
            self.fetchers.nudge(broker_id)

    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 if it is not registered."""
        registration = self._metadata.image.brokers.get(self._node_id)
        return registration.epoch if registration is not None else -1

    def check_isr(self, now_ms: int) -> None:
        """Remove followers that have lagged for too long from ISRs. Called twice in that time.

        If the previous check was much longer ago, this process was suspended or the clock was set.
        Then it is unknown whether the followers lagged, and the next check decides.
        """
        interval_ms = self._config().replica_lag_time_max_ms // 2
        slept = now_ms - self._checked_ms > 1.5 * interval_ms + SLACK_MS
        self._checked_ms = now_ms
        if slept:
            return
        for partition in self._partitions():
            followers = partition.followers
            if followers is None:
                continue
            isr = followers.lagging(partition.log.end_offset, now_ms)
            if isr is not None:
                self.isr_writes.submit(partition, isr)
            else:
                # The high watermark may have waited for a follower that did not join after all.
                partition.advance(now_ms)

    def on_offline(self, directory: LogDir) -> None:
        """A log directory has failed: move the leadership of its partitions to other brokers."""
        failed = {
            (partition.topic, partition.index)
            for partition in self._partitions()
            if partition.log.dir is directory and len(partition.replicas) > 1
        }
        for partition in self._partitions():
            if partition.log.dir is directory:
                self.fetchers.update(partition)
        if failed:
            task = asyncio.get_running_loop().create_task(self._give_up(failed))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _give_up(self, failed: set[tuple[str, int]]) -> None:
        broker_id = self._node_id
        while True:
            try:
                await self._writer.commit_until_done(
                    lambda image: replicas_failed(image, broker_id, failed)
                )
                return
            except KafkaError as error:
                log.warning("Moving leaders off the failed log directory failed: %s", error)
            await asyncio.sleep(RETRY_S)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.fetchers.stop()
        await self.isr_writes.stop()

    def _throttle(self, partition: Partition, size: int, now_ms: int) -> bool:
        """Record what was fetched; True if the partition has to pause for the quota."""
        quota = self.follower_quota
        if size:
            quota.record(partition.topic, partition.index, size, now_ms)
        in_sync = partition.node_id in partition.isr
        return not in_sync and quota.holds_back(partition.topic, partition.index, now_ms)

    def _limits(self) -> FetchLimits:
        config = self._config()
        return FetchLimits(
            partition_bytes_max=config.replica_fetch_max_bytes,
            response_bytes_max=config.replica_fetch_response_max_bytes,
            bytes_min=config.replica_fetch_min_bytes,
            wait_ms_max=config.replica_fetch_wait_max_ms,
            backoff_ms_max=config.replica_fetch_backoff_ms,
        )
