"""Staying one of the brokers: registered from start to stop, and again after a lost session.

A registration is lost with its session, or when somebody who took us for dead has deleted it.
Others may lead our partitions from then on, so we lead none until we are registered anew, in
another epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.features import SUPPORTED, check_supported
from ottla.cluster.handover import controlled_shutdown, step_back
from ottla.cluster.membership import Membership
from ottla.cluster.store import StoreError
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.commits import Commits
    from ottla.cluster.store import MetaStore

RETRY_S: Final = 0.5
EXPIRY_S_MORE: Final = 3.0
"""A server looks for sessions to end once in a tick, and starts late when it has just begun."""

log = logging.getLogger("ottla.broker")


class Registration:
    """`register`, then `watch`; `unwatch`, then `leave`."""

    def __init__(self, broker: Broker, store: MetaStore, commits: Commits) -> None:
        self._broker = broker
        self._store = store
        self._commits = commits
        self._membership: Membership
        self._watching: asyncio.Task[None] | None = None

    async def register(self) -> None:
        """KafkaError if another live broker has our id, or the cluster needs a newer program."""
        check_supported(self._broker.metadata.image)
        self._membership = await self._register()

    def watch(self) -> None:
        """From now on, see to it that we stay registered."""
        self._watching = asyncio.create_task(self._watch(), name="registration")

    async def unwatch(self) -> None:
        """No more; what is registered stays so until the session ends."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None

    async def controlled_shutdown(self) -> None:
        """Others lead what they can, and nobody waits for us, from when this returns."""
        metadata = self._broker.metadata
        await controlled_shutdown(self._store, self._commits, metadata, self._membership.broker)

    async def leave(self) -> None:
        await self._membership.leave()

    async def _register(self) -> Membership:
        broker = self._broker
        config = broker.config
        expiry_s = config.zookeeper_session_timeout_ms / 1000 + EXPIRY_S_MORE
        return await Membership.register(
            self._store,
            broker.metadata,
            broker_id=broker.node_id,
            listeners=broker.advertised(),
            rack=config.broker_rack,
            now_ms=broker.clock.now_ms(),
            directories=[each.directory_id for each in broker.store.dirs if each.directory_id],
            features=SUPPORTED,
            patience_s=expiry_s if config.zookeeper_connect else 0,
            step_back=lambda: step_back(self._commits, broker.metadata, broker.node_id),
        )

    async def _watch(self) -> None:
        while True:
            await self._membership.hold.lost.wait()
            log.warning(
                "broker %d is not registered any more: it leads nothing until it is again",
                self._broker.node_id,
            )
            self._broker.fence()
            membership = await self._register_again()
            if membership is None:
                return
            self._membership = membership
            self._broker.unfence()
            log.info("broker %d is registered, in epoch %d", *_names(membership))

    async def _register_again(self) -> Membership | None:
        """For as long as it takes; None if another broker has our id now."""
        while True:
            try:
                return await self._register()
            except KafkaError as error:
                if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    log.error("this broker can't go on: %s", error)
                    self._broker.failed.set()
                    return None
                log.warning("not registered, to be tried again: %s", error)
            except StoreError as error:
                log.warning("not registered, to be tried again: %s", error)
            except Exception:  # a bug must not leave the broker outside for good
                log.exception("not registered, to be tried again")
            await asyncio.sleep(RETRY_S)


def _names(membership: Membership) -> tuple[int, int]:
    return membership.broker.id, membership.broker.epoch
