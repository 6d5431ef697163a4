"""Dead brokers are detected by broken connections, before their sessions expire."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from cluster_brokers import Brokers, with_brokers

from ottla.broker.broker import Broker
from ottla.broker.failure_detector import SUSPECT_S_MAX
from ottla.cluster import layout
from ottla.cluster.dead_brokers import unregister_dead_broker
from ottla.cluster.image import BrokerRegistration
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

SOON_S = 30.0  # a session does not expire within these tests


async def create(brokers: Brokers, *replicas: list[int]) -> None:
    assignments = [
        CreatableReplicaAssignment(partition, place) for partition, place in enumerate(replicas)
    ]
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    request = CreateTopicsRequest(topics=[topic], timeout=60_000)
    answer = await brokers.ask(1, request, ApiKey.CREATE_TOPICS, CreateTopicsResponse)
    assert not answer.topics[0].error_code


def metadata_of(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


async def die_unnoticed(brokers: Brokers, broker_id: int) -> Broker:
    """Like kill -9: no port listens any more, but the session has not expired yet."""
    broker = brokers.running.pop(broker_id)
    await broker._election.halt()
    await broker._registration.unwatch()  # or it would register again, as a live broker does
    await broker.failure_detector.stop()
    await broker._server.stop(0)
    return broker


def test_the_controller_notices_that_a_broker_is_gone(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [3, 2], [2, 3])
        dead = await die_unnoticed(brokers, 3)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await brokers.until(lambda: brokers.partition(1).leader == 2)
        assert loop.time() - started < SOON_S
        assert 3 not in brokers[1].image.brokers
        await dead.crash()

    with_brokers(tmp_path, scenario)


def test_the_others_notice_that_the_controller_is_gone(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [1, 2, 3])
        dead = await die_unnoticed(brokers, 1)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await brokers.until(lambda: brokers.partition(2).leader == 2)
        assert loop.time() - started < SOON_S
        assert brokers[2].image.controller_id in (2, 3)
        assert not dead.controller.active
        await dead.crash()

    with_brokers(tmp_path, scenario)


def test_metadata_right_after_a_death_names_the_new_leaders(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [3, 2])
        await brokers.until(lambda: brokers[2].failure_detector.watched == {1, 3})
        dead = await die_unnoticed(brokers, 3)
        await brokers.until(lambda: brokers[2].failure_detector.has_suspects)
        answer = await brokers.ask(2, metadata_of("t"), ApiKey.METADATA, MetadataResponse)
        assert answer.topics[0].partitions[0].leader_id == 2
        # The dead broker is shown for a while, because librdkafka forgets too much with it.
        assert {broker.node_id for broker in answer.brokers} == {1, 2, 3}
        group = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        found = await brokers.ask(2, group, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
        assert found.coordinators[0].node_id != 3
        await dead.crash()

    with_brokers(tmp_path, scenario)


def test_a_suspected_broker_delays_metadata_only_briefly(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [3, 2])
        detector = brokers[2].failure_detector
        await brokers.until(lambda: detector.watched == {1, 3})
        loop = asyncio.get_running_loop()
        detector._suspected[3] = loop.time() - SUSPECT_S_MAX
        settled = asyncio.ensure_future(detector.wait_until_settled(lambda: {3}))
        await asyncio.sleep(0)
        assert settled.done()  # it has been suspected for long enough
        started = loop.time()
        detector._suspected[3] = loop.time()
        answer = await brokers.ask(2, metadata_of("t"), ApiKey.METADATA, MetadataResponse)
        assert answer.topics[0].partitions[0].leader_id == 3
        assert loop.time() - started >= SUSPECT_S_MAX

    with_brokers(tmp_path, scenario)


def test_a_broker_that_answers_again_is_no_longer_suspected(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        detector = brokers[1].failure_detector
        await brokers.until(lambda: detector.watched == {2})
        doubted: list[int] = []
        doubt = detector._suspect

        def note(broker: BrokerRegistration) -> None:
            doubt(broker)
            doubted.append(broker.id)

        detector._suspect = note  # type: ignore[method-assign]
        for channel in list(brokers[2]._server._channels):
            channel._socket.shutdown(socket.SHUT_RDWR)
        await brokers.until(lambda: doubted == [2])
        await brokers.until(lambda: not detector.has_suspects)

    with_brokers(tmp_path, scenario, count=2)


def test_a_broken_connection_alone_unregisters_no_broker(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        epoch = brokers[1].image.brokers[2].epoch
        for channel in list(brokers[2]._server._channels):
            channel._socket.shutdown(socket.SHUT_RDWR)
        await asyncio.sleep(0.3)
        assert brokers[1].image.brokers[2].epoch == epoch
        assert brokers[1].image.controller_id == 1

    with_brokers(tmp_path, scenario, count=2)


def test_only_the_dead_incarnation_is_unregistered(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        old = brokers[1].image.brokers[2]
        await brokers.stop(2)
        await brokers.start(2)
        await brokers.until(lambda: 2 in brokers[1].image.brokers)
        store, commits = brokers[1]._meta_store, brokers[1]._writer
        assert not await unregister_dead_broker(store, commits, old)
        new = brokers[1].image.brokers[2]
        assert await unregister_dead_broker(store, commits, new)
        assert not await unregister_dead_broker(store, commits, new)
        assert await store.get(layout.CONTROLLER) is not None

    with_brokers(tmp_path, scenario, count=2)
