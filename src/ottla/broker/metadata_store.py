"""Opens a broker's metadata store, for the broker and for tools before its first start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from ottla.cluster.cluster_membership import cluster_id
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.runtime_settings import RuntimeSettings
from ottla.cluster.store import MetaStore, MetaStoreError
from ottla.config import ServerConfig
from ottla.extras import install_command
from ottla.storage.formatted import formatted_cluster_id

JOURNAL = "ottla-metadata.journal"

R = TypeVar("R")


async def open_metadata_store(config: ServerConfig) -> MetaStore:
    """Open the store of this broker's metadata. MetaStoreError if another process has it open."""
    if config.zookeeper_connect:
        try:
            from ottla.cluster.zookeeper_options import open_store
        except ImportError:
            message = f"zookeeper.connect needs kazoo: {install_command('zookeeper')}"
            raise MetaStoreError(message) from None
        return await open_store(config)
    path = Path(config.log_dirs[0]) / JOURNAL
    return EmbeddedStore(path, sync=config.ottla_metadata_sync_enable)


async def find_cluster_id(store: MetaStore, metadata: MetadataCache, config: ServerConfig) -> str:
    """The cluster's id. The first broker of a cluster sets it: to the one that its log directories
    were formatted with, or to a new one."""
    return await cluster_id(store, metadata, formatted=formatted_cluster_id(config.log_dirs))


async def with_metadata_store(
    config: ServerConfig, work: Callable[[MetadataCache, RuntimeSettings], Awaitable[R]]
) -> R:
    """Open the store, call `work`, and close the store."""
    store = await open_metadata_store(config)
    metadata = MetadataCache(store)
    try:
        await metadata.start()
        settings = RuntimeSettings(store, MetadataWriter(store, metadata), broker_id=config.node_id)
        return await work(metadata, settings)
    finally:
        await metadata.stop()
        await store.close()
