"""Notices that a broker's process has died, sooner than the metadata store does.

Every broker keeps an idle connection to every other. When a process dies, its machine closes its
connections and refuses new ones. So a connection that breaks, and then is refused because nobody
listens, means that the broker is dead, and this is known within milliseconds. The controller then
ends the dead broker's registration; if the controller itself has died, every broker may do so. A
machine that is gone, or a network that is cut, refuses nothing: these are found by the session's
timeout.

From the moment its connection breaks, a broker is suspected. Metadata requests wait until that is
settled, because clients whose own connections broke ask before a new leader is elected, and
librdkafka would keep the dead leader's name for a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from ottla.broker.broker_connections import BrokerConnections
from ottla.cluster.image import BrokerRegistration, MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.store import MetaStoreError
from ottla.errors import KafkaError
from ottla.net.inter_broker_connection import BrokerUnreachable

CONNECT_S_MAX: Final = 5.0
RETRY_S: Final = 0.2
SUSPECT_S_MAX: Final = 0.5
"""After this a client gets the metadata as it is, although a leader is still suspected."""

log = logging.getLogger("ottla.broker")


class FailureDetector:
    """One task for each other broker in the newest image."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        connections: BrokerConnections,
        *,
        unregister: Callable[[BrokerRegistration], Awaitable[object]],
    ) -> None:
        """`unregister` ends the registration of a dead broker."""
        self._node_id = node_id
        self._metadata = metadata
        self._connections = connections
        self._unregister = unregister
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # by broker: epoch, task
        self.watched: set[int] = set()  # brokers to which there is a connection
        self._suspected: dict[int, float] = {}  # by suspected broker: since when
        self._over = asyncio.Event()  # set when something changes for the suspected brokers
        self._started = False

    def start(self) -> None:
        self._started = True
        self._metadata.add_listener(self._on_image)
        self._on_image(self._metadata.image)

    async def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        self._metadata.remove_listener(self._on_image)
        tasks = [task for _, task in self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def has_suspects(self) -> bool:
        return bool(self._suspected)

    async def wait_until_settled(self, leaders: Callable[[], Collection[int]]) -> None:
        """Wait while one of the leaders is suspected; the next image may have other leaders."""
        loop = asyncio.get_running_loop()
        while True:
            since = [self._suspected[leader] for leader in leaders() if leader in self._suspected]
            left_s = max(since, default=0.0) + SUSPECT_S_MAX - loop.time()
            if not since or left_s <= 0:
                return
            self._over.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._over.wait()

    def _suspect(self, broker: BrokerRegistration) -> None:
        self._suspected.setdefault(broker.id, asyncio.get_running_loop().time())

    def _clear(self, broker: BrokerRegistration) -> None:
        self.watched.add(broker.id)
        self._suspected.pop(broker.id, None)
        self._over.set()

    def _on_image(self, image: MetadataImage) -> None:
        brokers = self._brokers_to_watch(image)
        for broker_id, (epoch, task) in list(self._tasks.items()):
            if broker_id not in brokers or brokers[broker_id].epoch != epoch:
                task.cancel()
                del self._tasks[broker_id]
        self._forget(image)
        for broker_id, broker in brokers.items():
            if broker_id not in self._tasks:
                name = f"failure-detector-{broker_id}"
                task = asyncio.get_running_loop().create_task(self._watch(broker), name=name)
                self._tasks[broker_id] = broker.epoch, task

    def _forget(self, image: MetadataImage) -> None:
        """A dead broker remains suspected until others lead, or for SUSPECT_S_MAX."""
        now = asyncio.get_running_loop().time()
        for broker_id, since in list(self._suspected.items()):
            if broker_id not in image.brokers and now - since > SUSPECT_S_MAX:
                del self._suspected[broker_id]
        self._over.set()

    def _brokers_to_watch(self, image: MetadataImage) -> dict[int, BrokerRegistration]:
        me = self._node_id
        if me not in image.brokers:
            return {}  # not registered: this broker may be the one that is cut off
        return {broker.id: broker for broker in image.brokers.values() if broker.id != me}

    async def _watch(self, broker: BrokerRegistration) -> None:
        """Until the broker's registration ends."""
        while True:
            try:
                line = await self._connections.open(broker.id, timeout_s=CONNECT_S_MAX)
            except BrokerUnreachable as error:
                if error.refused:
                    await self._end(broker)
            except KafkaError as error:
                log.debug("Connection to broker %d failed: %s", broker.id, error)
            else:
                self._clear(broker)
                try:
                    await line.closed.wait()
                finally:
                    line.close()
                    self.watched.discard(broker.id)
                self._suspect(broker)
                continue  # connect again at once: it may be dead
            await asyncio.sleep(RETRY_S)

    async def _end(self, broker: BrokerRegistration) -> None:
        if self._metadata.image.controller_id not in (self._node_id, broker.id):
            return  # the controller does that
        try:
            await self._unregister(broker)
        except (MetaStoreError, KafkaError) as error:
            log.warning("Unregistering dead broker %d failed: %s", broker.id, error)
