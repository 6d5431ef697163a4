"""Sessions on a ZooKeeper server that all tests share, each test in a chroot of its own."""

from __future__ import annotations

import asyncio
import uuid

from kazoo.client import KazooClient

from ottla.cluster.store import MetaStore
from ottla.cluster.zookeeper import ZooKeeperStore

SESSION_TIMEOUT_S = 6.0


class ZooKeeperStores:
    def __init__(self, hosts: str) -> None:
        self.connect = f"{hosts}/test-{uuid.uuid4().hex}"

    async def open(self, session_timeout_s: float = SESSION_TIMEOUT_S) -> ZooKeeperStore:
        return await ZooKeeperStore.open(
            self.connect, session_timeout_s=session_timeout_s, connection_timeout_s=60
        )

    async def expire(self, store: MetaStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        await asyncio.to_thread(expire, store)


def expire(store: ZooKeeperStore) -> None:
    """Whoever has a session's id and password may end it: ZooKeeper's usual way to test this."""
    owner = store._mirror.client._kazoo
    other = KazooClient(owner.hosts and ",".join(f"{h}:{p}" for h, p in owner.hosts))
    other._session_id, other._session_passwd = owner._session_id, owner._session_passwd
    other.start(timeout=30)
    other.stop()
    other.close()
