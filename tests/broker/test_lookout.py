"""Brokers whose process is gone are found out by their broken lines, not by their sessions' end."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from cluster_brokers import Brokers, with_brokers

from ottla.broker.broker import Broker
from ottla.broker.lookout import DOUBT_S_MAX
from ottla.cluster import layout
from ottla.cluster.expulsion import expel
from ottla.cluster.image import Broker as BrokerImage
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

SOON_S = 30.0  # while a session's end would take for ever here


async def create(brokers: Brokers, *replicas: list[int]) -> None:
    assignments = [CreatableReplicaAssignment(each, place) for each, place in enumerate(replicas)]
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    request = CreateTopicsRequest(topics=[topic], timeout=60_000)
    answer = await brokers.ask(1, request, ApiKey.CREATE_TOPICS, CreateTopicsResponse)
    assert not answer.topics[0].error_code


def metadata_of(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


async def die_unnoticed(brokers: Brokers, broker_id: int) -> Broker:
    """Like kill -9: nobody listens any more, but the session has not ended yet."""
    broker = brokers.running.pop(broker_id)
    await broker._campaign.halt()
    await broker._registration.unwatch()  # or it would register anew, as one that lives does
    await broker.lookout.stop()
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


def test_who_asks_for_leaders_right_after_a_death_is_told_the_next_ones(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [3, 2])
        await brokers.until(lambda: brokers[2].lookout.watched == {1, 3})
        dead = await die_unnoticed(brokers, 3)
        await brokers.until(lambda: brokers[2].lookout.has_doubts)
        answer = await brokers.ask(2, metadata_of("t"), ApiKey.METADATA, MetadataResponse)
        assert answer.topics[0].partitions[0].leader_id == 2
        # The dead one is shown for a while: librdkafka forgets more than it should with it.
        assert {each.node_id for each in answer.brokers} == {1, 2, 3}
        group = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        found = await brokers.ask(2, group, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
        assert found.coordinators[0].node_id != 3
        await dead.crash()

    with_brokers(tmp_path, scenario)


def test_nobody_waits_long_for_one_who_is_only_out_of_our_reach(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [3, 2])
        lookout = brokers[2].lookout
        await brokers.until(lambda: lookout.watched == {1, 3})
        loop = asyncio.get_running_loop()
        lookout._doubts[3] = loop.time() - DOUBT_S_MAX
        settled = asyncio.ensure_future(lookout.settle(lambda: {3}))
        await asyncio.sleep(0)
        assert settled.done()  # it has been in doubt for long enough
        started = loop.time()
        lookout._doubts[3] = loop.time()
        answer = await brokers.ask(2, metadata_of("t"), ApiKey.METADATA, MetadataResponse)
        assert answer.topics[0].partitions[0].leader_id == 3
        assert loop.time() - started >= DOUBT_S_MAX

    with_brokers(tmp_path, scenario)


def test_a_broker_that_is_reached_again_is_not_in_doubt(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        lookout = brokers[1].lookout
        await brokers.until(lambda: lookout.watched == {2})
        doubted: list[int] = []
        doubt = lookout._doubt

        def note(broker: BrokerImage) -> None:
            doubt(broker)
            doubted.append(broker.id)

        lookout._doubt = note  # type: ignore[method-assign]
        for channel in list(brokers[2]._server._channels):
            channel._socket.shutdown(socket.SHUT_RDWR)
        await brokers.until(lambda: doubted == [2])
        await brokers.until(lambda: not lookout.has_doubts)

    with_brokers(tmp_path, scenario, count=2)


def test_a_broken_line_alone_ends_nobody(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        epoch = brokers[1].image.brokers[2].epoch
        for channel in list(brokers[2]._server._channels):
            channel._socket.shutdown(socket.SHUT_RDWR)
        await asyncio.sleep(0.3)
        assert brokers[1].image.brokers[2].epoch == epoch
        assert brokers[1].image.controller_id == 1

    with_brokers(tmp_path, scenario, count=2)


def test_only_the_life_that_ended_is_ended(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        old = brokers[1].image.brokers[2]
        await brokers.stop(2)
        await brokers.start(2)
        await brokers.until(lambda: 2 in brokers[1].image.brokers)
        store, commits = brokers[1]._meta_store, brokers[1]._commits
        assert not await expel(store, commits, old)
        new = brokers[1].image.brokers[2]
        assert await expel(store, commits, new)
        assert not await expel(store, commits, new)
        assert await store.get(layout.CONTROLLER) is not None

    with_brokers(tmp_path, scenario, count=2)
