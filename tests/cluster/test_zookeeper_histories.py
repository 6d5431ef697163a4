"""Random histories: two sessions on ZooKeeper do what the embedded store does, whatever is cut."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from zookeeper_stores import ZooKeeperStores, expire

from ottla.cluster.changes import Changes
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    Entry,
    MetaStore,
    Put,
    Write,
)
from ottla.cluster.zookeeper import ZooKeeperStore
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


def wishes(dice: random.Random, step: int) -> list[tuple[str, str, bool]]:
    """What to do to which keys, and whether with the version that is there."""
    kinds = ["create", "create", "put", "delete", "check"]
    keys = dice.sample(KEYS, dice.choice([1, 1, 1, 2, 3, 4]))
    return [(dice.choice(kinds), key, dice.random() < 0.8) for key in keys]


async def writes_for(
    store: MetaStore, wished: Sequence[tuple[str, str, bool]], step: int
) -> list[Write]:
    """The same wishes, with the versions of this store."""
    writes: list[Write] = []
    for kind, key, right in wished:
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


def values(entries: dict[str, Entry]) -> dict[str, bytes]:
    return {key: entry.value for key, entry in entries.items()}


def cut(store: ZooKeeperStore) -> None:
    socket = store._mirror.client._kazoo._connection._socket
    if socket is not None:
        socket.shutdown(2)


def debris_free(wished: Sequence[tuple[str, str, bool]]) -> bool:
    """Who creates a key and one below it takes what is there for debris: the embedded does not."""
    created = [key for kind, key, _ in wished if kind == "create"]
    return not any(
        one != other and other.startswith(one + "/") for one in created for other in created
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("faults", [False, True], ids=["quiet", "with cuts"])
def test_two_sessions_do_what_one_embedded_store_does(
    zookeeper: ZooKeeperServer, seed: int, faults: bool
) -> None:
    dice = random.Random(seed)
    stores = ZooKeeperStores(zookeeper.connect)

    async def play() -> None:
        model = EmbeddedStore(None)
        sessions = [await stores.open(), await stores.open()]
        followers = [each.changes("/") for each in sessions]
        known: list[dict[str, bytes]] = [{}, {}]
        for step in range(STEPS):
            wished = wishes(dice, step)
            if not debris_free(wished):
                continue
            session = dice.choice(sessions)
            if faults and dice.random() < 0.1:
                asyncio.get_running_loop().call_later(dice.random() / 50, cut, session)
            if faults and dice.random() < 0.02:
                await asyncio.to_thread(expire, session)
            expected = await outcome(model, await writes_for(model, wished, step))
            assert await outcome(session, await writes_for(session, wished, step)) == expected
            for follower, seen in zip(followers, known, strict=True):
                take(follower, seen)
        everything = values(await model.list("/"))
        for session, follower, seen in zip(sessions, followers, known, strict=True):
            assert values(await session.list("/")) == everything
            take(follower, seen)
            assert seen == everything
        fresh = await stores.open()
        assert values(await fresh.list("/")) == everything
        for each in (*sessions, fresh):
            await each.close()

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(2))
def test_who_writes_by_version_counts_right_through_cuts(
    zookeeper: ZooKeeperServer, seed: int
) -> None:
    """Every write that was said to be done is there once, however often answers were lost."""
    dice = random.Random(seed)
    stores = ZooKeeperStores(zookeeper.connect)

    async def count(store: ZooKeeperStore, name: str, rounds: int) -> int:
        done = 0
        for number in range(rounds):
            entry = await store.get("/count")
            assert entry is not None
            line = f"{name} {number}"  # nobody else's, so that a lost answer is found to be ours
            value = entry.value + f"{line}\n".encode()
            if dice.random() < 0.2:
                asyncio.get_running_loop().call_later(dice.random() / 50, cut, store)
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
            *(count(each, f"session {number}", 25) for number, each in enumerate(sessions))
        )
        entry = await sessions[0].get("/count")
        assert entry is not None
        lines = entry.value.decode().splitlines()
        assert len(lines) == len(set(lines)) == entry.version
        # Of a conflict nobody knows whether it was with oneself: then there is more than was said.
        assert 0 < sum(done) <= len(lines)
        for each in sessions:
            await each.close()

    asyncio.run(play())


def take(changes: Changes, seen: dict[str, bytes]) -> None:
    for change in changes.take():
        if change.entry is None:
            seen.pop(change.key, None)
        else:
            seen[change.key] = change.entry.value
