"""A model of the store for decisions: versioned entries, and the image made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.cluster import layout
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import BrokerRegistration, MetadataImage, PartitionRegistration
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.replica_assignment import ReplicaAssignment
from ottla.cluster.store import Check, Create, Delete, KeyChange, Put, VersionedValue, Write
from ottla.config import Listener


class ModelStore:
    """Brokers 1 to `brokers` are alive. `commit` fails the test if a store would refuse it."""

    def __init__(self, brokers: int = 3, racks: Mapping[int, str] | None = None) -> None:
        self.entries: dict[str, VersionedValue] = {}
        self.epochs = dict.fromkeys(range(1, brokers + 1), 0)
        self.racks = racks or {}
        self._metadata = MetadataCache(EmbeddedStore(None))
        self.commit([Create(layout.CONTROLLER_EPOCH, layout.dump(7))])
        for broker_id in self.epochs:
            self.count_up(broker_id)
            self.register(broker_id)

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    @property
    def live(self) -> set[int]:
        return set(self.image.brokers)

    def commit(self, writes: Sequence[Write]) -> None:
        for write in writes:
            present = self.entries.get(write.key)
            if isinstance(write, Create):
                assert present is None, write
                self._set(write.key, VersionedValue(write.value, 0))
                continue
            assert present is not None, write
            assert write.version == present.version, write
            if isinstance(write, Put):
                self._set(write.key, VersionedValue(write.value, present.version + 1))
            elif isinstance(write, Delete):
                self._set(write.key, None)
            else:
                assert isinstance(write, Check)

    def _set(self, key: str, entry: VersionedValue | None) -> None:
        if entry is None:
            del self.entries[key]
        else:
            self.entries[key] = entry
        self._metadata.apply([KeyChange(key, entry)])

    # Brokers

    def count_up(self, broker_id: int) -> None:
        """The first step of a broker's life."""
        self.epochs[broker_id] += 1
        epoch = self.epochs[broker_id]
        self._set(layout.broker_epoch_key(broker_id), VersionedValue(layout.dump(epoch), epoch - 1))

    def register(self, broker_id: int) -> None:
        listener = Listener("PLAINTEXT", "127.0.0.1", 9090 + broker_id, "PLAINTEXT")
        rack = self.racks.get(broker_id)
        broker = BrokerRegistration(broker_id, self.epochs[broker_id], (listener,), rack)
        self._set(layout.broker_key(broker_id), VersionedValue(layout.dump_broker(broker, 0), 0))

    def die(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._set(layout.broker_key(broker_id), None)

    # Topics

    def topic(self, name: str, *partitions: Sequence[int]) -> None:
        """Replicas of each partition, all of them in sync, the first one leads."""
        assignments = [ReplicaAssignment(tuple(partition)) for partition in partitions]
        topic_id = (name * 16)[:16].encode()
        self._set(
            layout.topic_key(name), VersionedValue(layout.dump_topic(topic_id, assignments), 0)
        )
        for index, replicas in enumerate(partitions):
            self.state(name, index, leader=replicas[0], isr=replicas)

    def configure(self, name: str, **configs: str) -> None:
        values = {key.replace("_", "."): value for key, value in configs.items()}
        self._set(layout.topic_config_key(name), VersionedValue(layout.dump_config(values), 0))

    def state(self, name: str, index: int, *, leader: int, isr: Sequence[int]) -> None:
        key = layout.state_key(name, index)
        present = self.entries.get(key)
        epoch = 0
        if present is not None:
            epoch = self.partition(name, index).leader_epoch
        version = 0 if present is None else present.version + 1
        self._set(key, VersionedValue(layout.dump_state(leader, epoch, isr, 7), version))

    def partition(self, name: str = "t", index: int = 0) -> PartitionRegistration:
        return self.image.topics[name].partitions[index]

    def state_of(self, name: str = "t", index: int = 0) -> tuple[int, int, tuple[int, ...]]:
        """Leader, epoch and in-sync set."""
        partition = self.partition(name, index)
        return partition.leader, partition.leader_epoch, partition.isr
