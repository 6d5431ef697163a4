"""Writes changes of in-sync sets (ISRs) to the metadata store.

A leader changes its partition's ISR by compare-and-set, within its own epoch. Until the store has
answered, the larger of the two sets counts (`FollowerProgress`). If another broker was faster, the
write is dropped: that broker's state arrives with the next image, and the leader decides again. If
the outcome of a write is unknown, it is tried again until it is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.image import PartitionRegistration
from ottla.cluster.leader_election import alter_isr
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.store import Conflict, KeyChange, MetaStore, MetaStoreError, Write
from ottla.errors import KafkaError
from ottla.replica.partition import Partition

WRITES_PER_COMMIT_MAX: Final = 100  # sets written in one commit
RETRY_S: Final = 0.2

log = logging.getLogger("ottla.replica")


class IsrWrite(NamedTuple):
    """A new ISR for a partition, decided by its leader on the basis of `state`.

    `broker_epochs` has the brokers that join, and the epoch in which each caught up. A broker
    that has restarted since may have lost what it had, so its new epoch must not join (KIP-903).
    """

    partition: Partition
    state: PartitionRegistration
    isr: tuple[int, ...]
    broker_epochs: dict[int, int]

    @property
    def key(self) -> str:
        return layout.state_key(self.partition.topic, self.partition.index)

    @property
    def is_current(self) -> bool:
        """True if the partition's state has not changed since."""
        partition = self.partition
        return (
            partition.leads
            and partition.leader_epoch == self.state.leader_epoch
            and partition.version == self.state.version
        )


class IsrWrites:
    """The queue of writes: one commit at a time, each with many of them."""

    def __init__(self, store: MetaStore, metadata: MetadataCache) -> None:
        self._store = store
        self._metadata = metadata
        self._writer = MetadataWriter(store, metadata)
        self._queue: deque[IsrWrite] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.shrunk = 0  # how often an ISR has lost members
        self.expanded = 0  # and how often it has gained some

    def submit(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Write this ISR. Until the store has answered, the larger set counts."""
        followers = partition.followers
        if followers is None or followers.pending is not None or self._stopped:
            return
        followers.begin(isr)
        broker_epochs = {
            follower.broker_id: follower.broker_epoch
            for follower in followers
            if follower.broker_id in isr and follower.broker_id not in partition.isr
        }
        self._queue.append(IsrWrite(partition, partition.state, isr, broker_epochs))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="write-isr")

    async def stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._queue:
                count = min(len(self._queue), WRITES_PER_COMMIT_MAX)
                writes = [self._queue.popleft() for _ in range(count)]
                await self._write([write for write in writes if write.is_current])
        except Exception:
            log.exception("Failed to write ISR changes")
        finally:
            self._task = None

    async def _write(self, writes: list[IsrWrite]) -> None:
        if not writes:
            return
        # Several writes that add the same broker need its epoch to be checked only once.
        keys = dict.fromkeys(key for write in writes for key in self._key_writes(write))
        try:
            await self._writer.commit(list(keys))
        except Conflict:
            if len(writes) == 1:
                await self._resolve_conflict(writes[0])
                return
            for write in writes:  # one of them conflicts, the others need not
                if write.is_current:
                    await self._write([write])
            return
        except KafkaError as error:
            log.warning("ISR changes may not have been written: %s", error)
            await asyncio.sleep(RETRY_S)
            self._queue.extend(writes)  # if it was written, the next try conflicts and finds out
            return
        for write in writes:
            self._log_change(write)

    def _key_writes(self, write: IsrWrite) -> list[Write]:
        topic = write.partition.topic
        return alter_isr(self._metadata.image, topic, write.state, write.isr, write.broker_epochs)

    async def _resolve_conflict(self, write: IsrWrite) -> None:
        """Find out why a write failed: another broker changed the state, an earlier write of ours
        succeeded without an answer, or a broker that was to join has restarted."""
        try:
            entry = await self._store.get(write.key)
        except MetaStoreError:
            await asyncio.sleep(RETRY_S)
            self._queue.append(write)
            return
        self._metadata.apply([KeyChange(write.key, entry)])
        followers = write.partition.followers
        # The state that this write replaces is still the current one. So the check of a joining
        # broker's epoch has failed: that broker has restarted and must not join (KIP-903).
        if write.is_current and followers is not None:
            followers.give_up()

    def _log_change(self, write: IsrWrite) -> None:
        shrunk = len(write.isr) < len(write.state.isr)
        if shrunk:
            self.shrunk += 1
        else:
            self.expanded += 1
        name, before, after = write.partition.name, _listed(write.state.isr), _listed(write.isr)
        if shrunk:
            log.warning("Shrinking ISR for partition %s from %s to %s", name, before, after)
        else:
            log.info("Expanding ISR for partition %s from %s to %s", name, before, after)


def _listed(isr: Iterable[int]) -> str:
    return ",".join(map(str, isr))
