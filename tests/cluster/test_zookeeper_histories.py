"""Random histories: two ZooKeeper sessions behave like the embedded store, whatever fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from zookeeper_stores import ZooKeeperStores, expire

from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.key_changes import KeyChanges
from ottla.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    MetaStore,
    Put,
    VersionedValue,
    Write,
)
from ottla.cluster.zookeeper_store import ZooKeeperStore
from ottla.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper

STEPS = 150
KEYS = [
    "/a",
    "/a/b",
    "/a/b/c",
    "/a/b/d",
    "/x/y/z",
    "/x/y/z/partitions/0/state",
    "/x/y/z/partitions/1/state",
    "/x/y/w",
    "/q",
]


def random_operations(rng: random.Random, step: int) -> list[tuple[str, str, bool]]:
    """(operation, key, with the present version) for each write."""
    kinds = ["create", "create", "put", "delete", "check"]
    keys = rng.sample(KEYS, rng.choice([1, 1, 1, 2, 3, 4]))
    return [(rng.choice(kinds), key, rng.random() < 0.8) for key in keys]


async def writes_for(
    store: MetaStore, operations: Sequence[tuple[str, str, bool]], step: int
) -> list[Write]:
    """The same writes with the versions of this store."""
    writes: list[Write] = []
    for kind, key, right in operations:
        entry = await store.get(key)
        version = entry.version if entry is not None else 0
        version = version if right else version + 7
        if step % 5 == 0 and right:
            version = ANY_VERSION
        value = f"{kind} {step}".encode()
        if kind == "create":
            writes.append(Create(key, value))
        elif kind == "put":
            writes.append(Put(key, value, version))
        elif kind == "delete":
            writes.append(Delete(key, version))
        else:
            writes.append(Check(key, version))
    return writes


async def outcome(store: MetaStore, writes: Sequence[Write]) -> str:
    try:
        versions = await store.commit(writes)
    except Conflict as conflict:
        return f"conflict at {conflict.key}"
    for write, version in zip(writes, versions, strict=True):
        entry = await store.get(write.key)
        assert version == (entry.version if entry is not None else -1)
    return "done"


def values(entries: dict[str, VersionedValue]) -> dict[str, bytes]:
    return {key: entry.value for key, entry in entries.items()}


def cut(store: ZooKeeperStore) -> None:
    socket = store._mirror.client._kazoo._connection._socket
    if socket is not None:
        socket.shutdown(2)


def has_no_orphans(operations: Sequence[tuple[str, str, bool]]) -> bool:
    """False if a key and one below it are created: only ZooKeeper replaces orphans."""
    created = [key for kind, key, _ in operations if kind == "create"]
    return not any(
        key != other and other.startswith(key + "/") for key in created for other in created
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("faults", [False, True], ids=["quiet", "with cuts"])
def test_two_sessions_behave_like_one_embedded_store(
    zookeeper: ZooKeeperServer, seed: int, faults: bool
) -> None:
    rng = random.Random(seed)
    stores = ZooKeeperStores(zookeeper.connect)

    async def play() -> None:
        model = EmbeddedStore(None)
        sessions = [await stores.open(), await stores.open()]
        subscriptions = [session.changes("/") for session in sessions]
        known: list[dict[str, bytes]] = [{}, {}]
        for step in range(STEPS):
            operations = random_operations(rng, step)
            if not has_no_orphans(operations):
                continue
            session = rng.choice(sessions)
            if faults and rng.random() < 0.1:
                asyncio.get_running_loop().call_later(rng.random() / 50, cut, session)
            if faults and rng.random() < 0.02:
                await asyncio.to_thread(expire, session)
            expected = await outcome(model, await writes_for(model, operations, step))
            assert await outcome(session, await writes_for(session, operations, step)) == expected
            for follower, seen in zip(subscriptions, known, strict=True):
                take(follower, seen)
        everything = values(await model.list("/"))
        for session, follower, seen in zip(sessions, subscriptions, known, strict=True):
            assert values(await session.list("/")) == everything
            take(follower, seen)
            assert seen == everything
        fresh = await stores.open()
        assert values(await fresh.list("/")) == everything
        for session in (*sessions, fresh):
            await session.close()

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(2))
def test_versioned_writes_are_applied_once_despite_lost_connections(
    zookeeper: ZooKeeperServer, seed: int
) -> None:
    """Every acknowledged write is applied once, however many responses were lost."""
    rng = random.Random(seed)
    stores = ZooKeeperStores(zookeeper.connect)

    async def count(store: ZooKeeperStore, name: str, rounds: int) -> int:
        done = 0
        for number in range(rounds):
            entry = await store.get("/count")
            assert entry is not None
            line = f"{name} {number}"  # unique, so that a write whose answer was lost is recognized
            value = entry.value + f"{line}\n".encode()
            if rng.random() < 0.2:
                asyncio.get_running_loop().call_later(rng.random() / 50, cut, store)
            try:
                await store.put("/count", value, version=entry.version)
            except Conflict:
                continue
            done += 1
        return done

    async def play() -> None:
        sessions = [await stores.open() for _ in range(3)]
        await sessions[0].create("/count", b"")
        done = await asyncio.gather(
            *(count(session, f"session {number}", 25) for number, session in enumerate(sessions))
        )
        entry = await sessions[0].get("/count")
        assert entry is not None
        lines = entry.value.decode().splitlines()
        assert len(lines) == len(set(lines)) == entry.version
        # A conflict may be with a write of this session: then more was applied than acknowledged.
        assert 0 < sum(done) <= len(lines)
        for session in sessions:
            await session.close()

    asyncio.run(play())


def take(changes: KeyChanges, seen: dict[str, bytes]) -> None:
    for change in changes.take():
        if change.entry is None:
            seen.pop(change.key, None)
        else:
            seen[change.key] = change.entry.value
