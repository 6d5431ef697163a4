"""What every MetaStore guarantees, tested with each implementation.

A store is a parameter of the fixture `stores`: a callable that opens a fresh store, and opens
it again as after a restart of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest
from zookeeper_stores import ZooKeeperStores

from ottla.cluster.embedded import EmbeddedSession, EmbeddedStore
from ottla.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    KeyChange,
    MetaStore,
    MetaStoreError,
    Put,
    VersionedValue,
    Write,
)

SOON_S = 60
"""A change that is not published within this time is lost."""


class Stores(Protocol):
    """The owner of one store: each `open` returns a session on the same data."""

    async def open(self) -> MetaStore: ...

    async def expire(self, store: MetaStore) -> None:
        """Expires a session from outside, as if its broker had been silent for too long."""


class EmbeddedStores:
    """Sessions that are open at the same time share one store; the last one closes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store: EmbeddedStore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> MetaStore:
        if self._store is None or self._loop is not asyncio.get_running_loop():
            if self._store is not None:
                await self._store.close()
            self._store = EmbeddedStore(self._path / "metadata.journal", sync=False)
            self._loop = asyncio.get_running_loop()
        return self._store.session()

    async def expire(self, store: MetaStore) -> None:
        assert isinstance(store, EmbeddedSession)
        store.expire()


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    if request.param == "zookeeper":
        return ZooKeeperStores(request.getfixturevalue("zookeeper").connect)
    return EmbeddedStores(tmp_path)


Scenario = Callable[[MetaStore], Coroutine[Any, Any, None]]


def run(stores: Stores, scenario: Scenario) -> None:
    async def session() -> None:
        store = await stores.open()
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(session())


async def next_change(changes: AsyncIterator[KeyChange]) -> KeyChange:
    async with asyncio.timeout(SOON_S):
        return await anext(changes)


async def await_state(
    changes: AsyncIterator[KeyChange], key: str, entry: VersionedValue | None
) -> None:
    """Wait for the last state of a key; intermediate states may come first."""
    while await next_change(changes) != KeyChange(key, entry):
        pass


def test_a_missing_key_is_none(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        assert await store.get("/a/b") is None
        assert await store.list("/a") == {}

    run(stores, scenario)


def test_versions_count_the_changes(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        assert await store.create("/a/b", b"one") == 0
        assert await store.put("/a/b", b"two", version=0) == 1
        assert await store.put("/a/b", b"three", version=ANY_VERSION) == 2
        assert await store.get("/a/b") == VersionedValue(b"three", 2)
        await store.delete("/a/b", version=2)
        assert await store.get("/a/b") is None
        assert await store.create("/a/b", b"") == 0
        assert await store.get("/a/b") == VersionedValue(b"", 0)

    run(stores, scenario)


REFUSED: list[tuple[str, Callable[[MetaStore], Awaitable[object]]]] = [
    ("create what exists", lambda store: store.create("/k", b"x")),
    ("put an old version", lambda store: store.put("/k", b"x", version=0)),
    ("put what is missing", lambda store: store.put("/none", b"x", version=ANY_VERSION)),
    ("delete an old version", lambda store: store.delete("/k", version=0)),
    ("delete what is missing", lambda store: store.delete("/none", version=ANY_VERSION)),
    ("check an old version", lambda store: store.commit([Check("/k", 0)])),
]


@pytest.mark.parametrize(("what", "attempt"), REFUSED, ids=[what for what, _ in REFUSED])
def test_a_refused_commit_changes_nothing(
    stores: Stores, what: str, attempt: Callable[[MetaStore], Awaitable[object]]
) -> None:
    async def scenario(store: MetaStore) -> None:
        await store.create("/k", b"first")
        await store.put("/k", b"second", version=0)
        with pytest.raises(Conflict):
            await attempt(store)
        assert await store.list("/") == {"/k": VersionedValue(b"second", 1)}

    run(stores, scenario)


def test_list_finds_a_key_and_what_is_below_it_only(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        for key in ("/a", "/a/b", "/a/b/c", "/ab", "/b"):
            await store.create(key, key.encode())
        assert set(await store.list("/a")) == {"/a", "/a/b", "/a/b/c"}
        assert set(await store.list("/a/b")) == {"/a/b", "/a/b/c"}
        assert set(await store.list("/")) == {"/a", "/a/b", "/a/b/c", "/ab", "/b"}

    run(stores, scenario)


def test_a_commit_does_all_or_nothing(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        await store.create("/a", b"1")
        await store.create("/b", b"1")
        writes: list[Write] = [
            Check("/a", 0),
            Put("/a", b"2", 0),
            Create("/c/d", b"new"),
            Delete("/b", 0),
        ]
        assert list(await store.commit(writes)) == [0, 1, 0, -1]
        now = {"/a": VersionedValue(b"2", 1), "/c/d": VersionedValue(b"new", 0)}
        assert await store.list("/") == now
        with pytest.raises(Conflict) as caught:
            await store.commit([Put("/a", b"3", 1), Create("/e", b""), Create("/c/d", b"again")])
        assert caught.value.key == "/c/d"
        assert await store.list("/") == now

    run(stores, scenario)


def test_entries_survive_a_restart_and_ephemeral_keys_do_not(stores: Stores) -> None:
    async def before(store: MetaStore) -> None:
        await store.create("/kept", b"1")
        await store.put("/kept", b"2", version=0)
        await store.create("/gone", b"1")
        await store.delete("/gone", version=0)
        await store.create_ephemeral("/held", b"me")

    async def after(store: MetaStore) -> None:
        assert await store.list("/") == {"/kept": VersionedValue(b"2", 1)}

    run(stores, before)
    run(stores, after)


def test_an_ephemeral_key_is_exclusive_until_it_is_released(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        hold = await store.create_ephemeral("/controller", b"me")
        assert hold.entry == VersionedValue(b"me", 0)
        assert await store.get("/controller") == VersionedValue(b"me", 0)
        with pytest.raises(Conflict):
            await store.create_ephemeral("/controller", b"you")
        assert not hold.lost.is_set()
        await hold.release()
        assert hold.lost.is_set()
        assert await store.get("/controller") is None
        again = await store.create_ephemeral("/controller", b"you")
        await hold.release()  # releasing the old key does not touch the new one
        assert await store.get("/controller") == VersionedValue(b"you", 0)
        assert not again.lost.is_set()

    run(stores, scenario)


def test_an_ephemeral_key_is_lost_when_the_store_closes(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        hold = await store.create_ephemeral("/controller", b"me")
        await store.close()
        assert hold.lost.is_set()

    run(stores, scenario)


def test_an_ephemeral_key_may_be_deleted_by_another_session(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        other = await stores.open()
        hold = await store.create_ephemeral("/controller", b"me")
        with pytest.raises(Conflict):
            await other.create_ephemeral("/controller", b"you")
        with pytest.raises(Conflict):
            await other.delete("/controller", version=7)
        await other.commit([Create("/why", b"dead"), Delete("/controller", 0)])
        async with asyncio.timeout(SOON_S):
            await hold.lost.wait()
        again = await other.create_ephemeral("/controller", b"you")
        await hold.release()
        assert await store.get("/controller") == VersionedValue(b"you", 0)
        assert not again.lost.is_set()
        await other.close()

    run(stores, scenario)


def test_a_session_that_ends_takes_only_its_own_ephemeral_keys_with_it(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        other = await stores.open()
        changes = store.changes("/a")
        mine, yours = (
            await store.create_ephemeral("/a/mine", b"1"),
            await other.create_ephemeral("/a/yours", b"2"),
        )
        await await_state(changes, "/a/yours", VersionedValue(b"2", 0))
        await other.close()
        assert yours.lost.is_set()
        await await_state(changes, "/a/yours", None)
        assert await store.list("/a") == {"/a/mine": VersionedValue(b"1", 0)}
        assert not mine.lost.is_set()

    run(stores, scenario)


def test_an_expired_session_loses_only_its_ephemeral_keys(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        other = await stores.open()
        hold = await store.create_ephemeral("/controller", b"me")
        changes, seen = store.changes("/"), other.changes("/")
        await stores.expire(store)
        async with asyncio.timeout(SOON_S):
            await hold.lost.wait()
        await await_state(seen, "/controller", None)
        await await_state(changes, "/controller", None)
        await other.create("/a", b"1")
        await await_state(changes, "/a", VersionedValue(b"1", 0))
        again = await store.create_ephemeral("/controller", b"me again")
        await hold.release()
        assert await other.get("/controller") == VersionedValue(b"me again", 0)
        assert not again.lost.is_set()
        await other.close()

    run(stores, scenario)


def test_all_buffered_changes_can_be_taken_at_once(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        changes = store.changes("/")
        await store.commit([Create(f"/a/{number}", b"") for number in range(10)])
        taken = {(await next_change(changes)).key}
        while len(taken) < 10:
            more = {change.key for change in changes.take()} or {(await next_change(changes)).key}
            assert taken.isdisjoint(more)
            taken |= more
        assert taken == {f"/a/{number}" for number in range(10)}

    run(stores, scenario)


def test_changes_yields_what_changed_since_the_call(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        await store.create("/a/old", b"")
        changes = store.changes("/a")
        await store.create("/a/new", b"1")
        await await_state(changes, "/a/new", VersionedValue(b"1", 0))
        await store.create("/b", b"elsewhere")
        await store.put("/a/new", b"2", version=0)
        await await_state(changes, "/a/new", VersionedValue(b"2", 1))
        await store.delete("/a/old", version=0)
        await await_state(changes, "/a/old", None)
        hold = await store.create_ephemeral("/a/held", b"me")
        await await_state(changes, "/a/held", VersionedValue(b"me", 0))
        await hold.release()
        await await_state(changes, "/a/held", None)

    run(stores, scenario)


def test_changes_waits_for_the_next_change(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        changes = store.changes("/")
        waiting = asyncio.create_task(next_change(changes))
        await asyncio.sleep(0)
        assert not waiting.done()
        await store.create("/a", b"1")
        assert await waiting == KeyChange("/a", VersionedValue(b"1", 0))

    run(stores, scenario)


def test_a_slow_subscriber_buffers_only_the_last_state_of_a_key(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        changes = store.changes("/")
        await store.create("/a", b"0")
        for version in range(50):
            await store.put("/a", str(version + 1).encode(), version=version)
        await store.create("/end", b"")
        seen = []
        while (change := await next_change(changes)).key != "/end":
            seen.append(change)
        assert seen[-1] == KeyChange("/a", VersionedValue(b"50", 50))
        assert len(seen) <= 51

    run(stores, scenario)


def test_two_subscribers_each_get_all_changes(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        one, two = store.changes("/"), store.changes("/a")
        await store.create("/a", b"1")
        await await_state(one, "/a", VersionedValue(b"1", 0))
        await await_state(two, "/a", VersionedValue(b"1", 0))

    run(stores, scenario)


def test_changes_ends_when_the_store_closes(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        changes = store.changes("/")
        await store.close()
        async with asyncio.timeout(SOON_S):
            assert [change async for change in changes] == []

    run(stores, scenario)


@pytest.mark.parametrize("key", ["", "/", "a", "/a/", "//a", "/a//b", "/a/.", "/../a"])
def test_a_key_is_a_path(stores: Stores, key: str) -> None:
    async def scenario(store: MetaStore) -> None:
        with pytest.raises(ValueError, match="is not a key"):
            await store.create(key, b"")
        with pytest.raises(ValueError, match="is not a key"):
            await store.create_ephemeral(key, b"")
        assert await store.list("/") == {}

    run(stores, scenario)


def test_a_closed_store_says_so(stores: Stores) -> None:
    async def scenario(store: MetaStore) -> None:
        await store.close()
        for attempt in (store.get("/a"), store.list("/"), store.create("/a", b"")):
            with pytest.raises(MetaStoreError):
                await attempt

    run(stores, scenario)


def test_values_are_any_bytes(stores: Stores) -> None:
    value = bytes(range(256)) * 40

    async def before(store: MetaStore) -> None:
        await store.create("/schlüssel/мир", value)

    async def after(store: MetaStore) -> None:
        assert await store.get("/schlüssel/мир") == VersionedValue(value, 0)

    run(stores, before)
    run(stores, after)
