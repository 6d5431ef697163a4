"""Unregister a dead broker before its session expires, which may take seconds.

A broker that knows another broker's process to be dead deletes the ephemeral keys of that process:
its registration, and the controller's key if it was the controller. If the process is alive after
all, the effect is that of a lost session: it leads nothing until it has registered again, under
another broker epoch.
"""

from __future__ import annotations

import logging

from ottla.cluster import layout
from ottla.cluster.image import BrokerRegistration
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.store import Check, Conflict, Delete, MetaStore, Write

log = logging.getLogger("ottla.cluster")


async def unregister_dead_broker(
    store: MetaStore, writer: MetadataWriter, broker: BrokerRegistration
) -> bool:
    """Delete this registration; False if it is already gone. MetaStoreError, KafkaError."""
    epoch_key = layout.broker_epoch_key(broker.id)
    entry = await store.get(epoch_key)
    # The broker's next process raises the epoch counter after this registration is gone and before
    # it creates its own. So the counter is read first: if the registration read after it still has
    # the old epoch, the check of the counter's version protects the next process's registration.
    # (The counter alone proves nothing, because a controlled shutdown raises it, too.)
    registered = await store.get(layout.broker_key(broker.id))
    if entry is None or registered is None or layout.load(registered)["epoch"] != broker.epoch:
        return False
    writes: list[Write] = [
        Check(epoch_key, entry.version),
        Delete(layout.broker_key(broker.id), layout.EPHEMERAL_VERSION),
    ]
    controller = await store.get(layout.CONTROLLER)
    if controller is not None and layout.load(controller)["brokerid"] == broker.id:
        writes.append(Delete(layout.CONTROLLER, layout.EPHEMERAL_VERSION))
    try:
        await writer.commit(writes)
    except Conflict:  # another broker was faster
        return False
    log.warning(
        "Unregistered broker %d with epoch %d: it no longer accepts connections",
        broker.id,
        broker.epoch,
    )
    return True
