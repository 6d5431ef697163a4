"""The controller election: one task per broker, which becomes the controller when there is none.

The task runs after every new image, and once a second as well, because a commit may have failed. A
broker that has lost the controller's key takes part in the election again like all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from ottla.cluster.controller import Controller
from ottla.cluster.image import MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.store import MetaStoreError
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError

CHECK_INTERVAL_S = 1.0
NO_CONTROLLER = -1

log = logging.getLogger("ottla.cluster")


class ControllerElection:
    """`start` when this broker is registered; `stop` resigns if it is the controller."""

    def __init__(
        self,
        controller: Controller,
        metadata: MetadataCache,
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
        """When this returns the cluster has a controller, if the store could be reached."""
        self._rebalanced_ms = self._now_ms()
        await self._run_once()
        self._metadata.add_listener(self._on_image)
        self._task = asyncio.create_task(self._run(), name="controller-election")

    async def stop(self) -> None:
        await self.halt()
        with contextlib.suppress(MetaStoreError):
            await self._controller.resign()

    async def halt(self) -> None:
        """Stop without resigning, as a crash would: the key stays until the session ends."""
        if self._task is not None:
            self._metadata.remove_listener(self._on_image)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _on_image(self, image: MetadataImage) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL_S):
                    await self._wake.wait()
            self._wake.clear()
            await self._run_once()

    async def _run_once(self) -> None:
        try:
            if self._controller.superseded:
                await self._controller.resign()
            if self._may_be_elected() and await self._controller.elect(self._now_ms()):
                log.info(
                    "Broker %d successfully elected as the controller. Epoch incremented to %d",
                    self._broker_id,
                    self._metadata.image.controller_epoch,
                )
            if self._controller.active:
                await self._act_as_controller()
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                log.warning("Controller task failed, will retry: %s", error)
        except MetaStoreError as error:
            log.warning("Controller task failed, will retry: %s", error)
        except Exception:  # a bug must not leave the cluster without a controller for good
            log.exception("Controller task failed, will retry")

    def _may_be_elected(self) -> bool:
        image = self._metadata.image
        free = image.controller_id in (NO_CONTROLLER, self._broker_id)
        return free and not self._controller.active and self._broker_id in image.brokers

    async def _act_as_controller(self) -> None:
        if self._broker_id not in self._metadata.image.brokers:
            # Only a registered broker may be the controller: others must be able to reach it.
            await self._controller.resign()
            return
        await self._controller.reconcile()
        config = self._config()
        now_ms = self._now_ms()
        interval_ms = config.leader_imbalance_check_interval_seconds * 1000
        if config.auto_leader_rebalance_enable and now_ms - self._rebalanced_ms >= interval_ms:
            self._rebalanced_ms = now_ms
            await self._controller.rebalance()
