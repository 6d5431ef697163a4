"""One task for as long as a broker lives: it becomes the controller when nobody is, and rules then.

It looks after every image, and now and then besides, because a commit may have failed. Whoever has
lost the controller's key campaigns again like all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from ottla.cluster.controller import Controller
from ottla.cluster.image import Image
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import StoreError
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError

LOOK_INTERVAL_S = 1.0
NOBODY = -1

log = logging.getLogger("ottla.cluster")


class Campaign:
    """`start` when this broker is registered; `stop` gives up the key, if it is ours."""

    def __init__(
        self,
        controller: Controller,
        metadata: Metadata,
        *,
        broker_id: int,
        config: Callable[[], ServerConfig],
        now_ms: Callable[[], int],
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._broker_id = broker_id
        self._config = config
        self._now_ms = now_ms
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._rebalanced_ms = 0

    async def start(self) -> None:
        """When this returns there is a controller, if the store could be asked for one."""
        self._rebalanced_ms = self._now_ms()
        await self._round()
        self._metadata.on_image(self._on_image)
        self._task = asyncio.create_task(self._run(), name="campaign")

    async def stop(self) -> None:
        await self.halt()
        with contextlib.suppress(StoreError):
            await self._controller.resign()

    async def halt(self) -> None:
        """No more rounds; the key stays as it is, as after a crash."""
        if self._task is not None:
            self._metadata.off_image(self._on_image)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _on_image(self, image: Image) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_INTERVAL_S):
                    await self._wake.wait()
            self._wake.clear()
            await self._round()

    async def _round(self) -> None:
        try:
            if self._controller.overtaken:
                await self._controller.resign()
            if self._may_stand() and await self._controller.elect(self._now_ms()):
                log.info("broker %d is the controller", self._broker_id)
            if self._controller.active:
                await self._rule()
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                log.warning("the controller will try again: %s", error)
        except StoreError as error:
            log.warning("the controller will try again: %s", error)
        except Exception:  # a bug must not leave the cluster without a controller for good
            log.exception("the controller failed, and will try again")

    def _may_stand(self) -> bool:
        image = self._metadata.image
        free = image.controller_id in (NOBODY, self._broker_id)
        return free and not self._controller.active and self._broker_id in image.brokers

    async def _rule(self) -> None:
        if self._broker_id not in self._metadata.image.brokers:
            await self._controller.resign()  # no member any more: no controller either
            return
        await self._controller.settle()
        config = self._config()
        now_ms = self._now_ms()
        interval_ms = config.leader_imbalance_check_interval_seconds * 1000
        if config.auto_leader_rebalance_enable and now_ms - self._rebalanced_ms >= interval_ms:
            self._rebalanced_ms = now_ms
            await self._controller.rebalance()
