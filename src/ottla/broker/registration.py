"""Keeps this broker registered, from start to stop, and registers it again after a lost session.

A registration is lost with its session, or when the controller took the broker for dead and deleted
it. From then on others may lead its partitions, so it leads none until it is registered again, in
another broker epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.features import SUPPORTED, check_supported
from ottla.cluster.cluster_membership import ClusterMembership
from ottla.cluster.controlled_shutdown import controlled_shutdown, leave_isrs_at_startup
from ottla.cluster.store import MetaStoreError
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.cluster.metadata_cache import MetadataCache
    from ottla.cluster.metadata_writer import MetadataWriter
    from ottla.cluster.store import MetaStore
    from ottla.config import Listener, ServerConfig
    from ottla.storage.log_dir import LogDir

RETRY_S: Final = 0.5
EXPIRY_S_MORE: Final = 3.0
"""A ZooKeeper server ends sessions once in a tick, and later if it has just started."""

log = logging.getLogger("ottla.broker")


class Registration:
    """This broker's registration: `register`, then `watch`; later `unwatch`, then `leave`."""

    def __init__(
        self,
        store: MetaStore,
        writer: MetadataWriter,
        metadata: MetadataCache,
        *,
        broker_id: int,
        config: Callable[[], ServerConfig],
        listeners: tuple[Listener, ...],
        dirs: Sequence[LogDir],
        now_ms: Callable[[], int],
        on_lost: Callable[[], None],
        on_regained: Callable[[], None],
        on_replaced: Callable[[], None],
    ) -> None:
        """`listeners` are the advertised ones.

        `on_lost` is called when others may begin to lead our partitions, `on_regained` when this
        broker is registered again, and `on_replaced` when another broker has taken its id.
        """
        self._store = store
        self._writer = writer
        self._metadata = metadata
        self._broker_id = broker_id
        self._config = config
        self._listeners = listeners
        self._dirs = dirs
        self._now_ms = now_ms
        self._on_lost = on_lost
        self._on_regained = on_regained
        self._on_replaced = on_replaced
        self._membership: ClusterMembership
        self._watching: asyncio.Task[None] | None = None

    async def register(self) -> None:
        """KafkaError if another live broker has this id, or the cluster needs a newer release."""
        check_supported(self._metadata.image)
        self._membership = await self._register()

    def watch(self) -> None:
        """Register again whenever the registration is lost."""
        self._watching = asyncio.create_task(self._watch(), name="registration")

    async def unwatch(self) -> None:
        """Stop watching. The registration stays until its session ends."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None

    async def controlled_shutdown(self) -> None:
        """Move leadership to other brokers where they can take it, and leave all ISRs."""
        broker = self._membership.broker
        await controlled_shutdown(self._store, self._writer, self._metadata, broker)

    async def leave(self) -> None:
        await self._membership.leave()

    async def _register(self) -> ClusterMembership:
        config = self._config()
        expiry_s = config.zookeeper_session_timeout_ms / 1000 + EXPIRY_S_MORE
        return await ClusterMembership.register(
            self._store,
            self._metadata,
            broker_id=self._broker_id,
            listeners=self._listeners,
            rack=config.broker_rack,
            now_ms=self._now_ms(),
            directories=[
                directory.directory_id for directory in self._dirs if directory.directory_id
            ],
            features=SUPPORTED,
            timeout_s=expiry_s if config.zookeeper_connect else 0,
            leave_isrs=lambda: leave_isrs_at_startup(self._writer, self._metadata, self._broker_id),
        )

    async def _watch(self) -> None:
        while True:
            await self._membership.ephemeral_key.lost.wait()
            log.warning(
                "Lost the registration of broker %d: it leads nothing until it is registered again",
                self._broker_id,
            )
            self._on_lost()
            membership = await self._register_again()
            if membership is None:
                return
            self._membership = membership
            self._on_regained()
            log.info("Registered broker %d with epoch %d", *_id_and_epoch(membership))

    async def _register_again(self) -> ClusterMembership | None:
        """Retry for as long as it takes; None if another broker has taken this id."""
        while True:
            try:
                return await self._register()
            except KafkaError as error:
                if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    log.error("Failed to register this broker again: %s", error)
                    self._on_replaced()
                    return None
                log.warning("Registration failed, retrying: %s", error)
            except MetaStoreError as error:
                log.warning("Registration failed, retrying: %s", error)
            except Exception:  # a bug must not leave the broker out of the cluster for good
                log.exception("Registration failed, retrying")
            await asyncio.sleep(RETRY_S)


def _id_and_epoch(membership: ClusterMembership) -> tuple[int, int]:
    return membership.broker.id, membership.broker.epoch
