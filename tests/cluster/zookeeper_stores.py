"""Sessions on a ZooKeeper server that all tests share, each test in its own chroot."""

from __future__ import annotations

import asyncio
import uuid

from kazoo.client import KazooClient

from ottla.cluster.store import MetaStore
from ottla.cluster.zookeeper_store import ZooKeeperStore

SESSION_TIMEOUT_S = 6.0
CONNECT_S_MAX = 300.0


class ZooKeeperStores:
    def __init__(self, hosts: str) -> None:
        self.connect = f"{hosts}/test-{uuid.uuid4().hex}"

    async def open(self, session_timeout_s: float = SESSION_TIMEOUT_S) -> ZooKeeperStore:
        return await ZooKeeperStore.open(
            self.connect, session_timeout_s=session_timeout_s, connection_timeout_s=CONNECT_S_MAX
        )

    async def expire(self, store: MetaStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        await asyncio.to_thread(expire, store)


def expire(store: ZooKeeperStore) -> None:
    """Expire a session by its id and password, ZooKeeper's usual way to test this."""
    owner = store._mirror.client._kazoo
    other = KazooClient(owner.hosts and ",".join(f"{h}:{p}" for h, p in owner.hosts))
    other._session_id, other._session_passwd = owner._session_id, owner._session_passwd
    other.start(timeout=CONNECT_S_MAX)
    other.stop()
    other.close()
