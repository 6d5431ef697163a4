"""Changes of in-sync sets, on their way into the store.

A leader changes its partition's set by compare and set, in its own epoch and nothing else. Until
the store has answered the larger of the two sets counts (`leader.Followers`). When somebody else
was faster the wish is void: his word comes with the next image, and then we look again. When
nobody knows whether it was written, it is tried until that is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import Change, Check, Conflict, Entry, MetaStore, Put, StoreError
from ottla.replica.partition import Partition

TOGETHER_MAX: Final = 100  # sets written in one commit
RETRY_S: Final = 0.2

log = logging.getLogger("ottla.replica")


class Wish(NamedTuple):
    """A set for a partition, by its leader of this epoch, who knows this version of its state.

    `lives` are the brokers that join, each with the epoch of the life that has caught up: one that
    has died since may have lost what it had, and its next life must not be taken for it (KIP-903).
    """

    partition: Partition
    isr: tuple[int, ...]
    leader_epoch: int
    version: int
    lives: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> str:
        return layout.state_key(self.partition.topic, self.partition.index)

    @property
    def stands(self) -> bool:
        """Whether nothing has changed since."""
        partition = self.partition
        return (
            partition.leads
            and partition.leader_epoch == self.leader_epoch
            and partition.version == self.version
        )


class IsrWrites:
    """What is to be written, many at a time, one after the other."""

    def __init__(self, store: MetaStore, metadata: Metadata) -> None:
        self._store = store
        self._metadata = metadata
        self._queue: deque[Wish] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.shrunk = 0  # how often a set has lost members, and gained some
        self.expanded = 0

    def want(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Have this set written; until it is known to be, the larger one counts."""
        followers = partition.followers
        if followers is None or followers.pending is not None or self._stopped:
            return
        followers.begin(isr)
        lives = tuple(
            (each.broker_id, each.broker_epoch)
            for each in followers
            if each.broker_id in isr and each.broker_id not in partition.isr
        )
        self._queue.append(Wish(partition, isr, partition.leader_epoch, partition.version, lives))
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
                count = min(len(self._queue), TOGETHER_MAX)
                wishes = [self._queue.popleft() for _ in range(count)]
                await self._write([each for each in wishes if each.stands])
        except Exception:
            log.exception("in-sync sets could not be written")
        finally:
            self._task = None

    async def _write(self, wishes: list[Wish]) -> None:
        if not wishes:
            return
        writes = [self._put(each) for each in wishes]
        checks = {check.key: check for each in wishes for check in _same_lives(each)}
        try:
            versions = await self._store.commit([*writes, *checks.values()])
        except Conflict:
            if len(wishes) == 1:
                await self._look(wishes[0])
                return
            for each in wishes:  # one of them fails, the others need not
                if each.stands:
                    await self._write([each])
            return
        except StoreError as error:
            log.warning("in-sync sets were perhaps not written: %s", error)
            await asyncio.sleep(RETRY_S)
            self._queue.extend(wishes)  # one that was written conflicts with itself, and is seen
            return
        for each in wishes:
            self._say(each)
        self._metadata.apply(
            [
                Change(write.key, Entry(write.value, version))
                for write, version in zip(writes, versions[: len(writes)], strict=True)
            ]
        )

    def _put(self, wish: Wish) -> Put:
        partition = wish.partition
        epoch = self._metadata.image.controller_epoch
        value = layout.dump_state(partition.node_id, wish.leader_epoch, wish.isr, epoch)
        return Put(wish.key, value, wish.version)

    async def _look(self, wish: Wish) -> None:
        """Somebody else has changed the state, or we did and were not told: see what it is."""
        try:
            entry = await self._store.get(wish.key)
        except StoreError:
            await asyncio.sleep(RETRY_S)
            self._queue.append(wish)
            return
        self._metadata.apply([Change(wish.key, entry)])
        followers = wish.partition.followers
        if wish.stands and followers is not None:  # as before: then it will come with an image
            followers.give_up()

    def _say(self, wish: Wish) -> None:
        before = wish.partition.isr
        name = wish.partition.name
        if len(wish.isr) < len(before):
            self.shrunk += 1
            log.warning("%s: in sync are now %s, before %s", name, wish.isr, before)
        else:
            self.expanded += 1
            log.info("%s: in sync are now %s, before %s", name, wish.isr, before)


def _same_lives(wish: Wish) -> list[Check]:
    """A broker counts its epoch up before it looks which sets it has to leave: so either the count
    makes this write fail, or that look finds what it wrote."""
    return [
        Check(layout.broker_epoch_key(broker_id), epoch - 1)  # versions count from 0
        for broker_id, epoch in wish.lives
    ]
