"""What only ZooKeeper does: disconnect, return, expire sessions, and refuse large requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from zookeeper_stores import ZooKeeperStores

from ottla.cluster.store import (
    Check,
    Conflict,
    Create,
    Delete,
    KeyChange,
    MetaStoreError,
    Put,
    VersionedValue,
)
from ottla.cluster.znode_tree import MultiPlan
from ottla.cluster.zookeeper_mirror import ZooKeeperMirror
from ottla.cluster.zookeeper_store import ZooKeeperStore
from ottla.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

pytestmark = pytest.mark.zookeeper

SOON_S = 60.0


@pytest.fixture
def stores(zookeeper: ZooKeeperServer) -> ZooKeeperStores:
    return ZooKeeperStores(zookeeper.connect)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(100):
            await scenario()

    asyncio.run(limited())


async def state_of(changes: Any, change: KeyChange) -> None:
    async with asyncio.timeout(SOON_S):
        while await anext(changes) != change:
            pass


# Znodes


def test_a_chroot_is_created_and_isolated(zookeeper: ZooKeeperServer) -> None:
    async def scenario() -> None:
        one = await ZooKeeperStores(zookeeper.connect).open()
        other = await ZooKeeperStores(zookeeper.connect).open()
        await one.create("/a", b"1")
        assert await other.list("/") == {}
        await one.close()
        await other.close()

    run(scenario)


def test_without_a_chroot_zookeepers_own_nodes_are_ignored() -> None:
    async def scenario() -> None:
        store = await ZooKeeperStore.open(server.connect, session_timeout_s=6)
        await store.create("/a/b", b"1")
        assert await store.list("/") == {"/a/b": VersionedValue(b"1", 0)}
        await store.close()

    with ZooKeeperServer() as server:
        run(scenario)


def test_a_node_without_data_is_not_a_key(stores: ZooKeeperStores) -> None:
    async def scenario() -> None:
        store = await stores.open()
        await store.create("/config/users/a/clients/b", b"quota")
        assert await store.get("/config/users/a") is None
        with pytest.raises(Conflict):
            await store.put("/config/users/a", b"", version=-1)
        version = await store.create("/config/users/a", b"1")
        assert await store.get("/config/users/a") == VersionedValue(b"1", version)
        await store.delete("/config/users/a", version=version)
        assert set(await store.list("/")) == {"/config/users/a/clients/b"}
        await store.delete("/config/users/a/clients/b", version=0)
        assert sorted(store._mirror.tree.nodes) == ["/config", "/config/users"]
        await store.close()

    run(scenario)


def test_kafkas_tools_find_the_expected_nodes(
    stores: ZooKeeperStores, zookeeper: ZooKeeperServer
) -> None:
    """Another client reads and writes the same znodes, and each sees the other's changes."""

    async def scenario() -> None:
        store = await stores.open()
        changes = store.changes("/")
        await store.create("/brokers/topics/orders", b'{"version":3}')
        client = KazooClient(stores.connect)
        await asyncio.to_thread(client.start)
        value, _ = await asyncio.to_thread(client.get, "/brokers/topics/orders")
        assert value == b'{"version":3}'
        await asyncio.to_thread(client.set, "/brokers/topics/orders", b"{}")
        await state_of(changes, KeyChange("/brokers/topics/orders", VersionedValue(b"{}", 1)))
        await asyncio.to_thread(client.delete, "/brokers/topics/orders")
        await state_of(changes, KeyChange("/brokers/topics/orders", None))
        await asyncio.to_thread(client.stop)
        client.close()
        await store.close()

    run(scenario)


# Large commits


def large_topic(count: int) -> list[Create]:
    state = b'{"version":1,"controller_epoch":1,"leader":1,"leader_epoch":0,"isr":[1,2,3]}'
    keys = [f"/brokers/topics/big/partitions/{index}/state" for index in range(count)]
    return [Create("/brokers/topics/big", b"topic"), *(Create(key, state) for key in keys)]


def test_a_topic_larger_than_a_request_is_created_and_deleted(stores: ZooKeeperStores) -> None:
    async def scenario() -> None:
        store, other = await stores.open(), await stores.open()
        await store.create("/controller_epoch", b"1")
        topic = large_topic(5000)
        versions = await store.commit([Check("/controller_epoch", 0), *topic])
        assert len(versions) == 5002
        assert len(await other.list("/brokers/topics/big")) == 5001
        found = await store.get("/brokers/topics/big")
        assert found == VersionedValue(b"topic", versions[1])
        deletes = [Delete(write.key, -1) for write in topic]
        await store.commit([Check("/controller_epoch", 0), *deletes])
        assert await other.list("/brokers/topics") == {}
        await store.close()
        await other.close()

    run(scenario)


def test_a_refused_large_topic_leaves_nothing_behind(stores: ZooKeeperStores) -> None:
    async def scenario() -> None:
        store = await stores.open()
        await store.create("/controller_epoch", b"1")
        with pytest.raises(Conflict):
            await store.commit([Check("/controller_epoch", 7), *large_topic(5000)])
        assert set(await store.list("/")) == {"/controller_epoch"}
        with pytest.raises(MetaStoreError, match="too large"):
            await store.commit([Create(f"/a/{number}", b"x" * 1000) for number in range(2000)])
        await store.close()

    run(scenario)


def test_orphans_of_a_large_topic_do_not_block_its_creation(stores: ZooKeeperStores) -> None:
    async def scenario() -> None:
        store = await stores.open()
        topic = large_topic(10)
        await store.commit([Create(write.key, b"old") for write in topic[1:6]])
        await store.commit(topic)
        entries = await store.list("/brokers/topics/big")
        assert {key: entry.value for key, entry in entries.items()} == {
            write.key: write.value for write in topic
        }
        with pytest.raises(Conflict):
            await store.commit(topic[1:])
        await store.close()

    run(scenario)


# Lost connections


class Faults:
    """Loses the connection at a commit: before the request arrives, or with its answer."""

    def __init__(self, patch: pytest.MonkeyPatch, *, done: bool) -> None:
        self.left = 1
        execute = ZooKeeperMirror.execute

        async def lossy(mirror: ZooKeeperMirror, plan: MultiPlan) -> Sequence[Any]:
            if self.left == 0:
                return await execute(mirror, plan)
            self.left -= 1
            if done:
                await mirror.client.multi([_at(mirror, operation) for operation in plan.operations])
            raise ConnectionLoss

        patch.setattr(ZooKeeperMirror, "execute", lossy)


def _at(mirror: ZooKeeperMirror, operation: Any) -> Any:
    operation.key = mirror._root + operation.key
    return operation


@pytest.mark.parametrize("done", [False, True], ids=["the request", "the answer"])
def test_a_commit_whose_answer_was_lost_is_executed_once(
    stores: ZooKeeperStores, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    async def scenario() -> None:
        store = await stores.open()
        await store.create("/a", b"1")
        await store.create("/gone", b"1")
        with monkeypatch.context() as patch:
            faults = Faults(patch, done=done)
            writes = [Put("/a", b"2", 0), Create("/b", b"1"), Delete("/gone", 0)]
            assert list(await store.commit(writes)) == [1, 0, -1]
            assert faults.left == 0
        assert await store.list("/") == {
            "/a": VersionedValue(b"2", 1),
            "/b": VersionedValue(b"1", 0),
        }
        with monkeypatch.context() as patch:
            Faults(patch, done=done)
            hold = await store.create_ephemeral("/held", b"me")
        assert not hold.lost.is_set()
        await hold.release()
        assert await store.get("/held") is None
        await store.close()

    run(scenario)


def test_requests_wait_for_a_server_to_return() -> None:
    async def scenario() -> None:
        # Longer than a busy machine needs to start the server: the session must outlive that.
        store = await ZooKeeperStore.open(server.connect, session_timeout_s=30)
        changes = store.changes("/")
        hold = await store.create_ephemeral("/brokers/ids/1", b"me")
        await store.create("/a", b"1")
        await asyncio.to_thread(server.kill)
        writing = asyncio.create_task(store.put("/a", b"2", version=0))
        await asyncio.to_thread(server.start)
        assert await writing == 1
        await state_of(changes, KeyChange("/a", VersionedValue(b"2", 1)))
        assert not hold.lost.is_set()
        other = await ZooKeeperStore.open(server.connect, session_timeout_s=8)
        assert await other.get("/brokers/ids/1") == hold.entry
        await other.create("/b", b"1")
        await state_of(changes, KeyChange("/b", VersionedValue(b"1", 0)))
        await other.close()
        await store.close()

    with ZooKeeperServer(properties={"maxSessionTimeout": "60000"}) as server:
        run(scenario)


def test_changes_during_an_outage_are_published(stores: ZooKeeperStores) -> None:
    async def scenario() -> None:
        store, other = await stores.open(), await stores.open()
        await other.create("/a", b"1")
        await other.create("/b", b"1")
        await store.list("/")
        changes = store.changes("/")
        await other.delete("/a", version=0)
        store._mirror._dirty.clear()  # as if the event had been lost with the connection
        await asyncio.to_thread(drop_connection, store)
        await other.put("/b", b"2", version=0)
        await state_of(changes, KeyChange("/b", VersionedValue(b"2", 1)))
        assert set(await store.list("/")) == {"/b"}
        await store.close()
        await other.close()

    run(scenario)


def drop_connection(store: ZooKeeperStore) -> None:
    socket = store._mirror.client._kazoo._connection._socket
    socket.shutdown(2)


def test_an_interrupted_ephemeral_key_does_not_block_the_next(
    stores: ZooKeeperStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store, other = await stores.open(), await stores.open()
        execute = ZooKeeperMirror.execute

        async def slow(mirror: ZooKeeperMirror, plan: MultiPlan) -> Sequence[Any]:
            await execute(mirror, plan)
            await asyncio.sleep(SOON_S)
            return []

        monkeypatch.setattr(ZooKeeperMirror, "execute", slow)
        holding = asyncio.create_task(store.create_ephemeral("/controller", b"me"))
        while await other.get("/controller") is None:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(ZooKeeperMirror, "execute", execute)
        again = await store.create_ephemeral("/controller", b"me again")
        assert await other.get("/controller") == VersionedValue(b"me again", 0)
        holding.cancel()
        await asyncio.sleep(0.2)
        assert not again.lost.is_set()
        await again.release()
        with monkeypatch.context() as patch:
            patch.setattr(ZooKeeperMirror, "execute", slow)
            holding = asyncio.create_task(store.create_ephemeral("/controller", b"me"))
            while await other.get("/controller") is None:
                await asyncio.sleep(0.01)
        holding.cancel()
        async with asyncio.timeout(SOON_S):
            while await other.get("/controller") is not None:
                await asyncio.sleep(0.01)
        await store.close()
        await other.close()

    run(scenario)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failed_client_is_restarted(
    stores: ZooKeeperStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store = await stores.open()
        hold = await store.create_ephemeral("/held", b"me")
        await store.create("/a", b"1")

        def fail(*_: Any) -> None:
            raise RuntimeError("a bug of the client")

        connection = store._mirror.client._kazoo._connection
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_read_socket", fail)
            async with asyncio.timeout(SOON_S):
                await hold.lost.wait()
        assert await store.put("/a", b"2", version=0) == 1
        await store.close()

    run(scenario)


def test_an_unreachable_zookeeper_is_named_in_the_error() -> None:
    async def scenario() -> None:
        with pytest.raises(MetaStoreError, match=r"127\.0\.0\.1:1/x is not reachable"):
            await ZooKeeperStore.open(
                "127.0.0.1:1/x", session_timeout_s=6, connection_timeout_s=0.5
            )

    run(scenario)


def test_writes_fail_when_zookeeper_stays_away() -> None:
    async def scenario() -> None:
        store = await ZooKeeperStore.open(server.connect, session_timeout_s=1)
        await asyncio.to_thread(server.kill)
        with pytest.raises(MetaStoreError, match="not reachable"):
            await store.create("/a", b"")
        with pytest.raises(MetaStoreError, match="not reachable"):
            await store.get("/a")
        await store.close()

    with ZooKeeperServer() as server:
        run(scenario)


# An ensemble


def test_an_ensemble_survives_the_loss_of_a_server() -> None:
    async def scenario() -> None:
        store = await ZooKeeperStore.open(ensemble.connect, session_timeout_s=10)
        other = await ZooKeeperStore.open(ensemble.connect, session_timeout_s=10)
        hold = await store.create_ephemeral("/controller", b"me")
        changes = other.changes("/")
        for count, server in enumerate(ensemble.servers):
            await asyncio.to_thread(server.kill)
            await store.create(f"/{count}", b"")
            await state_of(changes, KeyChange(f"/{count}", VersionedValue(b"", 0)))
            assert await other.get(f"/{count}") == VersionedValue(b"", 0)
            await asyncio.to_thread(server.start)
        assert not hold.lost.is_set()
        assert await other.get("/controller") == hold.entry
        await store.close()
        await state_of(changes, KeyChange("/controller", None))
        await other.close()

    with ZooKeeperEnsemble(3) as ensemble:
        run(scenario)


def test_without_a_majority_nothing_is_written() -> None:
    async def scenario() -> None:
        store = await ZooKeeperStore.open(ensemble.connect, session_timeout_s=3)
        await store.create("/a", b"1")
        for server in ensemble.servers[:2]:
            await asyncio.to_thread(server.kill)
        with pytest.raises(MetaStoreError):
            await store.put("/a", b"2", version=0)
        for server in ensemble.servers[:2]:
            server.start(wait=False)
        for server in ensemble.servers:
            await asyncio.to_thread(server.wait_until_it_serves)
        entry = await store.get("/a")
        assert entry in (VersionedValue(b"1", 0), VersionedValue(b"2", 1))
        await store.close()

    with ZooKeeperEnsemble(3) as ensemble:
        run(scenario)


def test_a_cancelled_read_loses_no_change(stores: ZooKeeperStores) -> None:
    """An event is not sent twice, so a cancelled read of it must be repeated."""

    async def scenario() -> None:
        one, other = await stores.open(), await stores.open()
        await one.create("/a", b"1")
        await other.get("/a")
        read, reading = other._mirror.client.read, asyncio.Event()

        async def slow(paths: Sequence[str]) -> list[Any]:
            reading.set()
            await asyncio.sleep(SOON_S)
            return await read(paths)

        other._mirror.client.read = slow  # type: ignore[method-assign]
        other._mirror._dirty.add("/a")
        asking = asyncio.create_task(other._mirror._read_dirty())
        await reading.wait()
        await one.put("/a", b"2", version=0)
        other._mirror.client.read = read  # type: ignore[method-assign]
        asking.cancel()
        async with asyncio.timeout(SOON_S):
            while other._mirror.tree.entry("/a") != VersionedValue(b"2", 1):
                await asyncio.sleep(0.01)
        await one.close()
        await other.close()

    run(scenario)
