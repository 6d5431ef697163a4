"""Noticing that a broker's process is gone, sooner than the store does.

The controller keeps an idle line to every broker, every broker keeps one to the controller. When a
process ends, its machine closes its connections and refuses new ones: a line that breaks and can't
be opened anew because nobody listens there means that the broker is dead, within milliseconds. A
machine that is gone, or a network that is cut, refuses nothing; for these the session's end counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
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

log = logging.getLogger("ottla.broker")


class Lookout:
    """One task for each broker that is watched, as the images say which these are."""

    def __init__(self, broker: Broker, expel: Callable[[BrokerImage], Awaitable[object]]) -> None:
        self._broker = broker
        self._expel = expel
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # by broker: epoch, task
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

    def _on_image(self, image: Image) -> None:
        wanted = self._wanted(image)
        for broker_id, (epoch, task) in list(self._tasks.items()):
            if broker_id not in wanted or wanted[broker_id].epoch != epoch:
                task.cancel()
                del self._tasks[broker_id]
        for broker_id, broker in wanted.items():
            if broker_id not in self._tasks:
                name = f"lookout-{broker_id}"
                task = asyncio.get_running_loop().create_task(self._watch(broker), name=name)
                self._tasks[broker_id] = broker.epoch, task

    def _wanted(self, image: Image) -> dict[int, BrokerImage]:
        me = self._broker.node_id
        if me not in image.brokers:
            return {}  # we may be the one that is cut off
        if image.controller_id == me:
            return {each.id: each for each in image.brokers.values() if each.id != me}
        controller = image.brokers.get(image.controller_id)
        return {} if controller is None else {controller.id: controller}

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
                try:
                    await line.closed.wait()
                finally:
                    line.close()
                continue  # at once: it may have been the end
            await asyncio.sleep(RETRY_S)

    async def _end(self, broker: BrokerImage) -> None:
        try:
            await self._expel(broker)
        except (StoreError, KafkaError) as error:
            log.warning("broker %d is gone, but could not be removed: %s", broker.id, error)
