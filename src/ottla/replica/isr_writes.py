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
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.commits import Commits
from ottla.cluster.decisions_elections import alter_isr
from ottla.cluster.image import Partition as State
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import Change, Conflict, MetaStore, StoreError, Write
from ottla.errors import KafkaError
from ottla.replica.partition import Partition

TOGETHER_MAX: Final = 100  # sets written in one commit
RETRY_S: Final = 0.2

log = logging.getLogger("ottla.replica")


class Wish(NamedTuple):
    """A set for a partition, by its leader, who knows this state of it.

    `lives` are the brokers that join, each with the epoch of the life that has caught up: one that
    has died since may have lost what it had, and its next life must not be taken for it (KIP-903).
    """

    partition: Partition
    state: State
    isr: tuple[int, ...]
    lives: dict[int, int]

    @property
    def key(self) -> str:
        return layout.state_key(self.partition.topic, self.partition.index)

    @property
    def stands(self) -> bool:
        """Whether nothing has changed since."""
        partition = self.partition
        return (
            partition.leads
            and partition.leader_epoch == self.state.leader_epoch
            and partition.version == self.state.version
        )


class IsrWrites:
    """What is to be written, many at a time, one after the other."""

    def __init__(self, store: MetaStore, metadata: Metadata) -> None:
        self._store = store
        self._metadata = metadata
        self._commits = Commits(store, metadata)
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
        lives = {
            each.broker_id: each.broker_epoch
            for each in followers
            if each.broker_id in isr and each.broker_id not in partition.isr
        }
        self._queue.append(Wish(partition, partition.state, isr, lives))
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
        # Two that add the same life check it once.
        writes = dict.fromkeys(write for each in wishes for write in self._writes(each))
        try:
            await self._commits.commit(list(writes))
        except Conflict:
            if len(wishes) == 1:
                await self._look(wishes[0])
                return
            for each in wishes:  # one of them fails, the others need not
                if each.stands:
                    await self._write([each])
            return
        except KafkaError as error:
            log.warning("in-sync sets were perhaps not written: %s", error)
            await asyncio.sleep(RETRY_S)
            self._queue.extend(wishes)  # one that was written conflicts with itself, and is seen
            return
        for each in wishes:
            self._say(each)

    def _writes(self, wish: Wish) -> list[Write]:
        topic = wish.partition.topic
        return alter_isr(self._metadata.image, topic, wish.state, wish.isr, wish.lives)

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
        shrunk = len(wish.isr) < len(wish.state.isr)
        if shrunk:
            self.shrunk += 1
        else:
            self.expanded += 1
        level = logging.WARNING if shrunk else logging.INFO
        before, after = _listed(wish.state.isr), _listed(wish.isr)
        log.log(level, "ISR of %s changed from %s to %s", wish.partition.name, before, after)


def _listed(isr: Iterable[int]) -> str:
    return ",".join(map(str, isr))
