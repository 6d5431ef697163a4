"""Replication, as this broker takes part in it: it follows, and it keeps in-sync sets true."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.replication_quotas import ReplicationQuota
from ottla.cluster.commits import Commits
from ottla.cluster.decisions_elections import replicas_failed
from ottla.cluster.store import MetaStore
from ottla.errors import KafkaError
from ottla.net.line import Line
from ottla.replica.fetching import Fetching
from ottla.replica.follower import Limits
from ottla.replica.isr_writes import IsrWrites
from ottla.replica.partition import Partition
from ottla.storage.directory import LogDir

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


RETRY_S: Final = 1.0
SLACK_MS: Final = 500

log = logging.getLogger("ottla.broker")


class Replication:
    """Lives as long as the broker does; partitions tell it of their roles."""

    def __init__(self, broker: Broker, store: MetaStore) -> None:
        self._broker = broker
        self.fetching = Fetching(
            broker.node_id,
            open_line=self._open,
            clock=broker.clock,
            broker_epoch=self.broker_epoch,
            limits=self._limits,
            timeout_s=broker.config.replica_socket_timeout_ms / 1000,
            throttle=self._throttle,
        )
        self.isr_writes = IsrWrites(store, broker.metadata)
        self._commits = Commits(store, broker.metadata)
        self._tasks: set[asyncio.Task[None]] = set()
        self._checked_ms = broker.clock.now_ms()
        self.leader_quota = ReplicationQuota(
            broker,
            "leader.replication.throttled.replicas",
            lambda: broker.config.leader_replication_throttled_rate,
        )
        self.follower_quota = ReplicationQuota(
            broker,
            "follower.replication.throttled.replicas",
            lambda: broker.config.follower_replication_throttled_rate,
        )

    def on_role(self, partition: Partition, gone: bool) -> None:
        self.fetching.update(partition, gone=gone)

    def on_brokers(self, born: list[int]) -> None:
        for broker_id in born:
            self.fetching.nudge(broker_id)

    def broker_epoch(self) -> int:
        """Of this life of ours, as the cluster knows it."""
        me = self._broker.image.brokers.get(self._broker.node_id)
        return me.epoch if me is not None else -1

    def check_isr(self, now_ms: int) -> None:
        """Who has lagged for too long leaves the set; half of that time apart is often enough.

        If the last look is much longer ago, this process was stopped, or the clock was set: then
        nobody knows whether others lagged, and the next look will tell.
        """
        interval_ms = self._broker.config.replica_lag_time_max_ms // 2
        slept = now_ms - self._checked_ms > 1.5 * interval_ms + SLACK_MS
        self._checked_ms = now_ms
        if slept:
            return
        for partition in self._broker.partitions:
            followers = partition.followers
            if followers is None:
                continue
            smaller = followers.lagging(partition.log.end_offset, now_ms)
            if smaller is not None:
                self.isr_writes.want(partition, smaller)
            else:
                partition.advance(now_ms)  # it may have waited for one that did not join

    def on_offline(self, directory: LogDir) -> None:
        """A disk has failed: others lead what was on it, if they can."""
        failed = {
            (each.topic, each.index)
            for each in self._broker.partitions
            if each.log.dir is directory and len(each.replicas) > 1
        }
        for each in self._broker.partitions:
            if each.log.dir is directory:
                self.fetching.update(each)
        if failed:
            task = asyncio.get_running_loop().create_task(self._give_up(failed))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _give_up(self, failed: set[tuple[str, int]]) -> None:
        broker_id = self._broker.node_id
        while True:
            try:
                await self._commits.carry_out_each(
                    lambda image: replicas_failed(image, broker_id, failed)
                )
                return
            except KafkaError as error:
                log.warning("nobody was told of the failed disk yet: %s", error)
            await asyncio.sleep(RETRY_S)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.fetching.stop()
        await self.isr_writes.stop()

    def _throttle(self, partition: Partition, size: int, now_ms: int) -> bool:
        """Note what was fetched, and say whether the partition has to wait before it goes on."""
        quota = self.follower_quota
        if size:
            quota.record(partition.topic, partition.index, size, now_ms)
        in_sync = partition.node_id in partition.isr
        return not in_sync and quota.holds_back(partition.topic, partition.index, now_ms)

    async def _open(self, leader_id: int) -> Line:
        return await self._broker.neighbours.open(leader_id)

    def _limits(self) -> Limits:
        config = self._broker.config
        return Limits(
            partition_bytes_max=config.replica_fetch_max_bytes,
            response_bytes_max=config.replica_fetch_response_max_bytes,
            bytes_min=config.replica_fetch_min_bytes,
            wait_ms_max=config.replica_fetch_wait_max_ms,
            backoff_ms_max=config.replica_fetch_backoff_ms,
        )
