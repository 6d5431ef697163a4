"""A broker's metadata without the broker: for what has to be there before its first start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from ottla.cluster.commits import Commits
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.membership import cluster_id
from ottla.cluster.metadata import Metadata
from ottla.cluster.settings import Settings
from ottla.cluster.store import MetaStore, StoreError
from ottla.config import ServerConfig
from ottla.extras import install_command
from ottla.storage.formatted import formatted_cluster_id

JOURNAL = "ottla-metadata.journal"

R = TypeVar("R")


async def own_store(config: ServerConfig) -> MetaStore:
    """Where this broker keeps its metadata. StoreError if another process has it open."""
    if config.zookeeper_connect:
        try:
            from ottla.cluster.zookeeper_options import open_store
        except ImportError:
            message = f"zookeeper.connect needs kazoo: {install_command('zookeeper')}"
            raise StoreError(message) from None
        return await open_store(config)
    path = Path(config.log_dirs[0]) / JOURNAL
    return EmbeddedStore(path, sync=config.ottla_metadata_sync_enable)


async def own_cluster_id(store: MetaStore, metadata: Metadata, config: ServerConfig) -> str:
    """The cluster's; if this broker is its first, the one that its directories were formatted with
    or a new one."""
    return await cluster_id(store, metadata, formatted=formatted_cluster_id(config.log_dirs))


async def with_store(config: ServerConfig, work: Callable[[Metadata, Settings], Awaitable[R]]) -> R:
    """Open the store, do this with what is in it, close it."""
    store = await own_store(config)
    metadata = Metadata(store)
    try:
        await metadata.start()
        settings = Settings(store, Commits(store, metadata), broker_id=config.node_id)
        return await work(metadata, settings)
    finally:
        await metadata.stop()
        await store.close()
