"""How a broker leaves the ISRs: before it shuts down, and when it starts again.

The broker writes these changes itself, without the controller. They are the ones which the
controller would decide on, and every write names the version that it replaces.
"""

from __future__ import annotations

from ottla.cluster import layout
from ottla.cluster.image import BrokerRegistration
from ottla.cluster.leader_election import broker_failed, broker_shutting_down
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.store import Conflict, MetaStore, Put


async def leave_isrs_at_startup(
    writer: MetadataWriter, metadata: MetadataCache, broker_id: int
) -> None:
    """Leave every ISR of which this broker is not the only member, and lead nothing.

    Called at startup, because the broker may have lost the end of its logs, or restarted before its
    session expired. The cache is refreshed first, so that ISRs which the former process joined at
    its very end are seen.
    """
    await metadata.refresh()
    await writer.commit_until_done(lambda image: broker_failed(image, broker_id))


async def controlled_shutdown(
    store: MetaStore, writer: MetadataWriter, metadata: MetadataCache, broker: BrokerRegistration
) -> None:
    """Move leadership to other brokers, and leave the ISRs, before this broker stops.

    The broker raises its epoch counter first: from then on no leader can add it to an ISR
    (KIP-841). The refresh after that shows the ISRs to which it was added before.
    """
    key = layout.broker_epoch_key(broker.id)
    entry = await store.get(key)
    if entry is None or layout.load(entry) != broker.epoch:
        return  # another process has this id now: the counter and the ISRs belong to that one
    try:
        await writer.commit([Put(key, layout.dump(broker.epoch + 1), entry.version)])
    except Conflict:
        return
    await metadata.refresh()
    await writer.commit_until_done(lambda image: broker_shutting_down(image, broker.id))


async def leave_isrs_at_shutdown(writer: MetadataWriter, broker_id: int) -> None:
    """Leave all ISRs as the last step of a shutdown, so that no leader waits for this broker."""
    await writer.commit_until_done(lambda image: broker_failed(image, broker_id))
