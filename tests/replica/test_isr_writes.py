"""ISR changes on their way to the store: by version, and only with broker epochs that caught up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from test_partition import NOW_MS
from test_roles import LIVE, fetch, held, state

from ottla.cluster import layout
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.store import Put, Write
from ottla.replica.isr_writes import IsrWrites
from ottla.replica.partition import Partition

Commit = Callable[[Sequence[Write]], Awaitable[Sequence[int]]]

KEY = layout.state_key("t", 0)


async def made(isr: tuple[int, ...]) -> tuple[EmbeddedStore, IsrWrites, Partition]:
    """A partition led by 1, as in the store; LIVE has the broker epochs."""
    store = EmbeddedStore(None)
    await store.create(KEY, layout.dump_state(1, 1, isr, 0))
    for broker_id, epoch in LIVE.items():
        key = layout.broker_epoch_key(broker_id)
        await store.create(key, layout.dump(1))
        for version in range(epoch - 1):
            await store.commit([Put(key, layout.dump(version + 2), version)])
        await store.create_ephemeral(layout.broker_key(broker_id), b"{}")
    return store, IsrWrites(store, MetadataCache(store)), held(state(isr=isr))


async def stored(store: EmbeddedStore) -> list[int]:
    entry = await store.get(KEY)
    assert entry is not None
    members: list[int] = layout.load(entry)["isr"]
    return members


def counted(commit: Commit, sizes: list[int]) -> Commit:
    """Records the number of partitions in each commit."""

    async def count(writes: Sequence[Write]) -> Sequence[int]:
        sizes.append(len(writes))
        return await commit(writes)

    return count


def test_a_follower_that_caught_up_joins() -> None:
    async def run() -> None:
        store, writes, partition = await made((1, 2))
        fetch(partition, 2, 0)
        joining = fetch(partition, 3, 0)
        assert joining == (1, 2, 3)
        writes.submit(partition, joining)
        await asyncio.sleep(0)
        assert await stored(store) == [1, 2, 3]

    asyncio.run(run())


def test_a_follower_that_died_meanwhile_does_not_join() -> None:
    """Its next incarnation may lack records, and has already left its ISRs."""

    async def run() -> None:
        store, writes, partition = await made((1, 2))
        fetch(partition, 2, 0)
        joining = fetch(partition, 3, 0)
        assert joining is not None
        key = layout.broker_epoch_key(3)
        await store.commit([Put(key, layout.dump(LIVE[3] + 1), LIVE[3] - 1)])
        writes.submit(partition, joining)
        await asyncio.sleep(0)
        assert await stored(store) == [1, 2]
        assert partition.followers is not None
        assert partition.followers.pending is None  # and may be asked for again

    asyncio.run(run())


def test_a_lagging_follower_leaves_whichever_incarnation_it_is() -> None:
    async def run() -> None:
        store, writes, partition = await made((1, 2, 3))
        key = layout.broker_epoch_key(3)
        await store.commit([Put(key, layout.dump(LIVE[3] + 1), LIVE[3] - 1)])
        writes.submit(partition, (1, 2))
        await asyncio.sleep(0)
        assert await stored(store) == [1, 2]

    asyncio.run(run())


def test_a_concurrent_change_wins() -> None:
    async def run() -> None:
        store, writes, partition = await made((1, 2, 3))
        await store.commit([Put(KEY, layout.dump_state(1, 1, (1, 3), 0), 0)])
        writes.submit(partition, (1, 2))
        await asyncio.sleep(0)
        assert await stored(store) == [1, 3]
        assert partition.followers is not None
        partition.followers.lagging(0, NOW_MS)

    asyncio.run(run())


def test_partitions_that_the_same_follower_joins_are_written_together() -> None:
    async def run() -> None:
        store, writes, first = await made((1, 2))
        second = held(state(isr=(1, 2)))
        second.index = 1
        await store.create(layout.state_key("t", 1), layout.dump_state(1, 1, (1, 2), 0))
        commits: list[int] = []
        store.commit = counted(store.commit, commits)  # type: ignore[method-assign]
        for partition in (first, second):
            fetch(partition, 2, 0)
            joining = fetch(partition, 3, 0)
            assert joining is not None
            writes.submit(partition, joining)
        await asyncio.sleep(0)
        assert await stored(store) == [1, 2, 3]
        assert commits == [4]  # two states, and one life (counter and registration) for both

    asyncio.run(run())
