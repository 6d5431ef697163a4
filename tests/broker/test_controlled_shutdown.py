"""A stopping broker leaves the ISRs until it restarts, with either metadata store (KIP-841)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from replicating_brokers import PATIENCE_S, Brokers, play

from ottla.broker.broker import Broker
from ottla.cluster.image import MetadataImage
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.testing.zookeeper import ZooKeeperServer

PARTITIONS = 12
STOP_S_MAX = 4.0  # five and a half before; about one on a machine that rests
TRIES = 3  # the best counts


class IsrHistory:
    """The ISRs in the images of a broker, in order."""

    def __init__(self, broker: Broker, watched: int) -> None:
        self._watched = watched
        self._in: set[int] = set()
        self.gained: list[int] = []
        self.note(broker.image)
        self.gained.clear()
        broker.metadata.add_listener(self.note)

    def note(self, image: MetadataImage) -> None:
        inside = {
            partition.index
            for partition in image.topics["t"].partitions
            if self._watched in partition.isr
        }
        self.gained += sorted(inside - self._in)
        self._in = inside


def test_a_broker_in_controlled_shutdown_is_in_no_isr_until_it_restarts(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        replicas = [(0, 1, 2), (1, 2, 0), (2, 0, 1)] * (PARTITIONS // 3)
        await cluster.create("t", *replicas)
        history = IsrHistory(cluster[1], watched=0)
        leaving = cluster[0]
        await leaving._registration.controlled_shutdown()
        assert not any(0 in partition.isr for partition in leaving.image.topics["t"].partitions)
        await cluster.until(lambda: cluster.held(1).leads)
        end = cluster.end(1)
        for _ in range(20):  # it runs and keeps following until its last response is sent
            assert await cluster.produce(1, b"x") == 0
        await cluster.until(lambda: leaving.partitions.find("t", 0).log.end_offset == end + 20)
        assert history.gained == []
        await cluster.stop(0)
        assert history.gained == []
        await cluster.start(0)
        await cluster.until(lambda: set(history.gained) == set(range(PARTITIONS)))

    play(tmp_path, act)


def test_the_log_names_the_isr_before_and_after(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ottla.replica")

    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (1, 0, 2))
        await cluster.stop(0)
        await cluster.start(0)
        await cluster.until(lambda: 0 in cluster.state(1).isr)

    play(tmp_path, act)
    assert "Expanding ISR for partition t-0 from 1,2 to 1,2,0" in caplog.messages


@pytest.fixture
def zookeeper() -> ZooKeeperServer:
    return ZooKeeperServer()


async def started(path: Path, connect: str, node_id: int) -> Broker:
    properties = {
        "node.id": str(node_id),
        "log.dirs": str(path / str(node_id)),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": connect,
    }
    broker = Broker(ServerConfig(properties))
    await broker.start()
    return broker


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.zookeeper
def test_on_zookeeper_a_stopping_broker_does_not_rejoin_the_isr(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    async def main(connect: str) -> None:
        one = await started(tmp_path, connect, 1)
        two = await started(tmp_path, connect, 2)
        await until(lambda: len(one.image.brokers) == len(two.image.brokers) == 2)
        controller = next(broker.controller for broker in (one, two) if broker.controller.active)
        spec = TopicSpec("t", assignment={0: (1, 2), 1: (2, 1)})
        await controller.create_topics([spec])
        await until(lambda: all("t" in broker.image.topics for broker in (one, two)))
        history = IsrHistory(one, watched=2)
        await two._registration.controlled_shutdown()
        await until(lambda: one.image.brokers[2].shutting_down)
        await asyncio.sleep(0.7)  # longer than a follower's Fetch waits: it has asked again
        assert [partition.isr for partition in one.image.topics["t"].partitions] == [(1,), (1,)]
        await two.stop()
        assert history.gained == []
        two = await started(tmp_path, connect, 2)
        await until(lambda: set(history.gained) == {0, 1})
        await two.stop()
        await one.stop()

    with zookeeper as server:
        asyncio.run(main(server.connect))


@pytest.mark.zookeeper
def test_a_broker_stops_soon_when_zookeeper_is_down(
    tmp_path: Path, zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> float:
        broker = await started(tmp_path, zookeeper.connect, 1)
        await asyncio.to_thread(zookeeper.kill)
        await until(lambda: not (broker.session_state and broker.session_state.connected))
        begun = asyncio.get_running_loop().time()
        await broker.stop()
        return asyncio.get_running_loop().time() - begun

    for _ in range(TRIES):
        with zookeeper:
            took_s = asyncio.run(main())
        if took_s < STOP_S_MAX:
            break
    skipped = "Controlled shutdown skipped: no answer from the metadata store in 1 s"
    assert skipped in caplog.messages
    print(f"stopped in {took_s:.2f} s")
    assert took_s < STOP_S_MAX
