"""A follower played by the test: a lone broker's partition waits as if in a cluster."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.cluster.image import PartitionRegistration
from ottla.replica.partition import Partition

OTHER = 77  # a broker that does not exist


class PlayedFollower:
    """In sync with the partition until the leader appends more; `fetch` lets it catch up."""

    def __init__(self, broker: Broker, topic: str, index: int = 0) -> None:
        self.broker = broker
        self.partition: Partition = broker.partitions.find(topic, index)
        self._apply(self.partition.node_id, self.partition.leader_epoch)
        self.fetch()

    def fetch(self) -> None:
        end = self.partition.log.end_offset
        now_ms = self.broker.clock.now_ms()
        self.partition.fetched(OTHER, end, start_offset=0, broker_epoch=-1, now_ms=now_ms)

    def take_over(self) -> None:
        """Makes the played broker the leader; the broker learns it from an image."""
        self._apply(OTHER, self.partition.leader_epoch + 1)
        now_ms = self.broker.clock.now_ms()
        self.broker.groups.apply(self.broker.image, now_ms)
        self.broker.transactions.apply(self.broker.image, now_ms)
        self.broker.shares.apply(self.broker.image, now_ms)

    def give_back(self) -> None:
        """Makes the broker the leader again, in a third epoch, with its log unchanged."""
        self._apply(self.partition.node_id, self.partition.leader_epoch + 1)
        now_ms = self.broker.clock.now_ms()
        self.broker.groups.apply(self.broker.image, now_ms)
        self.broker.transactions.apply(self.broker.image, now_ms)

    def _apply(self, leader: int, leader_epoch: int) -> None:
        replicas = (self.partition.node_id, OTHER)
        state = PartitionRegistration(
            self.partition.index, replicas, leader, leader_epoch, replicas, version=1_000
        )
        self.partition.apply(
            state,
            self.broker.clock.now_ms(),
            live={OTHER: 1},
            lag_max_ms=60_000,
            may_lead=True,
        )
