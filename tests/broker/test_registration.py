"""A broker that loses its registration leads nothing, until it is registered again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.cluster import layout
from ottla.cluster.dead_brokers import unregister_dead_broker
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import BrokerRegistration
from ottla.cluster.store import MetaStore
from ottla.config import Listener, ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.testing import LocalCluster

PATIENCE_S = 60.0


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)


def epoch_of(cluster: LocalCluster, broker_id: int) -> int:
    def look() -> int:
        found = cluster.broker(0).image.brokers.get(broker_id)
        return found.epoch if found is not None else -1

    return cluster.call(look)


def test_an_expired_session_is_renewed_with_a_new_epoch() -> None:
    with LocalCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=2)
        producer = cluster.producer(value=str)
        before = epoch_of(cluster, 1)
        cluster.expire(1)
        eventually(lambda: epoch_of(cluster, 1) > before)
        for partition in range(2):
            producer.send("orders", "after", partition=partition).result(PATIENCE_S)


def test_an_expired_controller_is_replaced() -> None:
    with LocalCluster(brokers=3) as cluster:
        controller = cluster.call(lambda: cluster.broker(0).image.controller_id)
        epoch = cluster.call(lambda: cluster.broker(0).image.controller_epoch)
        cluster.expire(controller)
        eventually(lambda: cluster.call(lambda: cluster.broker(0).image.controller_epoch) > epoch)
        eventually(lambda: cluster.call(lambda: len(cluster.broker(0).image.brokers)) == 3)
        cluster.create_topic("orders", partitions=3)


def config_of(path: Path, node_id: int = 1) -> ServerConfig:
    return ServerConfig(
        {
            "node.id": str(node_id),
            "log.dirs": str(path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "ottla.metadata.sync.enable": "false",
        }
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def test_an_unregistered_broker_leads_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        store = EmbeddedStore(None)
        broker = Broker(config_of(tmp_path), meta_store=store.session())
        await broker.start()
        await broker.auto_create("orders")
        assert broker.partitions.leading("orders", 0).leads
        entry = await store.get(layout.broker_key(1))
        assert entry is not None
        # Another broker takes its id before it returns: it cannot continue.
        await store.delete(layout.broker_key(1), version=0)
        other = BrokerRegistration(1, 77, (Listener("PLAINTEXT", "h", 1, "PLAINTEXT"),), None)
        await store.create_ephemeral(layout.broker_key(1), layout.dump_broker(other, 0))
        await until(broker.failed.is_set)
        with pytest.raises(KafkaError) as refused:
            broker.partitions.leading("orders", 0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await broker.stop()
        await store.close()

    asyncio.run(play())


def test_a_deleted_registration_is_created_again(tmp_path: Path) -> None:
    async def play() -> None:
        store = EmbeddedStore(None)
        broker = Broker(config_of(tmp_path), meta_store=store.session())
        await broker.start()
        await broker.auto_create("orders")
        first = broker.image.brokers[1]
        assert await unregister_dead_broker(store, broker._writer, first)
        await until(
            lambda: 1 in broker.image.brokers and broker.image.brokers[1].epoch > first.epoch
        )
        assert not await unregister_dead_broker(store, broker._writer, first)
        await until(lambda: broker.partitions.find("orders", 0).leads)
        await broker.stop()
        assert await store.get(layout.broker_key(1)) is None
        await store.close()

    asyncio.run(play())


def test_a_former_process_is_recognised_by_its_log_directories(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        store = EmbeddedStore(None)
        first = Broker(config_of(tmp_path), meta_store=store.session())
        await first.start()
        value = await store.get(layout.broker_key(1))
        assert value is not None
        await first.stop()
        # As after a kill, before the session expires.
        await store.create_ephemeral(layout.broker_key(1), value.value)
        with caplog.at_level(logging.WARNING):
            again = Broker(config_of(tmp_path), meta_store=store.session())
            await again.start()
        assert "this process has the lock of its log directories" in caplog.text
        assert (
            again.image.brokers[1].epoch == layout.load(value)["epoch"] + 2
        )  # the stop counts, too
        elsewhere = Broker(config_of(tmp_path / "elsewhere"), meta_store=store.session())
        with pytest.raises(KafkaError, match="already part of this cluster"):
            await elsewhere.start()
        await again.stop()
        await store.close()

    asyncio.run(play())


def test_another_broker_with_our_id_gets_time_to_disappear(tmp_path: Path) -> None:
    async def register(store: MetaStore, patience_s: float) -> None:
        from ottla.cluster.cluster_membership import ClusterMembership
        from ottla.cluster.metadata_cache import MetadataCache

        await ClusterMembership.register(
            store,
            MetadataCache(store),
            broker_id=1,
            listeners=(Listener("PLAINTEXT", "h", 1, "PLAINTEXT"),),
            rack=None,
            now_ms=0,
            directories=["mine"],
            timeout_s=patience_s,
        )

    async def play() -> None:
        store = EmbeddedStore(None)
        other = store.session()
        await register(other, 0)
        entry = await store.get(layout.broker_key(1))
        assert entry is not None
        held = layout.load(entry) | {"directories": ["theirs"]}
        other.expire()
        await other.create_ephemeral(layout.broker_key(1), layout.dump(held))
        with pytest.raises(KafkaError):
            await register(store, 0.3)
        registering = asyncio.create_task(register(store, PATIENCE_S))
        await asyncio.sleep(0.3)
        assert not registering.done()
        other.expire()
        await registering
        await store.close()

    asyncio.run(play())
