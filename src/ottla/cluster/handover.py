"""What a broker decides about itself, when it goes and when it comes back.

It needs no controller for that: the decisions are those which the controller would make, and
every write says which state it replaces.
"""

from __future__ import annotations

from ottla.cluster import layout
from ottla.cluster.commits import Commits
from ottla.cluster.decisions_elections import broker_gone, broker_leaving
from ottla.cluster.image import Broker
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import Conflict, MetaStore, Put


async def step_back(commits: Commits, metadata: Metadata, broker_id: int) -> None:
    """Leave every in-sync set of which this broker is not the only member, and lead nothing.

    For a broker that comes to life: it may have lost the end of its logs, or been restarted faster
    than anybody noticed. What its last life was added to before must be seen, so all is read anew.
    """
    await metadata.refresh()
    await commits.carry_out_each(lambda image: broker_gone(image, broker_id))


async def controlled_shutdown(
    store: MetaStore, commits: Commits, metadata: Metadata, broker: Broker
) -> None:
    """Let others lead what they can, and leave the in-sync sets, before this broker stops.

    The broker counts its epoch up first: from then on no leader can add it to a set (KIP-841). A
    leader that did so before is seen, because all is read after that.
    """
    key = layout.broker_epoch_key(broker.id)
    entry = await store.get(key)
    if entry is None or layout.load(entry) != broker.epoch:
        return  # another process has our id now: the counter and the sets are that broker's
    try:
        await commits.commit([Put(key, layout.dump(broker.epoch + 1), entry.version)])
    except Conflict:
        return
    await metadata.refresh()
    await commits.carry_out_each(lambda image: broker_leaving(image, broker.id))


async def leave_sets(commits: Commits, broker_id: int) -> None:
    """Let nobody wait for this broker any more: its last act before it is gone."""
    await commits.carry_out_each(lambda image: broker_gone(image, broker_id))
