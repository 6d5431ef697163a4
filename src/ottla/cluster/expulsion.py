"""Taking a dead broker's registration away before its session ends, which may take seconds.

Whoever knows that a broker's process is gone deletes what the broker held: its registration, and
the controller's key if it had that. Should the broker live all the same, it has merely lost its
session: it leads nothing until it has registered anew, and others can tell its lives apart.
"""

from __future__ import annotations

import logging

from ottla.cluster import layout
from ottla.cluster.commits import Commits
from ottla.cluster.image import Broker
from ottla.cluster.store import Check, Conflict, Delete, MetaStore, Write

log = logging.getLogger("ottla.cluster")


async def expel(store: MetaStore, commits: Commits, broker: Broker) -> bool:
    """End this life of a broker; False if it had ended already. StoreError, KafkaError as ever."""
    epoch_key = layout.broker_epoch_key(broker.id)
    entry = await store.get(epoch_key)
    # Its next life counts the epoch up after this registration has gone and before it makes its
    # own. So read them in this order: if the registration is still that of this life, the check of
    # the counter protects the next one. (The counter alone can't tell: a shutdown counts, too.)
    registered = await store.get(layout.broker_key(broker.id))
    if entry is None or registered is None or layout.load(registered)["epoch"] != broker.epoch:
        return False
    writes: list[Write] = [
        Check(epoch_key, entry.version),
        Delete(layout.broker_key(broker.id), layout.HELD_VERSION),
    ]
    held = await store.get(layout.CONTROLLER)
    if held is not None and layout.load(held)["brokerid"] == broker.id:
        writes.append(Delete(layout.CONTROLLER, layout.HELD_VERSION))
    try:
        await commits.commit(writes)
    except Conflict:  # somebody else was faster
        return False
    log.warning("broker %d does not listen any more: its registration is removed", broker.id)
    return True
