"""Noticing that a broker's process is gone, sooner than the store does.

Every broker keeps an idle line to every other. When a process ends, its machine closes its
connections and refuses new ones: a line that breaks and can't be opened anew because nobody listens
there means that the broker is dead, within milliseconds. The controller then ends it, and everybody
ends the controller. A machine that is gone, or a network that is cut, refuses nothing; for these
the session's end counts.

From the moment that its line breaks a broker is in doubt, and clients who ask for leaders are
answered when that is over: they have seen their own lines break, ask before anybody has been
elected, and librdkafka would take the dead leader's name for a second's peace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Final

from ottla.cluster.image import Broker as BrokerImage
from ottla.cluster.image import Image
from ottla.cluster.store import StoreError
from ottla.errors import KafkaError
from ottla.net.line import Unreachable

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

CONNECT_S_MAX: Final = 5.0
RETRY_S: Final = 0.2
DOUBT_S_MAX: Final = 0.5
"""After this a client is told what the cluster says, whatever we think of it."""

log = logging.getLogger("ottla.broker")


class Lookout:
    """One task for each broker that is watched, as the images say which these are."""

    def __init__(self, broker: Broker, expel: Callable[[BrokerImage], Awaitable[object]]) -> None:
        self._broker = broker
        self._expel = expel
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # by broker: epoch, task
        self.watched: set[int] = set()  # to whom a line stands
        self._doubts: dict[int, float] = {}  # by broker: since when
        self._over = asyncio.Event()  # something has changed for who is in doubt
        self._started = False

    def start(self) -> None:
        self._started = True
        self._broker.metadata.on_image(self._on_image)
        self._on_image(self._broker.image)

    async def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        self._broker.metadata.off_image(self._on_image)
        tasks = [task for _, task in self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def has_doubts(self) -> bool:
        return bool(self._doubts)

    async def settle(self, leaders: Callable[[], Collection[int]]) -> None:
        """Wait while one of them is in doubt; they may be others with the next image."""
        loop = asyncio.get_running_loop()
        while True:
            since = [self._doubts[each] for each in leaders() if each in self._doubts]
            left_s = max(since, default=0.0) + DOUBT_S_MAX - loop.time()
            if not since or left_s <= 0:
                return
            self._over.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._over.wait()

    def _doubt(self, broker: BrokerImage) -> None:
        self._doubts.setdefault(broker.id, asyncio.get_running_loop().time())

    def _trust(self, broker: BrokerImage) -> None:
        self.watched.add(broker.id)
        self._doubts.pop(broker.id, None)
        self._over.set()

    def _on_image(self, image: Image) -> None:
        wanted = self._wanted(image)
        for broker_id, (epoch, task) in list(self._tasks.items()):
            if broker_id not in wanted or wanted[broker_id].epoch != epoch:
                task.cancel()
                del self._tasks[broker_id]
        self._forget(image)
        for broker_id, broker in wanted.items():
            if broker_id not in self._tasks:
                name = f"lookout-{broker_id}"
                task = asyncio.get_running_loop().create_task(self._watch(broker), name=name)
                self._tasks[broker_id] = broker.epoch, task

    def _forget(self, image: Image) -> None:
        """Who is gone stays in doubt until others lead, or it was long enough."""
        now = asyncio.get_running_loop().time()
        for broker_id, since in list(self._doubts.items()):
            if broker_id not in image.brokers and now - since > DOUBT_S_MAX:
                del self._doubts[broker_id]
        self._over.set()

    def _wanted(self, image: Image) -> dict[int, BrokerImage]:
        me = self._broker.node_id
        if me not in image.brokers:
            return {}  # we may be the one that is cut off
        return {each.id: each for each in image.brokers.values() if each.id != me}

    async def _watch(self, broker: BrokerImage) -> None:
        """Until this life of the broker is over."""
        while True:
            try:
                line = await self._broker.neighbours.open(broker.id, timeout_s=CONNECT_S_MAX)
            except Unreachable as error:
                if error.refused:
                    await self._end(broker)
            except KafkaError as error:
                log.debug("broker %d: %s", broker.id, error)
            else:
                self._trust(broker)
                try:
                    await line.closed.wait()
                finally:
                    line.close()
                    self.watched.discard(broker.id)
                self._doubt(broker)
                continue  # at once: it may have been the end
            await asyncio.sleep(RETRY_S)

    async def _end(self, broker: BrokerImage) -> None:
        if self._broker.image.controller_id not in (self._broker.node_id, broker.id):
            return  # that is the controller's to do
        try:
            await self._expel(broker)
        except (StoreError, KafkaError) as error:
            log.warning("broker %d is gone, but could not be removed: %s", broker.id, error)
