"""Replication, as this broker takes part in it: it follows, and it keeps in-sync sets true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replication_quotas import ReplicationQuota
from ottla.cluster.store import MetaStore
from ottla.net.line import Line
from ottla.replica.fetching import Fetching
from ottla.replica.follower import Limits
from ottla.replica.isr_writes import IsrWrites
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


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

    def broker_epoch(self) -> int:
        """Of this life of ours, as the cluster knows it."""
        me = self._broker.image.brokers.get(self._broker.node_id)
        return me.epoch if me is not None else -1

    def check_isr(self, now_ms: int) -> None:
        """Who has lagged for too long leaves the set; half of that time apart is often enough."""
        for partition in self._broker.partitions:
            followers = partition.followers
            if followers is None:
                continue
            smaller = followers.lagging(partition.log.end_offset, now_ms)
            if smaller is not None:
                self.isr_writes.want(partition, smaller)
            else:
                partition.advance(now_ms)  # it may have waited for one that did not join

    async def stop(self) -> None:
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
